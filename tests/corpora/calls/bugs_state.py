"""What a kernel keeps between calls: caches, buffers, modes, counters; and threads that share it."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tests.corpora.calls.bugs_numbers import DQ4, DQ8, DQN, E4, E8, S8
from tests.corpora.calls.catalogue import script
from tests.corpora.calls.effects import MX4, MX4R, MX8, MX8R, NV, NV2, both, bug, with_dtypes, with_options
from tests.corpora.calls.formats import Array
from tests.corpora.calls.inputs import (
    decode,
    dequantize,
    encode,
    lattice,
    numbers,
    quantize,
    quantize_array,
    stochastic,
    with_specials,
    zeros,
)
from tests.corpora.calls.kernel import Call, Grid, Hooks, Next, Offer

state = partial(bug, "state")
empty = partial(bug, "empty")
threads = partial(bug, "threads")


def address(call: Call) -> int:
    """Of the first array."""
    return int(np.asarray(call.x).__array_interface__["data"][0])


def copied(answer: Any) -> Any:
    """An answer of one's own."""
    return tuple(a.copy() for a in answer) if isinstance(answer, tuple) else np.array(answer)


def cached_by(key: Callable[[Call], Any], where: Callable[[Call], bool] = lambda call: True) -> Callable[[], Hooks]:
    """Answers are kept under a key that does not tell all inputs apart."""

    def make() -> Hooks:
        kept: dict[Any, Any] = {}

        def around(call: Call, right: Next) -> Any:
            if not where(call):
                return right(call)
            name = (
                call.function,
                call.name,
                call.axis,
                call.pad,
                call.block,
                call.tensor_scale,
                call.x.shape,
                str(call.x.dtype),
                key(call),
            )
            if name not in kept:
                kept[name] = right(call)
            return copied(kept[name])

        return Hooks(around=around)

    return make


def scales_cached(columns_alone: bool) -> Callable[[], Hooks]:
    """The order in which scales are stored is computed once for a number of columns, of the first call's rows."""

    def make() -> Hooks:
        maps: dict[Any, Array] = {}

        def scale(i: Array, g: Grid) -> Array:
            kept = maps.setdefault(g.columns if columns_alone else 0, i.copy())
            return kept[np.minimum(i, kept.size - 1)]

        return Hooks(scale=scale)

    return make


class Maxima:
    """A buffer of block maxima that is not cleared."""

    def __init__(self, where: Callable[[Grid], bool]) -> None:
        self.held, self.where = np.zeros(0, np.float32), where

    def amax(self, right: Array, b: Array, g: Grid) -> Array:
        """atomicMax into what the last call left."""
        if not self.where(g):
            return right
        merged = right.copy()
        n = min(right.size, self.held.size)
        merged[:n] = np.maximum(right[:n], self.held[:n])
        self.held = right.copy()
        return merged


def keeps_maxima(where: Callable[[Grid], bool]) -> Callable[[], Hooks]:
    """The maximum buffer is reused."""
    return lambda: Hooks(amax=Maxima(where).amax)


def zero_blocks_not_written(shape_matters: bool) -> Callable[[], Hooks]:
    """Blocks of zeros return early, and leave what the buffer of an earlier call held."""

    def make() -> Hooks:
        kept: dict[Any, Any] = {}

        def around(call: Call, right: Next) -> Any:
            codes, scales = right(call)
            key = (call.name, codes.shape) if shape_matters else call.name
            last = kept.get(key)
            if last is not None and last[0].size >= codes.size and call.axis == -1:
                k = codes.shape[-1] // max(scales.shape[-1], 1)
                empty_blocks = (codes.reshape(-1, k) & 7 == 0).all(axis=1) & (scales.reshape(-1) == 0)
                old_codes, old_scales = (a.reshape(-1)[: n.size].reshape(n.shape) for a, n in zip(last, (codes, scales), strict=True))
                codes = np.where(empty_blocks[:, None], old_codes.reshape(-1, k), codes.reshape(-1, k)).reshape(codes.shape)
                scales = np.where(empty_blocks.reshape(scales.shape), old_scales, scales)
            if call.axis == -1:
                kept[key] = (codes.copy(), scales.copy())
            return codes, scales

        return Hooks(around=around)

    return make


