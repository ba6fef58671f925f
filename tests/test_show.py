"""`mxspec show` opens, replays and writes any case that a report names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mxspec_conformance.cli.main import main
from mxspec_conformance.counterexample.replay import find_cases
from mxspec_conformance.judge.check import check
from mxspec_conformance.render.terminal import failure_text
from mxspec_conformance.render.view import view_deviation

FIVE = str(Path(__file__).parent / "targets" / "five_lines.py")
AWAY = str(Path(__file__).parent / "targets" / "five_lines_away.py")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["show", *arguments], catch_exceptions=False)
    return done.exit_code, done.output


def test_every_failing_case_of_a_report_opens_and_differs_again() -> None:
    report = check(AWAY, in_process=True, formats=["mxfp4"])
    ids = [case for r in report.requirements if r.topic == "tie-even" for case in r.failing_cases[:3]]
    assert len(ids) == 6
    for name in ids:
        assert find_cases(name), name
        code, text = run(name, "--against", AWAY, "--in-process")
        assert code == 1, text
        assert run(name, "--against", FIVE, "--in-process")[0] == 0


@pytest.mark.parametrize(
    "name", ["nan-zeros-ab30bf7fef", "nan-zeros-ab30bf7fef@bfloat16", "table-one-level-scale-7f", "code-0d", "axis-1-wide-d4c007c0e5"]
)
def test_cases_of_each_kind_open(name: str, tmp_path: Path) -> None:
    out = tmp_path / "input.npy"
    code, text = run(name, "--out", str(out))
    assert code == 0, text
    assert name in text
    assert np.load(out).size


def test_an_unknown_case_is_one_message() -> None:
    code, text = run("no-such-case")
    assert code == 2
    assert "no case is named 'no-such-case'" in text


def test_a_target_is_shown_by_the_profile_that_check_judges_by(tmp_path: Path) -> None:
    """The nearest one, or the one that it claims; without a target, or by name, another."""
    file, case = tmp_path / "ceil.py", "nan-zeros-ab30bf7fef"
    file.write_text(
        'import mxspec\nNAME, VERSION, FORMATS = "ceil", "1", ["mxfp4"]\n'
        'def quantize(x, fmt):\n    t = mxspec.quantize(x, fmt, profile="mx-ceil")\n    return t.codes, t.scales\n', "ascii"
    )  # fmt: skip
    assert check(str(file), in_process=True, quick=True, data=[]).formats[0].judged_against == "mx-ceil"
    for given, profile in (((), "mx-ceil"), (("--profile", "mx-rceil"), "mx-rceil")):
        assert f" {profile} " in run(case, "--against", str(file), "--in-process", *given)[1]
    assert " mx-floor" in run(case)[1]
    file.write_text('PROFILE = "mx-even"\n' + file.read_text("ascii"), "ascii")
    assert " mx-even " in run(case, "--against", str(file), "--in-process")[1]


@pytest.mark.parametrize("name", ["matmul/mxfp4@mxfp4/sum", "integers 0, k = 96", "a NaN scale in b"])
def test_a_product_is_refused_with_the_way_to_see_it(name: str) -> None:
    code, text = run(name)
    assert code == 2
    assert "Nor are calls of matmul" in text
    assert "mxspec explain RESULT.json" in text


def test_what_has_no_answer_is_not_shown_as_one(tmp_path: Path) -> None:
    """Neither by `show` nor in a report: inputs alone, and what came instead."""
    file = tmp_path / "lost.py"
    file.write_text(
        'NAME, VERSION, FORMATS = "lost", "1", ["mxfp4"]\ndef quantize(x, fmt):\n    raise RuntimeError("the card is lost")\n', "ascii"
    )
    code, text = run("underflow-e0-p-191e579833", "--against", str(file), "--in-process")
    assert code == 1
    assert "  mx-floor\n" in text  # no column follows
    assert text.index("the card is lost") < text.index("code 0 ")
    requirement = next(r for r in check(str(file), in_process=True, quick=True, data=[]).requirements if r.first is not None)
    text = failure_text(requirement)
    assert "returned: error: RuntimeError: the card is lost" in text
    assert " expected " not in text
    seen = view_deviation(requirement, "")
    assert (seen.lanes, dict(seen.facts)["returned answer"]) == ((), "error: RuntimeError: the card is lost")
    assert dict(seen.facts)["input"].startswith("lane 0 0x")
