"""`--level` limits what sets the exit code; `--baseline` lets only what is new do so."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console

from mxspec_conformance.cli.main import main
from mxspec_conformance.render import RENDERERS
from mxspec_conformance.render.headline import describe_requirement, list_headlines
from mxspec_conformance.render.junit import render_junit
from mxspec_conformance.render.terminal import print_report
from mxspec_conformance.results.baseline import (
    BaselineError,
    apply_baseline,
    apply_list,
    list_unmatched,
    read_baseline,
    read_list,
    render_list,
)
from mxspec_conformance.results.report import Baseline, FormatResult, Report, Requirement, Verdict, load_result_schema, read_report
from mxspec_vectors.topics import Level

NUMBERS = {"must": 0, "should": 1, "contract": 2, "open": 3}


def report_of(*entries: tuple[str, str, str, int], name: str = "k", vectors: str = "0" * 64) -> Report:
    requirements = [Requirement(i, level, "text", Verdict(v), 10, n) for i, level, v, n in entries]
    target = {"name": name, "version": "1", "transport": "python", "capabilities": {}}
    return Report(target=target, vectors=vectors, requirements=requirements)


@pytest.mark.parametrize("failing", ["must", "should", "contract"])
@pytest.mark.parametrize("level", list(Level))
def test_levels_set_the_exit_code(failing: str, level: Level) -> None:
    entries = ("quantize/mxfp4/exact", failing, "fail", 1), ("quantize/mxfp4/axis", "must", "pass", 0)
    report = report_of(*entries, ("quantize/mxfp4/nan", "open", "pass", 0))
    report.exit_level = level
    assert report.exit_code == int(NUMBERS[failing] <= level.rank)


def test_what_is_open_counts_at_level_open_alone() -> None:
    report = report_of(("quantize/mxfp4/nan", "open", "open", 3), ("quantize/mxfp4/axis", "must", "pass", 0))
    for level in Level:
        report.exit_level = level
        assert report.exit_code == int(level is Level.OPEN)


@pytest.mark.parametrize("level", list(Level))
def test_a_level_of_which_a_format_has_nothing_is_no_pass(level: Level) -> None:
    report = report_of(("quantize/mxfp4/axis", "contract", "pass", 0))
    report.exit_level = level
    assert report.exit_code == (2 if level.rank < NUMBERS["contract"] else 0)


def test_only_what_is_new_fails(tmp_path: Path) -> None:
    before = report_of(("quantize/mxfp4/exact", "must", "fail", 4), ("quantize/mxfp4/axis", "contract", "error", 1))
    path = tmp_path / "before.json"
    path.write_text(before.to_json(), encoding="utf-8")
    same = report_of(("quantize/mxfp4/exact", "must", "fail", 4), ("quantize/mxfp4/axis", "contract", "pass", 0))
    more = report_of(("quantize/mxfp4/exact", "must", "fail", 5))
    other = report_of(("quantize/mxfp4/exact", "must", "fail", 4), ("quantize/mxfp4/tail", "contract", "deviation", 1))
    for report, code in ((same, 0), (more, 1), (other, 1)):
        apply_baseline(report, read_baseline(path), path)
        assert report.exit_code == code
        assert read_report(json.loads(report.to_json())).exit_code == code
    assert same.baseline is not None
    assert (same.baseline.known, same.baseline.new, same.baseline.gone) == (["quantize/mxfp4/exact"], [], ["quantize/mxfp4/axis"])
    renewed = report_of(("quantize/mxfp4/exact", "must", "fail", 9), vectors="1" * 64)
    apply_baseline(renewed, read_baseline(path), path)
    assert renewed.exit_code == 0, "counts over other vectors are not compared"


def test_at_another_level_a_baseline_knows_by_id_and_says_so(tmp_path: Path) -> None:
    """The full run of an unchanged kernel has more failing cases than its quick baseline; that is nothing new."""
    quick, full = report_of(("quantize/mxfp4/exact", "must", "fail", 2)), report_of(("quantize/mxfp4/exact", "must", "fail", 9))
    quick.details["level"] = "quick"
    path = tmp_path / "before.json"
    path.write_text(quick.to_json(), encoding="utf-8")
    apply_baseline(full, read_baseline(path), path)
    assert full.exit_code == 0
    screen = StringIO()
    print_report(full, Console(file=screen, width=200))
    assert "the baseline was written at the quick level; this run is full: counts differ" in screen.getvalue()
    jsonschema.validate(full.as_dict(), load_result_schema())
    more = report_of(("quantize/mxfp4/exact", "must", "fail", 9))
    more.details["level"] = "quick"
    apply_baseline(more, read_baseline(path), path)
    assert more.exit_code == 1, "at one level counts are compared"
    assert "level" not in more.as_dict()["baseline"]


def test_a_baseline_that_is_none_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(report_of(name="other").to_json(), encoding="utf-8")
    with pytest.raises(BaselineError, match="holds no result of k; it holds other"):
        apply_baseline(report_of(), read_baseline(path), path)
    for text in ("{}", "nonsense", "[1]"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BaselineError, match="is no result of"):
            read_baseline(path)


def test_the_command(tmp_path: Path) -> None:
    away = str(Path(__file__).parent / "targets" / "five_lines_away.py")
    result = str(tmp_path / "r.json")
    arguments = ["check", away, "--in-process", "--format", "mxfp4", "--only", "quantize/*/tie-even"]
    first = CliRunner().invoke(main, [*arguments, "--json", result])
    assert first.exit_code == 1, first.output
    again = CliRunner().invoke(main, [*arguments, "--baseline", result])
    assert again.exit_code == 0, again.output
    assert "1 known, 0 new, 0 gone" in again.output
    missing = CliRunner().invoke(main, [*arguments, "--baseline", str(tmp_path / "none.json")])
    assert missing.exit_code == 2


def test_what_the_baseline_knows_looks_known_everywhere() -> None:
    """A failure that is known is told from a new one by count, mark and colour, as a waived one is."""
    entries = ("quantize/mxfp4/exact", "must", "fail", 4), ("quantize/mxfp4/axis", "must", "pass", 0)
    for known, color, headline in (
        (["quantize/mxfp4/exact"], "yellowgreen", "Nothing new fails"),
        ([], "red", "Not all requirements pass"),
    ):
        report = report_of(*entries)
        report.baseline = Baseline(version="", vectors="", known=known)
        document, screen = report.as_dict(), StringIO()
        print_report(report, Console(file=screen, width=200))
        forms = {kind: render([document]).decode() for kind, render in RENDERERS.items()}
        due = "1 pass, 1 known failure" if known else "1 pass, 1 fail"
        assert (f"{due}; nothing new fails" if known else f"{due}; not all requirements pass") in screen.getvalue()
        assert f"{headline}: {due}." in forms["markdown"]
        assert json.loads(forms["badge"])["message"] == ("pass, 1 known" if known else due)
        assert json.loads(forms["badge"])["color"] == color
        for kind, mark in (("markdown", "| k known fail |"), ("html", "k known fail</span>"), ("junit", "known to the baseline: ")):
            assert (mark in forms[kind]) == bool(known), kind
        assert ("| \u2717 fail |" in forms["markdown"]) != bool(known)
        assert ("known fail " in screen.getvalue()) == bool(known)


def test_the_cause_comes_first_and_counts_once() -> None:
    """What a failure is in one line, in JUnit and pytest."""
    report = report_of(
        ("quantize/mxfp4/exact", "must", "fail", 4), ("quantize/mxfp4/nan", "must", "error", 8), ("quantize/mxfp4/state", "must", "fail", 1)
    )
    exact, nan, state = report.requirements
    nan.note, state.text = "8 of 10 cases: RuntimeError", "no call changes another"
    report.formats = [FormatResult("mxfp4", "mx-floor", "claimed", False, 4, 10, deviations=["x / scale is cut"])]
    messages = [str(f.get("message")) for f in Xml.fromstring(render_junit([report.as_dict()])).iter() if f.tag in ("failure", "error")]
    assert messages == [describe_requirement(report, r) for r in (exact, nan, state)]
    assert messages == [
        "x / scale is cut (fail: 4 of 10 cases)",
        "error in 8 of 10 cases: RuntimeError",
        "1 of 10 cases break the rule: no call changes another",  # not a matter of rounding
    ]


def test_a_list_with_a_bom_names_what_was_meant_and_what_to_delete(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    wrong = ["quantize/mxfp4/tie-evn", *(f"decode/e2m1/unknown-{n}" for n in range(9)), "quantize/mxfp4/axis"]
    path.write_text("\ufeff" + "\n".join([*wrong, "quantize/mxfp4/exact"]), "utf-8")
    report = report_of(
        ("quantize/mxfp4/exact", "must", "pass", 0), ("quantize/mxfp4/tie-even", "must", "fail", 1), ("quantize/mxfp4/axis", "must", "unsupported", 0)
    )  # fmt: skip
    entries = read_list(path)
    assert entries is not None
    apply_list(report, entries, file=path.name)
    assert (
        list_unmatched(report)[0]
        == "the baseline lists quantize/mxfp4/tie-evn, which matches nothing; did you mean quantize/mxfp4/tie-even?"
    )
    assert list_unmatched(report)[-1] == "the baseline lists quantize/mxfp4/axis, which is not judged"
    assert "quantize mxfp4: exact passes, but the baseline known.txt lists it: delete the line" in list_headlines(report)
    screen = StringIO()
    print_report(report, Console(file=screen, width=200), brief=True)
    shown = screen.getvalue().count("the baseline lists ")
    assert 0 < shown < len(wrong)
    assert f"and {len(wrong) - shown} more: -v lists all" in screen.getvalue()
    assert "\ufeff" not in render_list(report, path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs are POSIX's")
def test_a_baseline_is_a_regular_file_of_bounded_depth(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "deep").write_text("[" * 100_000, "ascii")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name, words in (("fifo", "a FIFO, not a regular file"), ("deep", "nested too deeply"), ("zeros", "a device, not a regular file")):
        with pytest.raises(BaselineError, match=words):
            read_baseline(tmp_path / name)


def test_junit_fails_what_the_exit_code_counts() -> None:
    """What the baseline knows, and what is of a less binding level, is skipped there."""
    report = report_of(
        ("quantize/mxfp4/exact", "must", "fail", 1), ("quantize/mxfp4/nan", "must", "error", 2), ("scale/mxfp4/nan", "should", "fail", 3),
        ("decode/e2m1/code", "must", "pass", 0),
    )  # fmt: skip
    report.exit_level = Level.MUST
    for known, failures, errors, skipped in ((["quantize/mxfp4/exact"], 0, 1, 2), ([], 1, 1, 1)):
        report.baseline = Baseline(version="1", vectors=report.vectors, known=known, new=[], gone=[])
        (suite,) = Xml.fromstring(render_junit([report.as_dict()]))
        assert [suite.get(name) for name in ("failures", "errors", "skipped")] == [str(failures), str(errors), str(skipped)]
        assert [len(list(suite.iter(name))) for name in ("failure", "error", "skipped")] == [failures, errors, skipped]