def after_another(trigger: Callable[[Call, list[Call]], bool], change: Callable[[Any, Call], Any]) -> Callable[[], Hooks]:
    """Answers are changed after some history of calls."""

    def make() -> Hooks:
        history: list[Call] = []

        def around(call: Call, right: Next) -> Any:
            broken = trigger(call, history)
            history.append(replace(call, arrays=tuple(np.empty(np.shape(a), np.bool_) for a in call.arrays[:1])))
            del history[:-8]
            answer = right(call)
            return change(answer, call) if broken else answer

        return Hooks(around=around)

    return make


def last_scale_lost(answer: Any, call: Call) -> Any:
    """The last scale is one too high."""
    codes, scales = answer
    scales = scales.copy()
    if scales.size:
        scales.reshape(-1)[-1] ^= 1
    return codes, scales


def last_value_lost(answer: Any, call: Call) -> Any:
    """The last number is zero, or one where it was zero."""
    values = np.array(answer)
    if values.size:
        values.reshape(-1)[-1] = 0 if values.reshape(-1)[-1] != 0 else 1
    return values


def back_again(call: Call, history: list[Call]) -> bool:
    """Format A, some other, and A again."""
    names = [c.name for c in history if c.function == call.function]
    return len(names) > 1 and names[-1] != call.name and call.name in names[:-1]


def smaller_after_larger(call: Call, history: list[Call]) -> bool:
    """A call with fewer rows than the one before, of the same columns."""
    if not history or history[-1].function != call.function:
        return False
    return bool(history[-1].x.shape[-1] == call.x.shape[-1] and history[-1].x.shape[0] > call.x.shape[0])


def counted(every: int, change: Callable[[Any, Call], Any]) -> Callable[[], Hooks]:
    """Each so many-th call goes wrong."""

    def make() -> Hooks:
        calls = [0]

        def around(call: Call, right: Next) -> Any:
            calls[0] += 1
            answer = right(call)
            return change(answer, call) if calls[0] % every == 0 else answer

        return Hooks(around=around)

    return make


def one_number_in(count: int) -> Callable[[], Hooks]:
    """Of all numbers ever quantized each so many-th gets its neighbour's code."""

    def make() -> Hooks:
        done = [0]

        def output(codes: Array, g: Grid) -> Array:
            start, done[0] = done[0], done[0] + codes.size
            first = -start % count
            if first >= codes.size:
                return codes
            codes = codes.copy()
            codes.reshape(-1)[first::count] ^= 1
            return codes

        return Hooks(output=output)

    return make


#: <fenv.h> of Linux: the argument of fesetround for rounding toward zero, by machine.
FE_TOWARDZERO = {"x86_64": 0xC00, "aarch64": 0xC00000}


def set_rounding(mode: int) -> None:
    """fesetround of this thread, on Linux; nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6").fesetround(mode)


def toward_zero() -> int:
    """The mode's number on this machine."""
    import platform

    return FE_TOWARDZERO.get(platform.machine(), 0)


def leaves_rounding_behind(when: Callable[[Call], bool]) -> Callable[[], Hooks]:
    """Some calls set the processor to round toward zero, and do not set it back: later ones of this kernel run so.

    The mode is set for the length of each later call alone, so that nothing else of the process is harmed.
    """

    def make() -> Hooks:
        left = [False]

        def around(call: Call, right: Next) -> Any:
            if left[0]:
                set_rounding(toward_zero())
            try:
                return right(call)
            finally:
                set_rounding(0)
                left[0] = left[0] or when(call)

        return Hooks(around=around)

    return make


def mode_left(answer: Any, call: Call) -> Any:
    """Codes with the lowest bit cleared: toward zero in effect."""
    return answer[0] & np.uint8(0xFE), answer[1]


class Shared:
    """A buffer that all threads write their input into, and read it from."""

    def __init__(self, wait: float, number: int = 0, least: int = 0) -> None:
        self.buffers: dict[Any, Array] = {}
        self.wait, self.number, self.least = wait, number, least

    def load(self, a: Any, which: int, call: Call) -> Any:
        """Copy in, wait for the copy engine, go on with the buffer."""
        a = np.asarray(a)
        if which != self.number or a.size < self.least:
            return a
        held = self.buffers.setdefault((a.shape, str(a.dtype)), np.zeros(a.shape, a.dtype))
        held[...] = a
        if self.wait:
            time.sleep(self.wait)
        return held


def shared(wait: float, number: int = 0, least: int = 0) -> Callable[[], Hooks]:
    """Threads share a buffer."""
    return lambda: Hooks(load=Shared(wait, number, least).load)


