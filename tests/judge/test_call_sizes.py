"""Sizes of calls that kernels treat apart, and kernels that are wrong in one of them alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec import formats
from mxspec.adjacent import ADJACENT
from mxspec.formats import BLOCKS, E4M3, E8M0, BlockFormat
from mxspec_conformance import check
from mxspec_conformance.judge.invariance import items, pace
from mxspec_conformance.judge.invariance.answered import Answered
from mxspec_conformance.judge.invariance.calls import FEW, STEPS, list_laid, list_sizes
from mxspec_conformance.judge.invariance.pace import Speed
from mxspec_conformance.judge.invariance.places import _in_tiles
from mxspec_conformance.judge.invariance.pools import Pool, join_answer
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.sessions import TargetSession

Shape = tuple[int, ...]


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_few_rows_and_blocks_are_asked_in_every_number(fmt: str) -> None:
    k = BLOCKS[fmt].k
    asked = {(s.rows, s.columns // k) for s in list_sizes(BLOCKS[fmt].k)}
    assert {rows for rows, _ in asked} >= {*range(1, FEW + 1), *STEPS}
    assert {blocks for rows, blocks in asked if rows > 1} >= set(range(1, FEW + 1))
    assert any(rows >= 4096 and blocks >= 128 // k and blocks > 1 for rows, blocks in asked)


@dataclass(frozen=True)
class Wrong:
    """A right kernel but for the middle element in calls of one kind: (x, axis, block)."""

    topic: str
    calls: Callable[[Any, int, Shape | None], bool]
    fmt: str = "mxfp4"
    dtypes: tuple[str, ...] = ("float32",)

    def build(self) -> Any:
        def quantize(x: Any, fmt: str, axis: int = -1, block: Shape | None = None) -> Any:
            t = mxspec.quantize(x, fmt, axis=axis, block=block)
            codes = np.array(t.codes)
            if codes.size and self.calls(x, axis, block):
                codes[len(codes) // 2, codes.shape[1] // 2] ^= 1
            return codes, t.scales

        return SimpleNamespace(NAME="narrow", VERSION="1", FORMATS=[self.fmt], DTYPES=list(self.dtypes), quantize=quantize)


WRONG = {
    "192 rows": Wrong("call-size", lambda x, axis, _: len(x) == 192 and axis == -1),
    "a square of 96": Wrong("call-size", lambda x, axis, _: x.shape == (96, 96) and axis == -1),
    "7 blocks": Wrong("call-size", lambda x, axis, _: len(x) > 1 and x.shape[1] == 224 and axis == -1),
    "thousands of rows": Wrong("call-size", lambda x, axis, _: len(x) >= 4096 and x.shape[1] >= 128 and axis == -1),
    "a prime number of rows": Wrong("call-size", lambda x, axis, _: len(x) in (61, 67, 71) and x.shape[1] >= 4096),
    "half a million columns": Wrong("call-size", lambda x, axis, _: len(x) > 1 and x.shape[1] >= 1 << 19),
    "five times as many columns as rows": Wrong("call-size", lambda x, axis, _: x.shape[1] == 5 * len(x) and len(x) >= 64),
    "whole tiles of four million": Wrong("call-size", lambda x, axis, _: len(x) >= 2048 and x.shape[1] == 2048 and axis == -1),
    "columns of a model in float16": Wrong("call-size", lambda x, *_: x.dtype == np.float16 and len(x) > 2 and x.shape[1] == 5120, dtypes=("float32", "float16")),
    "thousands of rows in bfloat16": Wrong("call-size", lambda x, *_: x.dtype != np.float32 and len(x) >= 8192 and x.shape[1] >= 128, dtypes=("float32", "bfloat16")),
    "66 columns": Wrong("axis", lambda x, axis, _: x.shape[1] > 4 and x.shape[1] % 4 == 2 and axis in (0, -2)),
    "14 columns": Wrong("axis", lambda x, axis, _: 8 < x.shape[1] < 40 and x.shape[1] % 8 == 6 and axis in (0, -2)),
    "127 columns": Wrong("axis", lambda x, axis, _: x.shape[1] % 128 == 127 and axis in (0, -2)),
    "a weight along axis 0": Wrong("axis", lambda x, axis, _: len(x) > 2048 and x.shape[1] >= 256 and axis in (0, -2)),
    "many columns and blocks": Wrong("axis", lambda x, axis, _: len(x) > 32 and x.shape[1] > 4096 and axis in (0, -2)),
    "squares along axis 1": Wrong("axis", lambda x, axis, _: axis == 1 and len(x) == x.shape[1]),
    "tiles of a million": Wrong("position", lambda x, _, block: block == (16, 16) and len(x) >= 1024 and x.shape[1] >= 1024, "nvfp4"),
    "tiles of long rows": Wrong("position", lambda x, _, block: block == (16, 16) and len(x) >= 48 and x.shape[1] >= 2048, "nvfp4"),
}  # fmt: skip


@pytest.mark.all_calls
@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_wrong_at_one_size_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "measure_speed", lambda call: Speed.FAST)
    wrong = WRONG[name]
    report = check(wrong.build(), in_process=True, only=f"quantize/{wrong.fmt}/{wrong.topic}")
    assert [r.topic for r in report.requirements if r.verdict is Verdict.FAIL] == [wrong.topic]


@pytest.mark.all_calls
@pytest.mark.parametrize("function", ["quantize", "dequantize"])
def test_a_fast_kernel_wrong_beyond_four_million_numbers_alone_is_found(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        codes = np.array(t.codes)
        codes.reshape(-1)[1 << 22 :] = 0
        return codes, t.scales

    def dequantize(codes: Any, scales: Any, fmt: str) -> Any:
        values = np.array(mxspec.dequantize(codes, scales, fmt))
        values.reshape(-1)[1 << 22 :] = 0
        return values

    beyond = [s for s in list_sizes(BLOCKS["mxfp4"].k) if s.elements > 1 << 22]
    assert len(beyond) == 1
    monkeypatch.setattr(items, "list_sizes", lambda k: beyond)
    monkeypatch.setattr(pace, "measure_speed", lambda call: Speed.FAST)
    target = SimpleNamespace(NAME="large", VERSION="1", FORMATS=["mxfp4"], **{function: locals()[function]})
    report = check(target, in_process=True, only=f"{function}/mxfp4/call-size", data=[])
    assert [r.verdict for r in report.requirements] == [Verdict.FAIL]
    monkeypatch.setattr(pace, "measure_speed", lambda call: Speed.STEADY)
    report = check(target, in_process=True, only=f"{function}/mxfp4/call-size", data=[])
    assert [r.verdict for r in report.requirements] == [Verdict.PASS]


@pytest.mark.parametrize("k", [16, 24, 32, 64, 128, 256])
def test_sizes_are_whole_blocks(k: int) -> None:
    assert all(size.columns and size.columns % k == 0 for size in list_sizes(k))
    assert all(laid.lines and laid.count for laid in list_laid(k))


@pytest.mark.all_calls
@pytest.mark.parametrize("k", [24, 128])
def test_calls_hold_whole_blocks_of_any_size(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes written for blocks of 16 and 32 are raised to whole blocks; a call that is not whole would accuse the model."""
    monkeypatch.setattr(pace, "measure_speed", lambda call: Speed.FAST)
    fmt = BlockFormat(name=f"own-{k}", element=E4M3, scale=E8M0, k=k, shapes=((1, k),))
    monkeypatch.setitem(formats._blocks, fmt.name, fmt)

    def quantize(x: Any, fmt: str, axis: int = -1) -> Any:
        t = mxspec.quantize(x, fmt, axis=axis)
        return t.codes, t.scales

    target = SimpleNamespace(NAME="whole", FORMATS=[fmt.name], DTYPES=["float32", "float16"], quantize=quantize)
    for topic in ("call-size", "memory", "axis"):
        report = check(target, only=f"quantize/{fmt.name}/{topic}", data=[])
        assert [(r.topic, r.verdict) for r in report.requirements] == [(topic, Verdict.PASS)]


