"""Waivers excuse known failures, and fail themselves as soon as they do not hold."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mxspec_conformance.cli.main import main
from mxspec_conformance.results.report import Failure, Report, Requirement, Verdict, WaiverState, read_report
from mxspec_conformance.results.waivers import DEFAULT_DAYS, Waiver, WaiverError, apply_waivers, read_waivers, render_waivers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TODAY = date(2026, 11, 21)
ENTRY = {"id": "quantize/mxfp4/tie-even", "reason": "known", "link": "https://example.org/1", "expires": "2026-12-31"}


def report(**verdicts: str) -> Report:
    """A report on quantize/mxfp4 with a verdict for each topic; 3 of 10 cases fail where it is not passed."""
    requirements = []
    for topic, verdict in verdicts.items():
        found = Requirement(f"quantize/mxfp4/{topic.replace('_', '-')}", "must", "text", Verdict(verdict), 10)
        if verdict in ("fail", "deviation", "error", "timeout"):
            found.failing, found.failing_cases = 3, ["a", "b", "c"]
            found.first = Failure("a", {}, {}, {})
        requirements.append(found)
    target = {"name": "t", "version": "1.2.3", "transport": "python", "capabilities": {}}
    environment = {"device": "NVIDIA H200"}
    return Report(target=target, vectors="0" * 64, requirements=requirements, environment=environment)


def waiver(**fields: Any) -> Waiver:
    given: dict[str, Any] = {"reason": "known", "link": "https://example.org/1", "expires": date(2026, 12, 31)}
    return Waiver(**{"id": "quantize/mxfp4/tie-even", **given, **fields})


def states(r: Report) -> list[str]:
    return [w["state"] for w in r.waivers]


def verdicts(r: Report) -> dict[str, str]:
    return {q.id.split("/")[2]: q.verdict.value for q in r.requirements}


@pytest.mark.parametrize("verdict", ["fail", "deviation", "error", "timeout"])
def test_a_waived_failure_is_good(verdict: str) -> None:
    r = report(tie_even=verdict, exact="pass")
    assert r.exit_code == 1
    apply_waivers(r, [waiver()], today=TODAY)
    assert verdicts(r) == {"tie-even": "waived", "exact": "pass"}
    assert (states(r), r.exit_code) == (["used"], 0)
    assert "known" in r.requirements[0].note


def test_a_glob_covers_several() -> None:
    r = report(tie_even="fail", below_tie="deviation", exact="pass")
    apply_waivers(r, [waiver(id="quantize/*/*tie*")], today=TODAY)
    assert (verdicts(r)["tie-even"], verdicts(r)["below-tie"], r.exit_code) == ("waived", "waived", 0)


def test_a_failure_that_is_not_covered_stays() -> None:
    r = report(tie_even="fail", exact="fail")
    apply_waivers(r, [waiver()], today=TODAY)
    assert (verdicts(r)["exact"], r.exit_code) == ("fail", 1)


def test_what_passes_may_not_be_waived() -> None:
    r = report(tie_even="pass")
    apply_waivers(r, [waiver()], today=TODAY)
    assert (verdicts(r), states(r), r.exit_code) == ({"tie-even": "stale waiver"}, ["covers what passes"], 1)


def test_a_glob_that_covers_one_that_passes_is_stale() -> None:
    r = report(tie_even="fail", below_tie="pass")
    apply_waivers(r, [waiver(id="quantize/mxfp4/*")], today=TODAY)
    assert verdicts(r) == {"tie-even": "waived", "below-tie": "stale waiver"}
    assert (states(r), r.exit_code) == (["covers what passes"], 1)


@pytest.mark.parametrize("given", [{"tie_even": "unsupported", "exact": "pass"}, {"exact": "pass"}])
def test_a_waiver_that_matches_nothing_fails(given: dict[str, str]) -> None:
    r = report(**given)
    assert r.exit_code == 0
    apply_waivers(r, [waiver()], today=TODAY)
    assert (states(r), r.exit_code) == (["matches nothing"], 1)


def test_a_waiver_holds_on_its_last_day_and_not_after() -> None:
    last = report(tie_even="fail")
    apply_waivers(last, [waiver(expires=TODAY)], today=TODAY)
    assert last.exit_code == 0
    after = report(tie_even="fail")
    apply_waivers(after, [waiver(expires=TODAY)], today=TODAY + timedelta(days=1))
    assert (verdicts(after), states(after), after.exit_code) == ({"tie-even": "fail"}, ["expired"], 1)
    assert "the waiver ended on 2026-11-21" in after.requirements[0].note


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"version": "1.2.*"}, "used"),
        ({"version": "1.3.*"}, "not for this target"),
        ({"device": "*H200"}, "used"),
        ({"device": "*MI350*"}, "not for this target"),
        ({"failing": 3}, "used"),
        ({"failing": 2}, "covers another number of failing cases"),
    ],
)
def test_a_waiver_may_be_of_a_version_a_device_a_number(fields: dict[str, Any], state: str) -> None:
    r = report(tie_even="fail")
    apply_waivers(r, [waiver(**fields)], today=TODAY)
    assert states(r) == [state]
    assert verdicts(r)["tie-even"] == ("waived" if state == "used" else "fail")
    assert r.exit_code == int(state != "used")


@pytest.mark.parametrize("run", ["quick", "full"])
@pytest.mark.parametrize("written", ["quick", "full", None])
def test_a_count_holds_at_its_own_level(tmp_path: Path, written: str | None, run: str) -> None:
    """At the other one a waiver holds by its id; a file that names no level is as before, and the note says what may be wrong."""
    path = tmp_path / "waivers.toml"
    entry = "\n".join(f'{key} = "{text}"' for key, text in ENTRY.items() if key != "expires")
    head = f'level = "{written}"\n' if written else ""
    path.write_text(f"{head}[[waiver]]\n{entry}\nexpires = 2026-12-31\nfailing = 16\n", encoding="utf-8")
    r = report(tie_even="fail")
    r.details = {"level": "quick"} if run == "quick" else {}
    apply_waivers(r, read_waivers(path), today=TODAY)
    other = written not in (None, run)
    assert (states(r), r.exit_code) == ((["used"], 0) if other else (["covers another number of failing cases"], 1))
    assert r.waivers[0].get("level") == (written if other else None)
    assert ("the file does not say its level" in r.requirements[0].note) == (written is None)
    assert read_report(r.as_dict()).waivers == r.waivers


@pytest.mark.parametrize(("written", "run", "stale"), [("full", "quick", False), ("quick", "full", True), ("full", "full", True)])
def test_fewer_cases_make_no_waiver_stale(written: str, run: str, stale: bool) -> None:
    """What fails among all cases may pass among those of the quick level; what failed among these has been mended if it passes among all."""
    for given in ({"tie_even": "pass"}, {"exact": "pass"}):
        r = report(**given)
        r.details = {"level": run}
        apply_waivers(r, [waiver(level=written)], today=TODAY)
        assert r.exit_code == int(stale)
        assert stale or states(r) == ["covers what the quick level does not fail"]


def test_a_level_that_there_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text('level = "fast"', encoding="utf-8")
    with pytest.raises(WaiverError, match="level = 'fast'; write 'quick' or 'full'"):
        read_waivers(path)


def test_every_state_is_in_the_schema() -> None:
    r = report(tie_even="fail")
    r.waivers = [{**ENTRY, "state": s.value, "requirements": []} for s in WaiverState]
    assert read_report(r.as_dict()).waivers == r.waivers


def test_written_waivers_read_back_and_excuse_all(tmp_path: Path) -> None:
    r = report(tie_even="fail", exact="pass", nan="deviation", inf="error", tail="unsupported")
    r.requirements[2].note = 'as "x"\\y\nz \u007f é'
    path = tmp_path / "waivers.toml"
    path.write_text(render_waivers([r], today=TODAY), encoding="utf-8")
    with pytest.raises(
        WaiverError, match="quantize/mxfp4/tie-even, quantize/mxfp4/nan, quantize/mxfp4/inf still say TODO; write in reason"
    ):
        read_waivers(path)
    path.write_text(path.read_text("utf-8").replace("TODO: ", ""), encoding="utf-8")
    waivers = read_waivers(path)
    assert [w.id for w in waivers] == [f"quantize/mxfp4/{t}" for t in ("tie-even", "nan", "inf")]
    assert {w.expires for w in waivers} == {TODAY + timedelta(days=DEFAULT_DAYS)}
    apply_waivers(r, waivers, today=TODAY)
    assert r.exit_code == 0
    assert {w["state"] for w in r.waivers} == {"used"}


def test_without_failures_there_are_no_waivers(tmp_path: Path) -> None:
    assert tomllib.loads(render_waivers([report(exact="pass")], today=TODAY)) == {"level": "full"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[waiver]", "is not TOML"),
        ("[waiver]\nid = 'x'", r"write \[\[waiver\]\]"),
        ("[[waivers]]", "unknown table 'waivers'"),
        ("[[waiver]]\nid = 'x'", "waiver 1 has no reason"),
        ("reason = ''", "reason = ''; write a text"),
        ("expires = '2026-12-31'", "write a date without quotes"),
        ("expires = 2026-12-31T00:00:00", "write a date without quotes"),
        ("failing = 0", "failing = 0; write how many"),
        ("failing = true", "failing = True; write how many"),
        ("until = 3", "unknown key 'until'; allowed are id, reason"),
    ],
)
def test_a_waiver_file_that_is_none_is_refused(text: str, words: str, tmp_path: Path) -> None:
    if "waiver" not in text:  # one field of an entry that is right otherwise
        key = text.partition(" ")[0]
        fields = {"id": "'x'", "reason": "'r'", "link": "'l'", "expires": "2026-12-31"}
        rest = [f"{k} = {v}" for k, v in fields.items() if k != key]
        text = "\n".join(["[[waiver]]", *rest, text])
    path = tmp_path / "waivers.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WaiverError, match=words):
        read_waivers(path)


def test_the_command(tmp_path: Path) -> None:
    """Today's failures written, then waived; then the file's first id changed, so that it covers something else."""
    target = tmp_path / "away.py"
    target.write_text(
        'import ml_dtypes\nNAME, VERSION, ELEMENTS = "away", "1", ["e2m1"]\n'
        "def decode(codes, element):\n"
        "    v = codes.view(ml_dtypes.float4_e2m1fn).astype('float32').copy()\n"
        "    v[codes == 3] = 2\n"
        "    return v\n",
        encoding="utf-8",
    )
    waivers = tmp_path / "waivers.toml"
    run = CliRunner().invoke
    written = run(main, ["check", str(target), "--write-waivers", str(waivers)])
    assert written.exit_code == 1, written.output
    refused = run(main, ["check", str(target), "--waivers", str(waivers)])
    assert refused.exit_code == 2
    assert refused.output == (
        f"mxspec: {waivers}: decode/e2m1/code still says TODO; write in reason why the failure is accepted, and in link where that can be "
        "checked, or delete the entry\n"
    )
    for half in ("TODO: why", "TODO: an"):  # the link alone, then neither
        waivers.write_text(waivers.read_text("utf-8").replace(half, "known:"), encoding="utf-8")
        waived = run(main, ["check", str(target), "--waivers", str(waivers)])
        assert waived.exit_code == (2 if half == "TODO: why" else 0), waived.output
    assert "pass or are waived" in waived.output
    waivers.write_text(waivers.read_text("utf-8").replace("decode/e2m1/code", "decode/e2m1/cod"), encoding="utf-8")
    stale = run(main, ["check", str(target), "--waivers", str(waivers)])
    assert stale.exit_code == 1
    assert "stale waiver decode/e2m1/cod: matches nothing" in stale.output
    missing = run(main, ["check", str(target), "--waivers", str(tmp_path / "no.toml")])
    assert missing.exit_code == 2
    assert "--write-waivers" in missing.output


def test_many_unfinished_waivers_are_counted(tmp_path: Path) -> None:
    topics = ["exact", "tail", "nan", "inf", "axis", "zero", "memory"]
    path = tmp_path / "waivers.toml"
    path.write_text(render_waivers([report(**dict.fromkeys(topics, "fail"))], today=TODAY), encoding="utf-8")
    with pytest.raises(WaiverError, match=r"quantize/mxfp4/axis and 2 more still say TODO"):
        read_waivers(path)