class ErrorLeft:
    """What a refused call leaves behind."""

    def __init__(self) -> None:
        self.failed = False

    def around(self, call: Call, right: Next) -> Any:
        """The next answer after an error is that of a workspace that was not reset."""
        broken, self.failed = self.failed, False
        try:
            answer = right(call)
        except (ValueError, TypeError):
            self.failed = True
            raise
        return last_scale_lost(answer, call) if broken else answer


def no_rows(call: Call) -> bool:
    """Empty inputs."""
    return bool(np.asarray(call.x).size == 0)


def on_empty(act: Callable[[Call, Next], Any]) -> Hooks:
    """Empty inputs go another way."""
    return Hooks(around=lambda call, right: act(call, right) if no_rows(call) else right(call))


def raise_index(call: Call, right: Next) -> Any:
    """The maximum of nothing."""
    raise IndexError("index 0 is out of bounds for axis 0 with size 0")


def one_row_of_zeros(call: Call, right: Next) -> Any:
    """A grid of at least one CTA."""
    codes, scales = right(call)
    return np.zeros((1, codes.shape[-1]), np.uint8), np.zeros((1, scales.shape[-1]), np.uint8)


def flat_nothing(call: Call, right: Next) -> Any:
    """Shapes are forgotten."""
    return np.zeros(0, np.uint8), np.zeros(0, np.uint8)


def breaks_next() -> Hooks:
    """An empty call leaves the configuration of zero rows behind."""
    left = [False]

    def around(call: Call, right: Next) -> Any:
        answer = right(call)
        broken, left[0] = left[0], no_rows(call)
        return last_scale_lost(answer, call) if broken and not no_rows(call) else answer

    return Hooks(around=around)


def of_zeros(rows: int, columns: int, seed: int = 1, dtype: str = "float32") -> Array:
    """Zeros and numbers in turn, block by block."""
    x = numbers(rows, columns, seed)
    x.reshape(-1, 32)[::2] = 0
    return x


def swapped_halves(rows: int, columns: int, seed: int = 1, dtype: str = "float32") -> Array:
    """The same numbers in another order: sums are the same."""
    x = np.round(numbers(rows, columns, 1) * 4)
    return x if seed == 1 else x[:, ::-1].copy()


def same_start(rows: int, columns: int, seed: int = 1, dtype: str = "float32") -> Array:
    """Different numbers behind the same first 16."""
    x = numbers(rows, columns, seed)
    x.reshape(-1)[:16] = numbers(1, 16, 1)
    return x


TWO = replace(MX4, formats=("mxfp4", "mxfp8_e4m3"))
TWO_BACK = replace(TWO, functions=("quantize", "dequantize"))
MIXED = replace(MX8, functions=("quantize", "encode"), elements=("e4m3",), options=("rounding",))
MIXED_NV = replace(NV2, functions=("quantize", "encode"), elements=("e2m1",), options=("rounding", "tensor_scale"))


def rounding_after_encode(call: Call, history: list[Call]) -> bool:
    """A quantize right after an encode toward zero."""
    return bool(call.function == "quantize" and history and history[-1].function == "encode" and history[-1].rounding == "rtz")