@pytest.mark.parametrize("name", ["mxfp4-32x32", "fp8_e4m3-128"])
def test_the_largest_number_comes_to_lie_in_every_row_and_lane_of_a_tile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a call of some millions of numbers, however large the tiles are."""
    fmt = ADJACENT[name].block
    monkeypatch.setitem(formats._blocks, name, fmt)
    side, k = fmt.shapes[1]
    seen: list[npt.NDArray[Any]] = []

    def call(function: str, x: Any, name: str, block: Shape) -> Any:
        seen.append(x)
        t = mxspec.quantize(x, fmt, block=block)
        return t.codes, t.scales

    none = np.zeros((0, k), np.float32)
    rows_of = partial(join_answer, k=k)
    pool = Pool(name, fmt, Answered("quantize", (none,), name, {}, np.zeros((0, k + 1), np.uint8), rows_of, np.not_equal))
    _, got, want = _in_tiles(cast(TargetSession, SimpleNamespace(call=call)), pool, "largest")
    assert np.array_equal(got, want)
    (x,) = seen
    assert x.size <= 1 << 22
    rows, lanes = np.nonzero(x < -6.25)  # the largest of a tile, and of one of half its numbers
    assert (set(rows % side), set(lanes % k)) == (set(range(side)), set(range(k)))


@pytest.mark.parametrize(("rounding", "least"), [("rtn", 1024), ("rna", 2000)])
def test_every_rounding_is_asked_in_larger_calls(rounding: str, least: int) -> None:
    def encode(x: Any, element: str, rounding: str = "rne", _wrong: str = rounding) -> Any:
        return mxspec.encode(x, element, rounding="rtz" if rounding == _wrong and x.size >= least else rounding)

    one = SimpleNamespace(NAME="large", VERSION="1", ELEMENTS=["e4m3"], encode=encode)
    report = check(one, in_process=True, only="encode/e4m3/call-size")
    cases = [c for r in report.requirements for c in r.failing_cases]
    assert cases
    assert all(rounding in case for case in cases)


@pytest.mark.all_calls
def test_threads_that_share_a_buffer_along_axis_0_are_found() -> None:
    held: dict[str, Any] = {}

    def quantize(x: Any, fmt: str, axis: int = -1) -> Any:
        if axis == 0:
            held["x"] = x
            time.sleep(0.0002)
            x = held["x"]
        t = mxspec.quantize(x, fmt, axis=axis)
        return t.codes, t.scales

    target = SimpleNamespace(NAME="threads", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    report = check(target, in_process=True, only="quantize/mxfp4/state")
    assert [r.topic for r in report.requirements if r.verdict is Verdict.FAIL] == ["state"]


@pytest.mark.parametrize(("shape", "axis"), [((3, 0), -1), ((64, 0), 0)], ids=["no columns", "no columns along axis 0"])
@pytest.mark.parametrize("kind", ["a scale", "the next call", "refused", "nothing"])
def test_calls_without_columns(shape: Shape, axis: int, kind: str) -> None:
    left: list[int] = []

    def quantize(x: Any, fmt: str, axis: int = -1) -> Any:
        if x.shape == shape and axis == asked:
            left.append(1)
            if kind == "refused":
                raise ValueError("nothing to do")
            if kind == "a scale":
                return np.zeros(shape, np.uint8), np.zeros((shape[0], 1), np.uint8)
        if not x.size:
            scales = (x.shape[0], x.shape[1] // 32) if axis == -1 else (x.shape[0] // 32, x.shape[1])
            return np.zeros(x.shape, np.uint8), np.zeros(scales, np.uint8)
        t = mxspec.quantize(x, fmt, axis=axis)
        codes = np.array(t.codes)
        if left and kind == "the next call":
            left.clear()
            codes[-1, -1] ^= 1
        return codes, t.scales

    asked = axis
    target = SimpleNamespace(NAME="empty", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    topic = "state" if kind == "the next call" else "refusal"
    report = check(target, in_process=True, only=f"quantize/mxfp4/{topic}")
    wanted = Verdict.FAIL if kind in ("a scale", "the next call") else Verdict.PASS
    assert [r.verdict for r in report.requirements] == [wanted]
