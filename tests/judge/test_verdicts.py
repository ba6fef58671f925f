"""What a verdict says: of what is right, of ties alone, of one case, of what is left out."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import mxspec
from mxspec import Rounding
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec_conformance.judge.check import check
from mxspec_conformance.render.terminal import print_report
from mxspec_conformance.results.conclusion import conclude
from mxspec_conformance.results.report import Verdict

from tests.bugs import find
from tests.bugs.building import Answer, Array, by_rounding, make, on_blocks, right
from tests.bugs.judging import judge
from tests.judge.reading import AWAY, FIVE, failing, passed, requirement


def test_five_lines_conform_everywhere() -> None:
    """In a child process, as the command does it."""
    report = check(FIVE)
    assert failing(report) == {}
    assert report.exit_code == 0
    assert report.target["transport"] == "python-child"
    assert [f.format for f in report.formats] == list(BLOCKS)
    for result in report.formats:
        default = mxspec.default_profile(result.format).id
        assert (result.judged_against, result.chosen, result.distance) == (default, "nearest", 0)
        assert default in result.identical_to
        assert result.deviations == []
        assert result.cases > 3000
        assert conclude(result, report.requirements).text == f"conforms to {default}"
    assert {f"{o}/{e}/{t}" for e in ELEMENTS for o, t in (("encode", "tie-even"), ("decode", "code"))} <= passed(report)
    assert {f"quantize/{f}/{t}" for f in BLOCKS for t in ("tie-even", "nan", "inf", "call-size")} <= passed(report)


def test_ties_away_fail_the_ties_and_nothing_else() -> None:
    report = check(AWAY, in_process=True)
    assert report.exit_code == 1
    assert set(failing(report)) == {*(f"quantize/{f}/tie-even" for f in BLOCKS), *(f"encode/{e}/tie-even" for e in ELEMENTS)}
    assert set(failing(report).values()) == {"fail"}
    for result in report.formats:
        default = mxspec.default_profile(result.format).id
        assert result.judged_against == default
        assert result.deviations == ["nearest, ties away from zero"]
        text = f"as {default} with elements rounded nearest, ties away from zero"
        assert requirement(report, f"quantize/{result.format}/tie-even").note == text
    for element in ELEMENTS:
        assert requirement(report, f"encode/{element}/tie-even").note == "as rounding rna"


def test_a_failure_shows_what_it_must() -> None:
    """Requirement in words, id, input bits, expected and returned bits, the step, a profile that agrees, a snippet."""
    target = make(["mxfp4"], quantize=on_blocks(by_rounding(Rounding.RNZ)))
    (found,) = check(target, only="quantize/mxfp4/tie-even").requirements
    assert found.text == "a quotient midway between two codes goes to the even one"
    assert found.level == "must"
    assert found.failing_cases
    failure = found.first
    assert failure is not None
    assert failure.case in found.failing_cases
    differs = [n for n, code in failure.expected["codes"].items() if failure.returned["codes"][n] != code]
    assert len(differs) == 1, "the case is shrunk to the lane that differs"
    assert failure.expected["scale"] == failure.returned["scale"]
    assert len(failure.given["x"]) == 2
    assert any("tie" in step for step in failure.steps)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(failure.snippet, namespace := {})
    answer = namespace["q"]
    lane = int(differs[0].removeprefix("lane "))
    assert f"{int(answer.scales[0]):02x}" == failure.expected["scale"]
    assert f"{int(answer.codes[lane]):02x}" == failure.expected["codes"][differs[0]]
    bits = int(answer_input := namespace["x"][lane])
    assert failure.given["x"][differs[0]].startswith(f"0x{answer_input:08x} = ")
    assert bits & 0x7FFFFFFF
    assert printed.getvalue()


def test_one_wrong_scale_byte_is_one_finding() -> None:
    report = judge(find("one wrong scale byte"))
    assert set(failing(report)) == {"quantize/mxfp4/position"}
    assert requirement(report, "quantize/mxfp4/position").failing == 1
    assert report.formats[0].distance == 1


def test_numbers_of_the_report_add_up() -> None:
    report = check(make(["mxfp4"], quantize=on_blocks(by_rounding(Rounding.RTZ))))
    (result,) = report.formats
    assert 0 < result.distance < result.cases
    assert result.distance == result.distances["mx-floor"] == min(result.distances.values())
    assert set(result.distances) == {"mx-floor", "mx-rceil", "mx-even", "mx-ceil"}
    for each in report.requirements:
        assert 0 <= each.failing <= each.cases
        assert (each.failing == 0) == (each.verdict in ("pass", "unsupported"))
        assert len(each.failing_cases) == min(each.failing, 20) == len(set(each.failing_cases))


def test_only_format_and_profile() -> None:
    some = check(FIVE, in_process=True, formats=["mxfp4"], only="quantize/*/tie-*")
    assert [r.id for r in some.requirements] == ["quantize/mxfp4/tie-even"]
    assert [f.format for f in some.formats] == ["mxfp4"]
    none = check(FIVE, in_process=True, formats=["mxfp4"], only="nothing/*")
    assert (none.requirements, none.exit_code) == ([], 2)
    scalars = check(FIVE, in_process=True, formats=["mxint8"])
    assert {r.id.split("/")[1] for r in scalars.requirements} == {"mxint8", "int8"}
    with pytest.raises(ValueError, match=r"unknown profile 'mx-flor'; did you mean mx-floor"):
        check(FIVE, in_process=True, profile="mx-flor")
    with pytest.raises(ValueError, match=r"profile nvfp4-te covers nvfp4; the target offers mxfp4"):
        check(make(["mxfp4"], quantize=right), profile="nvfp4-te")
    with pytest.raises(ValueError, match="unknown block format 'mxfp5'"):
        check(FIVE, in_process=True, formats=["mxfp5"])


def test_not_implemented_is_unsupported() -> None:
    def later(x: Array, fmt: str) -> Answer:
        raise NotImplementedError("later")

    def fp4_only(x: Array, fmt: str) -> Answer:
        if fmt == "mxfp8_e4m3":
            raise NotImplementedError("fp4 only")
        return right(x, fmt)

    nothing = check(make(["mxfp4"], quantize=later))
    assert {r.verdict.value for r in nothing.requirements} == {"unsupported"}
    assert nothing.exit_code == 2
    assert (nothing.formats[0].distance, nothing.formats[0].cases) == (0, 0)
    report = check(make(["mxfp4", "mxfp8_e4m3"], quantize=fp4_only))
    assert (failing(report), report.exit_code) == ({}, 0)
    verdicts = {r.verdict.value for r in report.requirements if "/mxfp8_e4m3/" in r.id}
    assert verdicts == {"unsupported"}
    assert requirement(report, "quantize/mxfp8_e4m3/nan").note == "fp4 only"


def test_what_is_not_offered_of_a_call_hides_no_wrong_answer() -> None:
    """Blocks with tiny scales are not offered: the others, asked in the same calls, are judged."""

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = right(x, fmt)
        if (scales < 8).any():
            raise NotImplementedError("no tiny blocks")
        return np.where(codes & 7 == 5, codes ^ 1, codes), scales

    report = check(make(["mxfp4"], quantize=quantize), only="quantize/mxfp4/exact")
    exact = requirement(report, "quantize/mxfp4/exact")
    assert (exact.verdict.value, report.exit_code) == ("fail", 1)
    assert 0 < exact.failing < exact.cases


def test_a_scale_that_is_not_offered_hides_no_wrong_value() -> None:
    """`dequantize` declines scales that are NaN: every other scale byte is judged."""

    def dequantize(codes: Array, scales: Array, fmt: str) -> Array:
        if (scales == 255).any():
            raise NotImplementedError("no NaN")
        return mxspec.dequantize(np.where(codes == 5, 4, codes) if wrong else codes, scales, fmt)

    for wrong, verdict in ((False, "pass"), (True, "fail")):
        report = check(make(["mxfp4"], dequantize=dequantize), only="dequantize/mxfp4/*code")
        code = requirement(report, "dequantize/mxfp4/code")
        assert (code.verdict.value, report.exit_code) == (verdict, wrong)
        assert report.formats[0].causes == []
        assert code.cases == 254  # the ends of the range count as scale codes; one case is every pair of adjacent codes


def test_raising_on_nan_alone_is_open() -> None:
    report = judge(find("raises on NaN alone"))
    assert (failing(report), report.exit_code) == ({}, 0)
    left_open = {r.id for r in report.requirements if r.verdict == "open"}
    assert left_open == {f"{f}/nan" for f in ("quantize/mxfp4", "quantize/mxfp8_e4m3", "encode/e2m1", "encode/e4m3")}
    assert all("refused in" in requirement(report, i).note for i in left_open)
    assert report.formats[0].identical_to == []


def test_one_guilty_case_is_found_by_bisection() -> None:
    """One block of hundreds raises: one case is in error, all others are judged."""
    report = judge(find("raises on one block"))
    assert failing(report)["quantize/mxfp4/position"] == "error"
    found = requirement(report, "quantize/mxfp4/position")
    assert (found.failing, found.note.split(":")[0]) == (1, f"1 of {found.cases} cases")
    assert found.failing_cases[0].startswith("position-0-p-")


def test_a_target_that_writes_into_its_input_harms_itself_alone() -> None:
    report = judge(find("writes into its input"))
    assert failing(report) == {"quantize/mxfp4/memory": "fail"}
    assert report.formats[0].distance == 0


def test_objects_and_paths_are_targets() -> None:
    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        return t.codes, t.scales

    report = check(SimpleNamespace(FORMATS=["mxfp4"], quantize=quantize))
    assert (failing(report), report.exit_code) == ({}, 0)
    assert report.target["name"] == "SimpleNamespace"
    assert check(Path(FIVE), in_process=True, formats=["mxfp4"], only="scale/*").exit_code == 0


def test_the_line_of_a_format_does_not_deny_what_fails_below_it() -> None:
    """Every case of the vectors has the profile's bits, and larger calls have not: the line counts all requirements."""

    def quantize(x: Any, fmt: str) -> Any:
        codes, scales = right(x, fmt)
        return (codes ^ 1 if x.shape == (64, 64) else codes), scales

    report = check(make(["mxfp4"], quantize=quantize), only="quantize/mxfp4/*")
    (result,) = report.formats
    unmet = [r for r in report.requirements if r.verdict is Verdict.FAIL]
    assert (result.failing, {r.topic for r in unmet}) == (0, {"call-size"})
    conclusion = conclude(result, report.requirements)
    assert conclusion.failing == sum(r.failing for r in unmet)
    assert conclusion.cases == sum(r.cases for r in report.requirements)
    screen = io.StringIO()
    print_report(report, Console(file=screen, width=80), failures=0)
    assert f" {conclusion.failing}/{conclusion.cases}\n" in screen.getvalue()