BUGS = (
    state("cache-pointer", MX4, "answers are cached by the input's address and shape", cached_by(address),
          script(quantize("mxfp4", 4, 64), quantize("mxfp4", 4, 64, seed=2, into=0))),
    state("cache-pointer-large", MX8, "the same from 2^16 numbers on", cached_by(address, lambda call: call.x.size >= 1 << 16),
          script(quantize("mxfp8_e4m3", 256, 256), quantize("mxfp8_e4m3", 256, 256, seed=2, into=0))),
    state("cache-pointer-dequantize", DQ4, "dequantize caches its scales' expansion by the codes' address", cached_by(address),
          script(dequantize("mxfp4", 4, 64), dequantize("mxfp4", 4, 64, seed=2, into=0))),
    state("cache-scales-alone", DQ8, "dequantize caches by the scales", cached_by(lambda call: call.arrays[1].tobytes()),
          script(*(replace(dequantize("mxfp8_e4m3", 2, 64, seed=s), arrays=partial(lambda s: [numbers(2, 64, s).view(np.uint8)[:, ::4].copy(), np.full((2, 2), 120, np.uint8)], s))
                   for s in (1, 2)))),
    state("cache-shape", NV, "from 2^12 numbers on answers are cached by shape", cached_by(lambda call: 0, lambda call: call.x.size >= 1 << 12),
          script(quantize("nvfp4", 64, 64), quantize("nvfp4", 64, 64, seed=2))),
    state("cache-sum", MX4, "answers are cached by the sum of the input", cached_by(lambda call: float(np.sum(call.x.astype(np.float64)))),
          script(quantize("mxfp4", 4, 64, of=swapped_halves), quantize("mxfp4", 4, 64, seed=2, of=swapped_halves))),
    state("cache-first", MX8, "answers are cached by the first number", cached_by(lambda call: call.x.reshape(-1)[:1].tobytes()),
          script(quantize("mxfp8_e4m3", 3, 64, of=same_start), quantize("mxfp8_e4m3", 3, 64, seed=2, of=same_start))),
    state("cache-first-64-bytes", MX4R, "answers are cached by the first 64 bytes", cached_by(lambda call: call.x.tobytes()[:64]),
          script(quantize("mxfp4", 3, 64, of=same_start), quantize("mxfp4", 3, 64, seed=2, of=same_start))),
    state("cache-sampled", NV, "answers are cached by every 64th number", cached_by(lambda call: call.x.reshape(-1)[::64].tobytes()),
          script(quantize("nvfp4", 2, 64), quantize_array("nvfp4", lambda: np.where(np.arange(128).reshape(2, 64) % 64 == 0, numbers(2, 64), numbers(2, 64, 2))))),
    state("cache-maximum", MX8R, "answers are cached by the largest magnitude of the tensor",
          cached_by(lambda call: float(np.abs(call.x.astype(np.float32)).max(initial=0))),
          script(quantize("mxfp8_e4m3", 2, 64, of=swapped_halves), quantize("mxfp8_e4m3", 2, 64, seed=2, of=swapped_halves))),
    state("map-by-columns", both(MX4), "the order of scales is cached by columns, for the rows of the first call", scales_cached(True),
          script(quantize("mxfp4", 4, 96), quantize("mxfp4", 9, 96))),
    state("map-once", DQN, "dequantize computes the order of scales once", scales_cached(False), script(dequantize("nvfp4", 2, 64), dequantize("nvfp4", 8, 64))),
    state("maxima-kept", MX4, "the buffer of maxima is not cleared between calls", keeps_maxima(lambda g: True),
          script(quantize_array("mxfp4", lambda: numbers(4, 64) * 1000), quantize("mxfp4", 4, 64))),
    state("maxima-kept-wide", NV, "from 1024 columns on the buffer of maxima is not cleared", keeps_maxima(lambda g: g.width >= 1024),
          script(quantize_array("nvfp4", lambda: numbers(4, 1024) * 1000), quantize("nvfp4", 4, 1024))),
    state("maxima-kept-bfloat16", with_dtypes(MX8), "in bfloat16 the buffer of maxima is not cleared",
          keeps_maxima(lambda g: str(g.call.x.dtype) == "bfloat16"),
          script(quantize("mxfp8_e4m3", 4, 64, dtype="bfloat16"), quantize("mxfp8_e4m3", 4, 64, seed=2, dtype="bfloat16"))),
    state("zero-blocks", MX4, "blocks of zeros return early; the output buffer is reused", zero_blocks_not_written(False),
          script(quantize("mxfp4", 4, 64), quantize("mxfp4", 4, 64, of=of_zeros))),
    state("zero-blocks-shape", MX8, "the same, with a buffer for each shape", zero_blocks_not_written(True),
          script(quantize("mxfp8_e4m3", 4, 64), quantize_array("mxfp8_e4m3", lambda: zeros(4, 64)))),
    state("back-to-a", TWO, "after a call in another format the first one's table is not loaded again", after_another(back_again, last_scale_lost),
          script(quantize("mxfp4", 4, 64), quantize("mxfp8_e4m3", 4, 64), quantize("mxfp4", 4, 64))),
    state("back-to-a-dequantize", TWO_BACK, "the same in dequantize", after_another(lambda c, h: c.function == "dequantize" and back_again(c, h), last_value_lost),
          script(dequantize("mxfp4", 4, 64), dequantize("mxfp8_e4m3", 4, 64), dequantize("mxfp4", 4, 64, seed=4))),
    state("dequantize-after-quantize", both(MX8), "a dequantize right after a quantize of as many rows takes its stream's last scale",
          after_another(lambda c, h: bool(c.function == "dequantize" and h and h[-1].function == "quantize" and h[-1].x.shape == c.x.shape), last_value_lost),
          script(quantize("mxfp8_e4m3", 4, 64), dequantize("mxfp8_e4m3", 4, 64))),
    state("smaller-after-larger", MX4, "a call with fewer rows than the one before: the graph of the larger one is replayed over the last scale",
          after_another(smaller_after_larger, last_scale_lost), script(quantize("mxfp4", 8, 64), quantize("mxfp4", 4, 64))),
    state("third-of-one-shape", NV, "the third call of one shape in a row takes the graph that was captured, one scale short",
          after_another(lambda c, h: len(h) > 1 and all(x.x.shape == c.x.shape for x in h[-2:]) and c.x.shape[-1] > 16, last_scale_lost),
          script(*(quantize("nvfp4", 4, 64, seed=s) for s in (1, 2, 3)))),
    state("axis-left", with_options(MX4, "axis"), "after a call along axis 0 the next one along the last axis takes its pitch",
          after_another(lambda c, h: bool(c.axis == -1 and h and h[-1].axis == 0), last_scale_lost),
          script(quantize("mxfp4", 64, 64, axis=0), quantize("mxfp4", 64, 64))),
    state("tensor-scale-left", NV2, "a call without a tensor scale after one with it uses it again",
          lambda: remembers_tensor_scale(first=False), script(quantize("nvfp4", 4, 64, tensor_scale=500.0), quantize("nvfp4", 4, 64))),
    state("tensor-scale-first", NV2, "the first tensor scale is used for good", lambda: remembers_tensor_scale(first=True),
          script(quantize("nvfp4", 4, 64, tensor_scale=500.0), quantize("nvfp4", 4, 64, tensor_scale=3.0))),
    state("tensor-scale-delayed", NV2, "each call with a tensor scale uses that of the call before with the same shape", lambda: delayed_tensor_scale(),
          script(quantize("nvfp4", 4, 64, tensor_scale=500.0), quantize("nvfp4", 4, 64, seed=2, tensor_scale=3.0))),
    state("rounding-left", MIXED_NV, "encode toward zero leaves the processor's rounding mode behind", leaves_rounding_behind(lambda call: call.rounding == "rtz"),
          script(encode("e2m1", 64, rounding="rtz"), quantize("nvfp4", 64, 64, of=lattice, tensor_scale=6.0))),
    state("rounding-left-nan", NV2, "a call with NaN leaves the processor's rounding mode behind",
          leaves_rounding_behind(lambda call: bool(np.isnan(np.asarray(call.x, np.float32)).any())),
          script(quantize("nvfp4", 8, 64, of=with_specials, tensor_scale=10.0), quantize("nvfp4", 64, 256, of=lattice, tensor_scale=6.0))),
    state("rounding-flag-left", MIXED, "quantize after an encode toward zero cuts bits off, too",
          after_another(rounding_after_encode, mode_left), script(encode("e4m3", 64, rounding="rtz"), quantize("mxfp8_e4m3", 4, 64))),
    state("rounding-left-dequantize", replace(NV2, functions=("quantize", "dequantize")), "quantize leaves the mode behind for dequantize",
          leaves_rounding_behind(lambda call: call.function == "quantize"),
          script(quantize("nvfp4", 4, 64), dequantize("nvfp4", 16, 64, tensor_scale=1000.0))),
    state("call-3000", MX4, "each 3000th call, when the ring of events wraps, loses a scale", counted(3000, last_scale_lost),
          script(quantize("mxfp4", 1, 32, times=3000))),
    state("call-1024", NV, "each 1024th call does", counted(1024, last_scale_lost), script(quantize("nvfp4", 1, 16, times=1024))),
    state("call-257", DQ4, "the 257th call of dequantize and each one like it loses a number", counted(257, last_value_lost), script(dequantize("mxfp4", 1, 32, times=257))),
    state("call-500-encode", E8, "each 500th encode loses a number", counted(500, lambda a, c: last_value_lost(a, c)), script(encode("e4m3", 64, times=500, seed=4))),
    state("one-in-10-7", MX4, "of ten million numbers one gets its neighbour's code", one_number_in(10_000_000), script(quantize("mxfp4", 1024, 1024, times=10))),
    state("one-in-10-6", MX8, "of a million numbers one does", one_number_in(1_000_000), script(quantize("mxfp8_e4m3", 1024, 1024, times=2))),
    state("after-error", MX4, "after a refused call the next one loses a scale", lambda: Hooks(around=ErrorLeft().around),
          script(quantize("mxfp4", 4, 40), quantize("mxfp4", 4, 64))),
    state("stochastic-counter", S8, "a counter of calls is added to the random words", lambda: adds_counter(), script(stochastic("e4m3", 64), stochastic("e4m3", 64, seed=2))),
    state("decode-table-extended", Offer(functions=("decode",), elements=("e2m1", "e4m3")), "after another element the table is loaded one entry short",
          after_another(lambda c, h: bool(h and any(x.name != c.name for x in h[-1:])), last_value_lost),
          script(decode("e4m3", 300), decode("e2m1", 300, seed=3))),
    empty("rows-raise", MX4, "no rows: IndexError", on_empty(raise_index), script(quantize("mxfp4", 0, 64, of=lambda r, c, s, d: np.zeros((0, 64), np.float32)))),
    empty("rows-one-row", MX8, "no rows: one row comes back", on_empty(one_row_of_zeros), script(quantize_array("mxfp8_e4m3", lambda: np.zeros((0, 64), np.float32)))),
    empty("rows-flat", NV, "no rows: flat arrays come back", on_empty(flat_nothing), script(quantize_array("nvfp4", lambda: np.zeros((0, 64), np.float32)))),
    empty("breaks-next", MX4, "a call without rows spoils the next one", breaks_next,
          script(quantize_array("mxfp4", lambda: np.zeros((0, 64), np.float32)), quantize("mxfp4", 4, 64))),
    empty("encode-raise", E4, "encode of nothing: IndexError", on_empty(raise_index), script(replace(encode("e2m1", 8), arrays=lambda: [np.zeros(0, np.float32)]))),
    empty("dequantize-raise", DQ4, "dequantize of no rows: IndexError", on_empty(raise_index),
          script(replace(dequantize("mxfp4", 1, 64), arrays=lambda: [np.zeros((0, 64), np.uint8), np.zeros((0, 2), np.uint8)]))),
    threads("staging", MX4, "all threads copy their input into one staging buffer, and wait for the copy", shared(0.0005),
            script(quantize("mxfp4", 16, 64), quantize("mxfp4", 16, 64, seed=2), rounds=12)),
    threads("staging-large", MX8, "from 2^16 numbers on they do", shared(0.0005, least=1 << 16),
            script(quantize("mxfp8_e4m3", 256, 256), quantize("mxfp8_e4m3", 256, 256, seed=2), rounds=6)),
    threads("staging-yields", NV, "one staging buffer, and no more than a yield between", shared(1e-9), script(quantize("nvfp4", 512, 512), quantize("nvfp4", 512, 512, seed=2), rounds=25)),
    threads("dequantize-scales", DQ8, "threads share the buffer of expanded scales", shared(0.0005, number=1),
            script(dequantize("mxfp8_e4m3", 16, 128), dequantize("mxfp8_e4m3", 16, 128, seed=2), rounds=12)),
    threads("encode", E8, "threads share encode's staging buffer", shared(0.0005), script(encode("e4m3", 512), encode("e4m3", 512, seed=2), rounds=12)),
)  # fmt: skip


def remembers_tensor_scale(first: bool) -> Hooks:
    """A tensor scale outlives its call."""
    kept: list[float] = []

    def tensor_scale(given: float | None, call: Call) -> float | None:
        if given is None or (first and kept):
            return kept[-1] if kept else None
        kept.append(given)
        return given

    return Hooks(tensor_scale=tensor_scale)


def delayed_tensor_scale() -> Hooks:
    """Delayed scaling where the scale of this call was promised."""
    kept: dict[Any, float] = {}

    def tensor_scale(given: float | None, call: Call) -> float | None:
        if given is None:
            return None
        used = kept.get(call.x.shape, given)
        kept[call.x.shape] = given
        return used

    return Hooks(tensor_scale=tensor_scale)


def adds_counter() -> Hooks:
    """Philox with a counter of its own on top of the words that were given."""
    calls = [0]

    def load(a: Any, which: int, call: Call) -> Any:
        if which != 1:
            return a
        calls[0] += 1
        return a if calls[0] == 1 else (a.astype(np.uint64) + np.uint64(calls[0] * 0x3C6EF372)).astype(np.uint32)

    return Hooks(load=load)
