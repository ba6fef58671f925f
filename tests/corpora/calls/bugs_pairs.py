"""Slips that need two conditions at once: a dtype and an axis, a stride and a tile, a size and a state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tests.corpora.calls.bugs_axes import (
    A4,
    A8,
    AN,
    AP4,
    AP8,
    TN,
    TPN,
    and_,
    fill_with,
    first_axis,
    next_row,
    of_other_tile,
    other_axis,
    stale,
    tiled,
    untiled,
)
from tests.corpora.calls.bugs_layouts import HIGH, NIBBLES, SIXES, TILES
from tests.corpora.calls.bugs_memory import (
    absolute_strides,
    after,
    floor_to_16,
    from_pointer,
    in_memory_order,
    is_fortran,
    is_pitched,
    lies,
    misaligned,
    owner,
    scratch,
    set_nan,
    take_magnitudes,
    transposed_view,
    when,
    zero_stride,
)
from tests.corpora.calls.bugs_numbers import DQ4, DQ8, DQN, E4, E8, S4, S8, TS, TS16, square, transposed, two_levels
from tests.corpora.calls.bugs_sizes import aligned, at, in_bfloat16, in_float16, lanes_missing, last, nan_passed_over
from tests.corpora.calls.bugs_state import TWO, address, after_another, cached_by, last_scale_lost, last_value_lost, shared
from tests.corpora.calls.bugs_values import around, reinterpreted
from tests.corpora.calls.catalogue import Ask, script
from tests.corpora.calls.effects import (
    MX4,
    MX4R,
    MX8,
    MX8R,
    NV,
    NV2,
    both,
    bug,
    leaves,
    only,
    reads,
    row_column,
    scales_of,
    with_dtypes,
    with_options,
)
from tests.corpora.calls.formats import BFLOAT16, Array
from tests.corpora.calls.inputs import (
    backwards,
    codes,
    decode,
    dequantize,
    encode,
    flat,
    fortran,
    numbers,
    offset,
    one_row,
    pack,
    pitched,
    quantize,
    quantize_array,
    stochastic,
    swizzle,
    tensor_scale,
    unpack,
    unswizzle,
    upside_down,
    with_specials,
)
from tests.corpora.calls.kernel import Call, Grid, Hooks, Next, Offer

size, axis, pad, tile, memory, in_place, aliased, state, threads, back, single, tensor, layout, refusal = (
    partial(bug, group)
    for group in (
        "sizes", "axis", "pad", "tiles", "memory", "in-place", "aliased", "state", "threads", "dequantize", "numbers", "tensor-scale", "layouts", "refusals",
    )
)  # fmt: skip

MX5 = replace(MX8, formats=("mxfp8_e5m2",))
DQ5 = replace(MX5, functions=("dequantize",))
E5 = Offer(functions=("encode", "decode"), elements=("e5m2",))
TILE = (16, 16)


def with_hook(hooks: Hooks, function: str) -> Hooks:
    """An `around` of one function alone."""
    return Hooks(around=lambda call, right: hooks.around(call, right) if call.function == function else right(call))


def zero_gap(a: Array, call: Call) -> None:
    """A row's vector store runs on into the gap before the next row."""
    whole = owner(a)
    if is_pitched(a) and whole.ndim == 2 and whole.shape[0] == a.shape[0]:
        whole[:, a.shape[1] :] = 0