@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2"])
def test_a_nan_that_only_blocks_of_zeros_lose_is_counted_and_open_where_ocp_leaves_it_open(fmt: str) -> None:
    """A maximum that passes over NaN is zero where no other number is: a public library returns zeros there, and keeps NaN elsewhere."""

    def quantize(x: Any, name: str) -> Any:
        numbers = np.where(np.isnan(x), np.float32(0), x)
        t = mxspec.quantize(numbers, name)
        codes, nan_code = np.array(t.codes), mxspec.get_block(name).element.nan_code
        if nan_code is not None:
            largest = np.abs(numbers).reshape(len(x), -1, 32).max(axis=-1)
            codes[np.isnan(x) & (np.repeat(largest, 32, axis=-1) > 0)] = nan_code
        return codes, t.scales

    (result,) = check(SimpleNamespace(NAME="passes-nan-over", VERSION="1", FORMATS=[fmt], quantize=quantize), only="quantize/*/nan").formats
    in_fp8 = fmt.startswith("mxfp8")
    of_nan = [d for d in (result.deviations if in_fp8 else result.open_choices) if d.startswith("NaN: ")]
    assert len(of_nan) == 1
    assert ("the NaN is lost in " in of_nan[0]) == in_fp8
    assert not any(d.startswith("NaN: ") for d in (result.open_choices if in_fp8 else result.deviations))
