"""What is shown first: the case of the cause that is named, failures before what is open, in the smallest call that shows them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import mxspec
from mxspec_conformance.judge.causes.known import KnownCause
from mxspec_conformance.judge.check import check
from mxspec_conformance.render import RENDERERS
from mxspec_conformance.render.terminal import print_report
from mxspec_conformance.results.conclusion import SHOWN_BY, list_unmet
from mxspec_conformance.results.report import Report, Verdict
from mxspec_vectors.topics import TOPICS, Level

from tests.bugs.building import Answer, Array, make, right, right_values
from tests.judge.reading import requirement
from tests.judge.test_neighbours import spoil


def tail(x: Array, fmt: str) -> Answer:
    """Rows after the last whole tile of 64 are not written, where there are whole tiles."""
    codes, scales = right(x, fmt)
    if len(x) > 64:
        codes[len(x) // 64 * 64 :], scales[len(x) // 64 * 64 :] = 0, 0
    return codes, scales


def fifth(x: Array, fmt: str, axis: int = -1) -> Answer:
    """The fifth block of a row has another scale; along the first axis the third has none."""
    codes, scales = right(x, fmt, axis=axis)
    if axis in (-1, 1):
        scales[:, 4:5] ^= 1
    else:
        scales[2:3] = 0
    return codes, scales


@lru_cache(maxsize=1)
def judge_tail() -> Report:
    return check(make(["mxfp4"], quantize=tail), only="quantize/mxfp4/[oczs][vaec]*", quick=True)


def show(report: Report, failures: int) -> Iterator[str]:
    """The requirements whose cases are on the screen, in order."""
    screen = io.StringIO()
    print_report(report, Console(file=screen, width=200), failures=failures)
    lines = screen.getvalue().splitlines()
    yield from (lines[i - 1].split()[0] for i, line in enumerate(lines) if line.startswith("  case "))


def test_the_case_of_the_cause_comes_first() -> None:
    report = judge_tail()
    assert report.formats[0].causes == ["call-alone"]
    assert next(show(report, 2)) == "quantize/mxfp4/call-size"
    assert len(list(show(report, 2))) == 2


def test_failures_come_before_what_is_open_and_by_level() -> None:
    unmet = list_unmet(judge_tail())
    places = [r.verdict is Verdict.OPEN for r in unmet]
    assert places == sorted(places)
    assert set(places) == {True, False}
    levels = [Level(r.level).rank for r in unmet if r.verdict is not Verdict.OPEN and r.topic not in SHOWN_BY["call-alone"]]
    assert levels == sorted(levels)
    assert len(set(levels)) > 1
    markdown = RENDERERS["markdown"]([judge_tail().as_dict()]).decode()
    assert markdown.index("call-size") < markdown.index("zero-sign")


def test_every_cause_is_one_and_shown_by_topics() -> None:
    assert set(SHOWN_BY) <= {cause.value for cause in KnownCause}
    assert set().union(*SHOWN_BY.values()) <= set(TOPICS)


def run(snippet: str, target: Any) -> list[str]:
    """What the lines print."""
    printed: list[str] = []
    exec(snippet, {"k": target, "print": lambda *parts: printed.append(" ".join(str(p).strip("[]") for p in parts))})
    return [line.replace("[", "").replace("]", "") for line in printed]


def test_a_call_is_made_small() -> None:
    """Also that of the vectors, in which blocks are wrong that are right alone."""
    for topic in ("call-size", "overflow"):
        first = requirement(judge_tail(), f"quantize/mxfp4/{topic}").first
        assert first is not None
        assert first.given["call"] == "only as block 64 of a call of 65 (the others zero)"
        assert len(first.given["x"]) == 1
        assert first.returned["scale"] == "00" != first.expected["scale"]
        in_call, alone = run(first.snippet, SimpleNamespace(quantize=tail))
        assert in_call.split() == ["0"] * 33
        assert alone.split()[0] == str(int(first.expected["scale"], 16))


@pytest.mark.parametrize(("topic", "call"), [("call-size", "only as block 4 of a row of 5"), ("axis", "only as block 2 of a column of 3")])
def test_so_it_is_in_rows_and_columns(topic: str, call: str) -> None:
    name = f"quantize/mxfp4/{topic}"
    first = requirement(check(make(["mxfp4"], quantize=fifth), only=name, quick=True), name).first
    assert first is not None
    assert first.given["call"] == call
    in_call, alone = run(first.snippet, SimpleNamespace(quantize=fifth))
    assert in_call.split()[0] == str(int(first.returned["scale"], 16))
    assert alone.split()[0] == str(int(first.expected["scale"], 16))
    assert in_call != alone


def encode(x: Array, element: str) -> Array:
    return np.array(mxspec.encode(x, element))


def decode(codes: Array, element: str) -> Array:
    return np.array(mxspec.decode(codes, element))


def end_of(function: Any, end: int = 100) -> Any:
    """Behind the hundredth item of a call a few numbers are not written."""

    def short(*arguments: Any) -> Array:
        answer: Array = function(*arguments)
        answer[end:][..., :4] = 0
        return answer

    return short


@pytest.mark.all_calls
@pytest.mark.parametrize(
    ("requirement_id", "members", "call"),
    [
        ("dequantize/mxfp4/code", {"dequantize": end_of(right_values)}, "block 100 of a call of 101"),
        ("encode/e4m3/mixture", {"encode": end_of(encode)}, "number 100 of a call of 101"),
        ("decode/e4m3/code", {"decode": end_of(decode)}, "code 100 of a call of 101"),
        ("dequantize/mxfp4/call-size", {"dequantize": end_of(right_values, 400)}, "block 400 of a call of 401"),
        ("encode/e4m3/call-size", {"encode": end_of(encode, 800)}, "number 800 of a call of 801"),
        ("decode/e4m3/call-size", {"decode": end_of(decode, 400)}, "code 400 of a call of 401"),
    ],
)
def test_so_it_is_of_the_other_functions(requirement_id: str, members: dict[str, Any], call: str) -> None:
    """What is right alone is shown in the smallest call in which it is wrong, and the lines show both answers."""
    target = make(["mxfp4"], ELEMENTS=["e4m3"], **members)
    first = requirement(check(target, only=requirement_id, in_process=True), requirement_id).first
    assert first is not None
    assert first.given["call"] == f"only as {call} (the others zero)"
    assert first.steps[0] == "alone the target returns what is expected here"
    in_call, alone = run(first.snippet, target)
    assert float(in_call) == 0 != float(alone)
    assert next(iter(first.returned.values())).endswith(("= 0.0", "00"))


@pytest.mark.parametrize("quick", [True, False])
def test_what_is_wrong_alone_is_shown_alone(quick: bool) -> None:
    """One entry of a table; of a table of pairs with the code that it needs beside it, and nothing else."""

    def of_pairs(codes: Array, scales: Array, fmt: str) -> Array:
        return right_values(spoil(codes, (5, 9), 0, 2), scales, fmt)

    def of_codes(codes: Array, scales: Array, fmt: str) -> Array:
        return right_values(np.where(codes == 5, 4, codes).astype(np.uint8), scales, fmt)

    name = "dequantize/mxfp4/code"
    pairs, codes = (make(["mxfp4"], dequantize=f) for f in (of_pairs, of_codes))
    first = requirement(check(pairs, only=name, quick=quick, in_process=True), name).first
    assert first is not None
    assert list(first.given["other codes"].values()) == ["09"]
    assert "call" not in first.given
    assert run(first.snippet, pairs) == ["2.0", "3.0"]
    first = requirement(check(codes, only=name, quick=quick, in_process=True), name).first
    assert first is not None
    assert {"call", "other codes"}.isdisjoint(first.given)
    assert run(first.snippet, codes) == ["3.0"]
