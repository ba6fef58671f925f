"""The quick level makes every cheap call."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxspec.formats import BLOCKS
from mxspec_conformance import check
from mxspec_conformance.judge.invariance import history, pace
from mxspec_conformance.judge.invariance.answered import Answered
from mxspec_conformance.judge.invariance.blocks import BlockCalls, Way, start_calls
from mxspec_conformance.judge.invariance.pace import OTHERS, Speed
from mxspec_conformance.judge.invariance.pools import Pool
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.selection import quick_selection, use_selection
from mxspec_conformance.results.report import Verdict

from tests.bugs.building import right

Array = Any


def make_calls(formats: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> BlockCalls:
    monkeypatch.setattr(pace, "measure_speed", lambda call: Speed.FAST)
    session: Any = SimpleNamespace(transport="python", capabilities=SimpleNamespace(formats=formats))
    x = np.ones((4, 16), np.float32)
    pools = [
        Pool(name, BLOCKS["nvfp4"], Answered("quantize", (x,), "nvfp4", kwargs, np.zeros((4, 17), np.uint8), lambda a: a, np.not_equal))
        for name, kwargs in (("one-level", {}), ("tensor 1", {"tensor_scale": 1}), ("tensor 2", {"tensor_scale": 2}))
    ]
    return start_calls(session, Scorecard("quantize", "nvfp4"), pools)


def test_cheap_calls_are_made_with_and_without_a_tensor_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = make_calls(("nvfp4",), monkeypatch)
    cheap = Speed.FAST.cheap
    for pool, limit in zip(calls.pools, (cheap, cheap, cheap // OTHERS), strict=True):
        assert (calls.is_cheap(pool, limit), calls.is_cheap(pool, limit + 1)) == (True, False)
    work = calls.make_workload([Way(calls.pools[0])])
    assert work.keeps("memory")
    with use_selection(quick_selection()):
        assert work.keeps("memory", quick=True)
        assert not work.keeps("memory")


def test_of_other_formats_fewer_calls_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = make_calls(("mxfp4", "nvfp4"), monkeypatch)
    limit = Speed.FAST.cheap // OTHERS
    assert (calls.is_cheap(calls.pools[0], limit), calls.is_cheap(calls.pools[0], limit + 1)) == (True, False)


def quantize_wrong(wrong: Callable[[Array], bool]) -> Any:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x, fmt)
        if wrong(x):
            codes[-1, -1] ^= 1
        return codes, scales

    return SimpleNamespace(NAME="quick", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)


def every_256th() -> Callable[[Array], bool]:
    made: list[int] = []

    def wrong(x: Array) -> bool:
        made.append(1)
        return x.size == 96 and len(made) % 256 == 0

    return wrong


WRONG: dict[str, tuple[str, Callable[[Array], bool]]] = {
    "a square of 96": ("call-size", lambda x: x.shape == (96, 96)),
    "a small view backwards": ("memory", lambda x: x.shape == (5, 96) and x.strides[0] < 0),
    "every 256th call": ("state", every_256th()),
    "nothing": ("call-size", lambda x: False),
}


@pytest.mark.all_calls
@pytest.mark.parametrize("name", WRONG)
def test_kernels_wrong_in_a_cheap_call_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "QUICK_REPEAT_SECONDS", 60.0)
    topic, wrong = WRONG[name]
    report = check(quantize_wrong(wrong), in_process=True, only=f"quantize/mxfp4/{topic}", quick=True, data=[])
    assert [r.verdict for r in report.requirements] == [Verdict.PASS if name == "nothing" else Verdict.FAIL]
