"""Answers in buffers that come round, workspaces that are shared, and calls after a refusal: each gets its own answer."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.invariance import blocks, pace
from mxspec_conformance.judge.invariance.blocks import LARGE_PROBED, PROBED
from mxspec_conformance.judge.invariance.pace import Speed

from tests.bugs.building import Array, make, right, right_values
from tests.judge.test_history import in_a_ring

Functions = dict[str, Callable[..., Any]]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """As fast as a target may be, however busy the machine."""
    monkeypatch.setattr(pace, "measure_speed", lambda call: Speed.FAST)


def in_turn(function: Callable[..., Any], buffers: int, concerns: Callable[[Array], bool]) -> Callable[..., Any]:
    """Some answers lie in so many buffers that come round."""
    ring = in_a_ring(function, buffers)
    return lambda x, *rest: (ring if concerns(x) else function)(x, *rest)


def cleaning(x: Array, fmt: str) -> Any:
    answer = right(x, fmt)
    if x.size >= 1 << 18:
        x[x == 0] = 0
    return answer


def left_by_a_refusal() -> Functions:
    left: list[int] = []

    def quantize(x: Array, fmt: str) -> Any:
        if x.dtype != np.float32:
            left.append(1)
            raise TypeError("float32 alone")
        codes, scales = right(x, fmt)
        if left and codes.size:
            left.clear()
            codes[-1, -1] ^= 1
        return codes, scales

    return {"quantize": quantize}


def one_workspace() -> Functions:
    busy: Counter[str] = Counter()

    def beside(me: str, other: str, call: Callable[[], Any], last: Callable[[Any], Array]) -> Any:
        busy[me] += 1
        _wait()
        wrong, answer = busy[other] > 0, call()
        busy[me] -= 1
        if wrong:
            last(answer)[-1, -1] = 3
        return answer

    def quantize(x: Array, fmt: str) -> Any:
        return beside("q", "d", lambda: right(x, fmt), lambda answer: answer[0])

    def dequantize(codes: Array, scales: Array, fmt: str) -> Any:
        return beside("d", "q", lambda: right_values(codes, scales, fmt), lambda values: values)

    return {"quantize": quantize, "dequantize": dequantize}


def _wait() -> None:
    if threading.active_count() > 1:
        time.sleep(0.0005)


WRONG: dict[str, tuple[Callable[[], Functions], str]] = {
    "one row in one buffer": (lambda: {"quantize": in_turn(right, 1, lambda x: len(x) == 1 and x.shape[1] >= 4096)}, "quantize/mxfp4/memory"),
    "values in three buffers": (lambda: {"dequantize": in_turn(right_values, 3, lambda x: len(x) >= 16)}, "dequantize/mxfp4/memory"),
    "large inputs cleaned": (lambda: {"quantize": cleaning}, "quantize/mxfp4/memory"),
    "left by a refusal": (left_by_a_refusal, "quantize/mxfp4/state"),
    "one workspace": (one_workspace, "quantize/mxfp4/state"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_found(name: str) -> None:
    functions, requirement = WRONG[name]
    report = check(make(["mxfp4"], **functions()), in_process=True, only=requirement)
    assert [r.verdict for r in report.requirements] == ["fail"]


@pytest.mark.parametrize("largest", [5000, 20000])
def test_what_refuses_large_calls_by_raising_is_right(largest: int) -> None:
    def quantize(x: Array, fmt: str) -> Any:
        if x.size > largest:
            raise RuntimeError("too large for this device")
        return right(x, fmt)

    report = check(make(["mxfp4"], quantize=quantize), in_process=True, only="quantize/mxfp4/*")
    assert report.exit_code == 0
    assert {r.topic for r in report.requirements if r.verdict == "open"} == {"call-size"}


def test_what_refuses_large_calls_along_an_axis_or_padded_is_right() -> None:
    def quantize(x: Array, fmt: str, axis: int = -1, pad: bool = False) -> Any:
        if x.size > 5000:
            raise RuntimeError("too large for this device")
        t = mxspec.quantize(np.ascontiguousarray(x), fmt, axis=axis, pad=pad)
        return t.codes, t.scales

    report = check(make(["mxfp4"], quantize=quantize), in_process=True, only="quantize/mxfp4/*")
    assert report.exit_code == 0
    assert {r.topic for r in report.requirements if r.verdict == "open"} == {"call-size"}


def test_what_refuses_after_another_call_alone_is_wrong() -> None:
    left: list[Array] = []

    def quantize(x: Array, fmt: str) -> Any:
        if left and np.isnan(left.pop()).any() and not np.isnan(x).any():
            raise RuntimeError("busy")
        left.append(x)
        return right(x, fmt)

    report = check(make(["mxfp4"], quantize=quantize), in_process=True, only="quantize/mxfp4/state")
    assert [r.verdict for r in report.requirements] in (["error"], ["fail"])


def test_large_calls_are_looked_at_from_2_to_the_18_on_in_every_format() -> None:
    assert LARGE_PROBED[0] * LARGE_PROBED[1] * 16 >= 1 << 18
    assert (1, 256) in PROBED
    assert len(set(blocks.SEVERAL)) >= blocks.THREADS