def row_lost_to_nan(right: Array, before: Array, g: Grid) -> Array:
    """NaN in the last row of a tile is passed over."""
    held = before.reshape(g.rows // 16, 16, g.columns).copy()
    held[:, 15] = np.where(np.isnan(held[:, 15]), 0, held[:, 15])
    return np.repeat(held.max(axis=1), 16, axis=0)


def first_of_each_shape() -> Hooks:
    """The run that tunes a kernel for a shape leaves its last scale in the answer."""
    known: set[Any] = set()

    def act(call: Call, right: Next) -> Any:
        key = (call.function, np.shape(call.x))
        first = key not in known and np.size(call.x) >= 4096
        known.add(key)
        return last_scale_lost(right(call), call) if first else right(call)

    return around(act)


def every_second(where: Callable[[Call], bool]) -> Callable[[], Hooks]:
    """Of two buffers the second one is a scale short."""

    def make() -> Hooks:
        turn = [0]

        def act(call: Call, right: Next) -> Any:
            if not where(call):
                return right(call)
            turn[0] ^= 1
            return right(call) if turn[0] else last_scale_lost(right(call), call)

        return around(act)

    return make


def once_large(limit: int) -> Callable[[], Hooks]:
    """After one large call the 32-bit launch is replaced by one that forgets a scale, for good."""

    def make() -> Hooks:
        seen = [False]

        def act(call: Call, right: Next) -> Any:
            answer = last_scale_lost(right(call), call) if seen[0] else right(call)
            seen[0] = seen[0] or np.size(call.x) >= limit
            return answer

        return around(act)

    return make


def dtype_left() -> Hooks:
    """After a bfloat16 call float32 numbers of the same shape are read with bfloat16's bits."""
    before: list[Any] = []

    def load(a: Any, which: int, call: Call) -> Any:
        a = np.asarray(a)
        left = bool(before and before[-1] == (a.shape, BFLOAT16)) and a.dtype == np.float32
        before[:] = [(a.shape, a.dtype)]
        return a.astype(BFLOAT16).astype(np.float32) if left else a

    return Hooks(load=load)


class CurrentFormat:
    """The format of the call is kept in a global that all threads set and read."""

    def __init__(self) -> None:
        self.name, self.lock = "", threading.Lock()

    def around(self, call: Call, right: Next) -> Any:
        """Set, wait for the device, read."""
        self.name = call.name
        time.sleep(0.0005)
        return right(replace(call, name=self.name))


class TensorScaleLeft:
    """The tensor's maximum is kept in a global that all threads set and read."""

    def __init__(self) -> None:
        self.held: float | None = None

    def tensor_scale(self, given: float | None, call: Call) -> float | None:
        """Set, wait, read."""
        self.held = given
        time.sleep(0.0005)
        return self.held


def recycled(call: Call, right: Next) -> Any:
    """Too few random words are used again."""
    x, words = (np.asarray(a) for a in call.arrays)
    return right(replace(call, arrays=(x, np.resize(words, x.shape))))


def low_bytes(call: Call, right: Next) -> Any:
    """Codes of any integers are cast to bytes."""
    x = np.asarray(call.x)
    return right(replace(call, arrays=(x.astype(np.uint8) if x.dtype.kind in "iu" else x, *call.arrays[1:])))


def even_columns(call: Call, right: Next) -> Any:
    """An odd column at the end is not packed."""
    if call.function != "pack":
        return right(call)
    x = np.asarray(call.x)
    return right(replace(call, arrays=(x[..., : x.shape[-1] // 4 * 4 if call.name == "fp6-le" else x.shape[-1] // 2 * 2],)))


def filled_data(call: Call, right: Next) -> Any:
    """Data that are too short are filled with zeros."""
    if call.function != "unswizzle":
        return right(call)
    rows, columns = call.shape
    wanted = -(-rows // 128) * 128 * (-(-columns // 4)) * 4
    x = np.asarray(call.x).reshape(-1)
    return right(replace(call, arrays=(np.pad(x, (0, max(wanted - x.size, 0)))[:wanted],)))


def truncated_codes(call: Call, right: Next) -> Any:
    """Bytes of a wider dtype are read as numbers of a narrow one."""
    change = reinterpreted(np.float64, np.float32)
    return right(replace(call, arrays=(change(np.asarray(call.x)), *call.arrays[1:])))


BUGS = (
    size("e5m2-k-128-odd-rows", MX5, "odd rows of K a multiple of 128: scales of the last row are stored in reverse",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] == g.rows - 1, at(row_column(i, g)[0], g.columns - 1 - row_column(i, g)[1], g), i),
                   lambda g: g.rows % 2 == 1 and g.width % 128 == 0), script(quantize("mxfp8_e5m2", 3, 256))),
    size("e5m2-aligned", MX5, "whole tiles of 128 x 128, two or more: the second tile of a pair reads the first one's scales",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] // 128 % 2 == 1, i - 128 * g.columns, i), lambda g: aligned(g) and g.rows >= 256), script(quantize("mxfp8_e5m2", 256, 128))),
    size("cluster-of-two", MX4, "an odd number of tiles of 128 rows, three and more: the last has no partner in its cluster",
         leaves(lambda i, g: row_column(i, g)[0] >= g.rows - 128, lambda g: g.rows % 256 == 128 and g.rows > 128), script(quantize("mxfp4", 384, 64))),
    size("nv-odd-blocks", NV, "K an odd multiple of 16: scales are stored in pairs, and the last one is not",
         scales_of(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, 0, i), lambda g: g.columns % 2 == 1 and g.columns > 8), script(quantize("nvfp4", 3, 176))),
    size("exactly-2-16-numbers", MX4R, "2^16 numbers: the counter of a CTA wraps to zero blocks in the last wave",
         leaves(last(8), lambda g: g.items * g.k == 1 << 16), script(quantize("mxfp4", 64, 1024))),
    size("k-4096", MX8, "the tuned kernel for K = 4096 and 16 rows and more reads the last block twice",
         reads(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 2, i + 1, i), lambda g: g.width == 4096 and g.rows >= 16), script(quantize("mxfp8_e4m3", 16, 4096))),
    size("k-2880", MX4, "K = 2880, 90 blocks: 64 and 26, and the second part begins two early",
         reads(lambda i, g: np.where(row_column(i, g)[1] >= 64, i - 2, i), lambda g: g.columns == 90), script(quantize("mxfp4", 2, 2880))),
    size("k-7168-one-row", NV, "one row of 7168: seven CTAs of 64 blocks, and the seam of each reads its neighbour",
         reads(lambda i, g: np.where((i % 64 == 0) & (i > 0), i - 1, i), lambda g: g.rows == 1 and g.width == 7168), script(quantize("nvfp4", 1, 7168))),
    size("bfloat16-2-20", with_dtypes(MX4R), "bfloat16 from 2^20 numbers on: NaN is passed over",
         Hooks(amax=lambda a, b, g: nan_passed_over(a, b, g) if in_bfloat16(g) and g.items * g.k >= 1 << 20 else a), script(quantize("mxfp4", 1024, 1024, dtype="bfloat16", of=with_specials))),
    size("float16-odd-rows", with_dtypes(NV), "float16, odd rows of 256 and more: the last row misses its upper lanes",
         lanes_missing(slice(8, 16), lambda g: in_float16(g) and g.rows % 2 == 1 and g.width >= 256, lambda i, g: row_column(i, g)[0] == g.rows - 1),
         script(quantize("nvfp4", 3, 256, dtype="float16"))),
    size("rows-16-to-31", MX4, "17 to 31 rows, the second tile of 16: rows from 16 on take the scales of rows 0 on",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] >= 16, i - 16 * g.columns, i), lambda g: 16 < g.rows < 32 and g.columns >= 4), script(quantize("mxfp4", 20, 128))),
    size("half-the-grid", MX8, "more than 2^17 numbers in one column of blocks: the second half of the rows is read twice",
         reads(lambda i, g: np.where(i >= g.items // 2, i // 2 * 2, i), lambda g: g.columns == 1 and g.items * g.k > 1 << 17), script(quantize("mxfp8_e4m3", 6000, 32))),
    axis("float16-pad", with_dtypes(AP8), "float16, along axis 0 with pad: tails keep the column's start",
         fill_with(stale, lambda rows, call: call.axis in (0, -2) and call.x.dtype == np.float16), script(quantize("mxfp8_e4m3", 40, 6, axis=0, pad=True, dtype="float16"))),
    axis("pitched", A4, "along axis 0 the pitch of the input is ignored",
         Hooks(load=lambda a, n, call: from_pointer(a) if call.axis in (0, -2) and isinstance(a, np.ndarray) and is_pitched(a) else a), script(quantize("mxfp4", 32, 20, axis=0, arrange=pitched(12)))),
    axis("fortran-square", A8, "along axis 0 a square matrix in Fortran order is taken for one along the last axis",
         Hooks(load=lambda a, n, call: transposed_view(a) if call.axis in (0, -2) and isinstance(a, np.ndarray) and is_fortran(a) else a), script(quantize("mxfp8_e4m3", 64, 64, axis=0, arrange=fortran))),
    axis("named-1-pad", AP4, "with pad axis 1 is taken for the first", other_axis(lambda call: 0 if call.axis == 1 and call.pad else call.axis), script(quantize("mxfp4", 40, 70, axis=1, pad=True))),
    axis("named-minus-2-large", AN, "axis -2 from 2^14 numbers on is taken for the last", other_axis(lambda call: -1 if call.axis == -2 and call.x.size >= 1 << 14 and call.x.shape[1] % 16 == 0 else call.axis),
         script(quantize("nvfp4", 128, 128, axis=-2))),
    axis("deep-and-wide", A4, "along axis 0 from 256 rows and 256 columns on the last column of each 32 stores its neighbour's scales",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] % 32 == 31, i - g.columns, i), and_(first_axis, lambda g: g.rows >= 256 and g.width >= 256)), script(quantize("mxfp4", 256, 320, axis=0))),
    pad("bfloat16", with_dtypes(with_options(MX4, "pad")), "bfloat16: a ragged tail is masked by the tensor's size",
        fill_with(next_row, lambda rows, call: call.x.dtype == BFLOAT16), script(quantize("mxfp4", 3, 50, pad=True, dtype="bfloat16"))),
    pad("fortran", with_options(MX8, "pad"), "ragged rows in Fortran order are read as they lie",
        Hooks(load=lambda a, n, call: in_memory_order(a) if call.pad and isinstance(a, np.ndarray) and is_fortran(a) else a), script(quantize("mxfp8_e4m3", 6, 40, pad=True, arrange=fortran))),
    pad("one-number", with_options(NV, "pad"), "K = 1: the number stands in all lanes", fill_with(lambda rows, missing, call: np.repeat(rows[:, -1:] * 2, missing, axis=1), lambda rows, call: rows.shape[1] == 1),
        script(quantize("nvfp4", 3, 1, pad=True))),
    pad("many-rows", with_options(MX4, "pad"), "from 1024 rows on the tail of every 256th row is the next row's start",
        fill_with(lambda rows, missing, call: np.where((np.arange(len(rows)) % 256 == 255)[:, None], next_row(rows, missing, call), 0).astype(np.float32), lambda rows, call: len(rows) >= 1024),
        script(quantize("mxfp4", 1100, 40, pad=True))),
    pad("two-levels", with_options(NV2, "pad"), "with a tensor scale the tail of rows of several blocks is filled with the maximum",
        fill_with(lambda rows, missing, call: np.full((len(rows), missing), call.tensor_scale, np.float32), lambda rows, call: call.tensor_scale is not None and rows.shape[1] > 16),
        script(quantize("nvfp4", 2, 40, pad=True, tensor_scale=50.0))),
    tile("bfloat16", with_dtypes(TN), "bfloat16: rows are reduced in pairs, and the last pair of a tile is not, from two columns of tiles on",
         untiled(lambda r, c, g: r % 16 >= 14, lambda g: tiled(g) and in_bfloat16(g) and g.columns > 1), script(quantize("nvfp4", 16, 64, block=TILE, dtype="bfloat16"))),
    tile("fortran", TN, "tiles of a matrix in Fortran order are read as they lie",
         Hooks(load=lambda a, n, call: in_memory_order(a) if call.block and isinstance(a, np.ndarray) and is_fortran(a) else a), script(quantize("nvfp4", 32, 48, block=TILE, arrange=fortran))),
    tile("last-column-large", TN, "from 2^16 numbers on the last column of tiles takes the one before",
         of_other_tile(lambda r, c, g: (r, np.where(c == g.columns - 1, c - 1, c)), lambda g: tiled(g) and g.items * 16 >= 1 << 16), script(quantize("nvfp4", 256, 256, block=TILE))),
    tile("nan-in-row-15", TN, "NaN in the last row of a tile is passed over", Hooks(tile=row_lost_to_nan),
         script(quantize_array("nvfp4", lambda: np.where(np.arange(1024).reshape(32, 32) == 15 * 32 + 3, np.float32(np.nan), numbers(32, 32)), block=TILE))),
    tile("upside-down", TN, "tiles of rows in falling addresses", Hooks(load=lambda a, n, call: absolute_strides(a) if call.block else a), script(quantize("nvfp4", 32, 32, block=TILE, arrange=upside_down))),
    tile("padded-columns", TPN, "with pad a ragged column of tiles is not reduced over rows",
         untiled(lambda r, c, g: c == g.columns - 1, lambda g: tiled(g) and g.call.pad and g.call.x.shape[-1] % 16 != 0), script(quantize("nvfp4", 32, 40, block=TILE, pad=True))),
    memory("dequantize-aligned-pitch", DQ4, "whole tiles: the pitch of the codes is ignored",
           lies(lambda a: is_pitched(a) and a.shape[0] % 128 == 0 and a.shape[1] % 128 == 0, from_pointer), script(dequantize("mxfp4", 128, 128, arrange=pitched(128)))),
    memory("both-fortran", DQ8, "codes and scales both in Fortran order: the result is written in C order",
           Hooks(load=lambda a, n, call: in_memory_order(a) if all(is_fortran(x) for x in call.arrays) else a), script(dequantize("mxfp8_e4m3", 16, 128, arrange=fortran, arrange_scales=fortran))),
    memory("scales-upside-down", DQN, "scales in falling addresses", lies(lambda a: a.strides[0] < 0, absolute_strides, 1), script(dequantize("nvfp4", 6, 64, arrange_scales=upside_down))),
    memory("scales-offset", DQ8, "a misaligned address of scales is rounded down", lies(misaligned, floor_to_16, 1), script(dequantize("mxfp8_e4m3", 4, 128, arrange_scales=offset(1)))),
    memory("decode-offset", E5, "decode rounds a misaligned address down",
           Hooks(load=lambda a, n, call: floor_to_16(a) if call.function == "decode" and misaligned(a) else a), script(decode("e5m2", 333, arrange=offset(7)))),
    memory("encode-bfloat16-offset", replace(E8, dtypes=("float32", "bfloat16")), "encode of bfloat16 rounds a misaligned address down",
           Hooks(load=lambda a, n, call: floor_to_16(a) if call.function == "encode" and a.dtype == BFLOAT16 and misaligned(a) else a), script(encode("e4m3", 333, dtype="bfloat16", arrange=offset(1)))),
    memory("encode-broadcast", E4, "encode of one number in all places reads beyond it",
           Hooks(load=lambda a, n, call: from_pointer(a) if call.function == "encode" and a.ndim == 1 and a.strides[0] == 0 else a), script(replace(encode("e2m1", 64), arrays=lambda: [np.broadcast_to(flat(8)[3:4], (64,))]))),
    memory("stochastic-backwards", S8, "numbers in falling addresses are read in rising ones", lies(lambda a: a.strides[0] < 0, absolute_strides), script(stochastic("e4m3", 300, arrange=lambda a: a[::-1]))),
    memory("tensor-scale-broadcast", TS, "a row stride of 0 is taken for no rows at all",
           lies(lambda a: zero_stride(a, 0) and a.shape[0] > 2, lambda a: a * np.float32(0)), script(tensor_scale(8, 64, arrange=one_row))),
    memory("tensor-scale-backwards", TS16, "in float16 columns in falling addresses begin at the last one",
           lies(lambda a: a.dtype == np.float16 and a.ndim == 2 and a.strides[1] < 0, lambda a: a[:, -1:]), script(tensor_scale(4, 64, at=7, dtype="float16", arrange=backwards))),
    memory("gap-after-rows", MX4, "the gap between rows is cleared in the caller's memory", after(zero_gap), script(quantize("mxfp4", 4, 64, arrange=pitched(8)))),
    in_place("decode", E8, "decode clears the codes that it has read", with_hook(after(lambda a, call: np.bitwise_and(a, np.uint8(0x7F), out=a)), "decode"), script(decode("e4m3", 300))),
    in_place("dequantize-two-levels", DQN, "with a tensor scale the caller's scales are changed", after(when(lambda a, call: call.tensor_scale is not None and a.shape[-1] > 1, lambda a, call: np.add(a, np.uint8(1), out=a)), 1),
             script(dequantize("nvfp4", 2, 64, tensor_scale=4.0))),
    in_place("tensor-scale-bfloat16", TS16, "tensor_scale takes magnitudes of bfloat16 in place", after(when(lambda a, call: a.dtype == BFLOAT16, take_magnitudes)), script(tensor_scale(4, 32, dtype="bfloat16"))),
    in_place("encode-nan", replace(E8, dtypes=("float32", "float16")), "encode sets NaN of float16 to zero in place", with_hook(after(when(lambda a, call: a.dtype == np.float16, set_nan)), "encode"),
             script(Ask("encode", "e4m3", lambda: [with_specials(1, 400, 1, "float16").reshape(-1)]))),
    in_place("swizzle", TILES, "swizzle clears its input for the padding, from three columns on", with_hook(after(when(lambda a, call: a.shape[-1] > 2, lambda a, call: np.bitwise_and(a, np.uint8(0xFE), out=a))), "swizzle"),
             script(swizzle(100, 3))),
    in_place("tile", TN, "tiles are scaled in place from two columns of tiles on", after(when(lambda a, call: call.block is not None and a.shape[-1] > 16, lambda a, call: np.multiply(a, a.dtype.type(2), out=a))),
             script(quantize("nvfp4", 16, 32, block=TILE))),
    aliased("swizzle", TILES, "swizzled scales are returned in a buffer that the next call writes into", scratch(lambda call: call.function == "swizzle"), script(swizzle(128, 4), swizzle(128, 4, seed=2))),
    aliased("unpack-sixes", SIXES, "unpacked codes are, from 4096 on", scratch(lambda call: call.function == "unpack" and call.x.size >= 3072), script(unpack("fp6-le", 64, 64), unpack("fp6-le", 64, 64, seed=2))),
    aliased("stochastic", S4, "codes of stochastic rounding are", scratch(), script(stochastic("e2m1", 200), stochastic("e2m1", 200, seed=2))),
    aliased("two-levels", NV2, "with a tensor scale codes are", scratch(lambda call: call.tensor_scale is not None), script(quantize("nvfp4", 2, 32, tensor_scale=9.0), quantize("nvfp4", 2, 32, seed=2, tensor_scale=9.0))),
    aliased("dequantize-large", DQ5, "values of 2^16 numbers and more are", scratch(lambda call: call.x.size >= 1 << 16), script(dequantize("mxfp8_e5m2", 256, 256), dequantize("mxfp8_e5m2", 256, 256, seed=2))),
    state("tensor-scale-pointer", TS, "the tensor's maximum is cached by its address", cached_by(address), script(tensor_scale(8, 64), tensor_scale(8, 64, value=5000.0, into=0))),
    state("encode-pointer", E8, "encode caches by address from 1024 numbers on", cached_by(address, lambda call: call.function == "encode" and call.x.size >= 1024), script(encode("e4m3", 2000), encode("e4m3", 2000, seed=2, into=0))),
    state("swizzle-pointer", TILES, "swizzled scales are cached by address", cached_by(address), script(swizzle(128, 4), swizzle(128, 4, seed=2, into=0))),
    state("stochastic-words-cached", S8, "numbers that were seen before get the codes of then, whatever the words", cached_by(lambda call: call.x.tobytes()),
          script(stochastic("e4m3", 100), replace(stochastic("e4m3", 100), arrays=lambda: [flat(100), np.arange(100, dtype=np.uint32) << np.uint32(25)]))),
    state("first-of-shape", MX8R, "the first call of a shape of 4096 numbers and more tunes, and loses a scale", first_of_each_shape, script(quantize("mxfp8_e4m3", 64, 64))),
    state("every-second-wide", MX4, "of two buffers for rows of 1024 and more the second is a scale short", every_second(lambda call: np.shape(call.x)[-1] >= 1024), script(quantize("mxfp4", 2, 1024), quantize("mxfp4", 2, 1024, seed=2))),
    state("every-second-of-bfloat16", with_dtypes(MX8), "the same for bfloat16", every_second(lambda call: call.x.dtype == BFLOAT16), script(quantize("mxfp8_e4m3", 2, 64, dtype="bfloat16"), quantize("mxfp8_e4m3", 2, 64, dtype="bfloat16"))),
    state("once-large", MX4R, "after a call of 2^18 numbers all later ones lose a scale", once_large(1 << 18), script(quantize("mxfp4", 256, 1024), quantize("mxfp4", 4, 64))),
    state("dtype-left", with_dtypes(MX8), "after a bfloat16 call float32 of the same shape is read as bfloat16", dtype_left, script(quantize("mxfp8_e4m3", 4, 64, dtype="bfloat16"), quantize("mxfp8_e4m3", 4, 64))),
    state("tile-left", TN, "after a call with tiles the next one without keeps a scale of it",
          after_another(lambda c, h: bool(c.block is None and h and h[-1].block is not None), last_scale_lost), script(quantize("nvfp4", 16, 32, block=TILE), quantize("nvfp4", 16, 32))),
    state("pad-left", with_options(MX4, "pad"), "after a ragged call the next whole one is masked by its tail",
          after_another(lambda c, h: bool(h and h[-1].pad and h[-1].x.shape[-1] % 32 and c.x.shape[-1] % 32 == 0), last_scale_lost), script(quantize("mxfp4", 4, 40, pad=True), quantize("mxfp4", 4, 64))),
    state("decode-after-encode", E8, "a decode of as many codes right after an encode loses the last",
          after_another(lambda c, h: bool(c.function == "decode" and h and h[-1].function == "encode" and h[-1].x.shape == c.x.shape), last_value_lost), script(encode("e4m3", 300), decode("e4m3", 300))),
    state("unpack-after-pack", HIGH, "an unpack right after a pack loses the last code", after_another(lambda c, h: bool(c.function == "unpack" and h and h[-1].function == "pack"), last_value_lost),
          script(pack("nibble-high", 4, 32), unpack("nibble-high", 4, 32))),
    threads("format", TWO, "the current format is a global", lambda: Hooks(around=CurrentFormat().around), script(quantize("mxfp4", 8, 64), quantize("mxfp8_e4m3", 8, 64), rounds=12)),
    threads("tensor-scale-global", NV2, "the tensor scale of the current call is a global", lambda: Hooks(tensor_scale=TensorScaleLeft().tensor_scale),
            script(quantize("nvfp4", 8, 64, tensor_scale=900.0), quantize("nvfp4", 8, 64, seed=2, tensor_scale=2.0), rounds=12)),
    threads("stochastic", S8, "threads share the buffer of random words", shared(0.0005, number=1), script(stochastic("e4m3", 256), stochastic("e4m3", 256, seed=2), rounds=12)),
    threads("tensor-scale", TS, "threads share the buffer of partial maxima", shared(0.0005), script(tensor_scale(8, 64), tensor_scale(8, 64, value=4000.0), rounds=12)),
    threads("decode", E4, "threads share decode's staging buffer", shared(0.0005), script(decode("e2m1", 512), decode("e2m1", 512, seed=2), rounds=12)),
    threads("unpack", NIBBLES, "threads share unpack's staging buffer", shared(0.0005), script(unpack("nibble-low", 16, 64), unpack("nibble-low", 16, 64, seed=2), rounds=12)),
    back("e5m2-exactly-1024-blocks", DQ5, "1024 blocks: the last thread returns early", leaves(last(1), lambda g: g.items == 1024), script(dequantize("mxfp8_e5m2", 32, 1024))),
    back("odd-rows-wide", DQ4, "odd rows of 512 and more: the last row takes the scales of the one before",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] == g.rows - 1, i - g.columns, i), lambda g: g.rows > 1 and g.rows % 2 == 1 and g.width >= 512), script(dequantize("mxfp4", 5, 512))),
    back("nv-odd-columns", both(NV), "an odd number of blocks from five on: scales are read in pairs, and the last is zero",
         only("dequantize", scales_of(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, i - 1, i), lambda g: g.columns > 4 and g.columns % 2 == 1)), script(dequantize("nvfp4", 2, 80))),
    back("two-levels-square", DQN, "with a tensor scale a square grid of scales is transposed", scales_of(transposed, lambda g: two_levels(g) and square(g)), script(dequantize("nvfp4", 4, 64, tensor_scale=3.0))),
    back("two-levels-aligned", DQN, "with a tensor scale and whole tiles the last column of blocks takes the first one's scale",
         scales_of(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, i - g.columns + 1, i), lambda g: two_levels(g) and aligned(g)), script(dequantize("nvfp4", 128, 128, tensor_scale=3.0))),
    back("rows-16-to-31", DQ8, "17 to 31 rows and several columns: rows from 16 on take the scales of rows 0 on",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] >= 16, i - 16 * g.columns, i), lambda g: 16 < g.rows < 32 and g.columns >= 2), script(dequantize("mxfp8_e4m3", 24, 64))),
    single("e5m2-encode-2-18", E5, "from 2^18 numbers on each CTA but the first begins one number early",
           only("encode", reads(lambda i, g: np.where((i % 65536 == 0) & (i > 0), i - 1, i), lambda g: g.items >= 1 << 18)), script(encode("e5m2", 1 << 18))),
    single("encode-bfloat16-odd", replace(E8, dtypes=("float32", "bfloat16")), "an odd count of bfloat16 above 64: the last is read as its neighbour",
           only("encode", reads(lambda i, g: np.where(i == g.items - 1, i - 1, i), lambda g: in_bfloat16(g) and g.items > 64 and g.items % 2 == 1)), script(encode("e4m3", 333, dtype="bfloat16"))),
    tensor("bfloat16-aligned", TS16, "bfloat16, whole tiles of 128 x 128: the last row is not reduced",
           leaves(lambda i, g: i >= g.items - 128, lambda g: in_bfloat16(g) and g.call.x.shape[0] % 128 == 0 and g.call.x.shape[-1] % 128 == 0), script(tensor_scale(128, 128, dtype="bfloat16"))),
    tensor("column-63", TS, "64 columns and more: the last column of each 64 is not reduced", leaves(lambda i, g: i % g.call.x.shape[-1] % 64 == 63, lambda g: g.call.x.shape[-1] >= 64), script(tensor_scale(4, 128, at=63))),
    layout("nibbles-pitch-aligned", NIBBLES, "whole tiles: a pitch of codes is ignored", only("pack", lies(lambda a: is_pitched(a) and a.shape[0] % 128 == 0, from_pointer)), script(pack("nibble-low", 128, 64, arrange=pitched(64)))),
    layout("sixes-upside-down", SIXES, "codes in falling addresses", only("pack", Hooks(load=lambda a, n, call: absolute_strides(a))), script(pack("fp6-le", 8, 16, arrange=upside_down))),
    layout("tiles-batch", TILES, "of a batch the second matrix is swizzled as the first", only("swizzle", reads(lambda i, g: i % (g.call.x.shape[-2] * g.columns), lambda g: g.call.x.ndim == 3)),
           script(Ask("swizzle", "128x4", lambda: [codes(256, 4, 8).reshape(2, 128, 4)]))),
    layout("tiles-2-17", TILES, "from 2^17 scales on the last tile is left", only("swizzle", leaves(last(4), lambda g: g.items >= 1 << 17)), script(swizzle(1024, 128))),
    layout("unswizzle-offset", TILES, "unswizzling from a misaligned address", only("unswizzle", lies(misaligned, floor_to_16)), script(unswizzle(128, 4, arrange=offset(3)))),
    refusal("words-recycled", S8, "too few random words are used again", around(recycled), script(Ask("encode_stochastic", "e4m3", lambda: [flat(64), np.arange(16, dtype=np.uint32) << np.uint32(28)]))),
    refusal("codes-of-int32", DQ8, "codes of int32 are cut to bytes", around(low_bytes), script(Ask("dequantize", "mxfp8_e4m3", lambda: [np.arange(64, dtype=np.int32).reshape(1, 64) + 256, np.full((1, 2), 127, np.uint8)]))),
    refusal("encode-float64", E8, "the bytes of float64 are read as float32 by encode", around(lambda call, right: truncated_codes(call, right) if call.function == "encode" else right(call)),
            script(Ask("encode", "e4m3", lambda: [flat(64).astype(np.float64)]))),
    refusal("tensor-scale-float64", TS, "the bytes of float64 are read as float32 by tensor_scale", around(truncated_codes), script(Ask("tensor_scale", "nvfp4", lambda: [numbers(4, 64).astype(np.float64)]))),
    refusal("pack-odd", NIBBLES, "of an odd number of columns the last is not packed", around(even_columns), script(pack("nibble-low", 3, 7))),
    refusal("sixes-ragged", SIXES, "of columns that are no multiple of 4 the rest is not packed", around(even_columns), script(pack("fp6-le", 3, 10))),
    refusal("unswizzle-short", TILES, "data that are too short are filled with zeros", around(filled_data), script(Ask("unswizzle", "128x4", lambda: [codes(1, 300, 8).reshape(-1)], shape=(100, 3)))),
)  # fmt: skip
