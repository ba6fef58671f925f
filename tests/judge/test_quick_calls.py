"""The quick level makes every cheap call, and the set by which it is measured is what it says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
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

from tests.quick_calls.kernels import HELD_OUT, right

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
    assert work.keeps("memory", "no label of the file")
    with use_selection(quick_selection()):
        assert work.keeps("memory", "no label of the file", quick=True)
        assert not work.keeps("memory", "no label of the file")


def test_of_other_formats_fewer_calls_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = make_calls(("mxfp4", "nvfp4"), monkeypatch)
    limit = Speed.FAST.cheap // OTHERS
    assert (calls.is_cheap(calls.pools[0], limit), calls.is_cheap(calls.pools[0], limit + 1)) == (True, False)


def quantize_wrong(wrong: Callable[[Array], bool]) -> Any:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
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


def shows(kernel: Any) -> bool:
    """Whether some call of a script is answered otherwise than the model does, changes its input, or a former answer."""
    target, rng = kernel.build(), np.random.default_rng(8)
    quantize, held = target.quantize, []
    shapes = [(16, 96), (8, 4096), (33, 2080), (2049, 32), (33000, 32), (1, 1 << 17), (96, 512), (96, 512), (2048, 1024)]
    for rows, columns in [*shapes, (64, 256), (64, 256), (64, 256), (64, 256)]:
        x = np.ldexp(rng.standard_normal((rows, columns)), rng.integers(-9, 9, (rows, 1))).astype(np.float32)
        for given in (x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, axis=1)[:, :columns], np.abs(x)):
            kept = given.copy()
            codes, scales = quantize(given, "mxfp4")
            held.append((codes, codes.copy()))
            want = right(kept)
            if not (np.array_equal(codes, want[0]) and np.array_equal(scales, want[1]) and np.array_equal(kept, given)):
                return True
    if any(not np.array_equal(a, b) for a, b in held):
        return True
    x = rng.standard_normal((64, 96)).astype(np.float32)
    for change in (lambda: None, lambda: x.__setitem__((5, slice(None)), 7), lambda: x.__setitem__(slice(8, 40), 0)):
        change()
        if not all(map(np.array_equal, quantize(x, "mxfp4"), right(x))):
            return True
    return _shows_elsewhere(target, rng)


def _shows_elsewhere(target: Any, rng: np.random.Generator) -> bool:
    """Along axis 0, in `dequantize`, in threads."""
    if "axis" in inspect.signature(target.quantize).parameters:
        for shape in ((64, 64), (64, 12)):
            x = np.ldexp(rng.standard_normal(shape), rng.integers(-9, 9, shape)).astype(np.float32)
            if not all(map(np.array_equal, target.quantize(x, "mxfp4", axis=0), right(x, axis=0))):
                return True
    if hasattr(target, "dequantize"):
        codes, scales = right(np.ldexp(rng.standard_normal((600, 64)), rng.integers(-9, 9, (600, 1))).astype(np.float32))
        return not np.array_equal(target.dequantize(codes, scales, "mxfp4"), mxspec.dequantize(codes, scales, "mxfp4"))
    xs = [np.ldexp(rng.standard_normal((8, 64)), 9 * i).astype(np.float32) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda i: (i % 4, target.quantize(xs[i % 4], "mxfp4")), range(64)))
    return any(not np.array_equal(answer[1], right(xs[i])[1]) for i, answer in answers)


@pytest.mark.parametrize("kernel", HELD_OUT, ids=lambda k: k.name)
def test_what_is_held_out_is_wrong(kernel: Any) -> None:
    assert shows(kernel)
