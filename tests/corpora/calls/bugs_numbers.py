"""The same slips on the other paths: dequantize, encode, decode, stochastic rounding and the tensor's maximum."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tests.corpora.calls.bugs_sizes import aligned, at, last, partial_tile, power_of_two, tile_order, wide
from tests.corpora.calls.catalogue import script
from tests.corpora.calls.effects import MX4, MX8, NV2, Where, both, bug, leaves, only, reads, row_column, scales_of
from tests.corpora.calls.formats import Array
from tests.corpora.calls.inputs import decode, dequantize, encode, stochastic, tensor_scale
from tests.corpora.calls.kernel import Call, Grid, Hooks, Offer

back = partial(bug, "dequantize")
single = partial(bug, "numbers")
tensor = partial(bug, "tensor-scale")

DQ4, DQ8, DQN = (replace(o, functions=("dequantize",)) for o in (MX4, MX8, NV2))
E4 = Offer(functions=("encode", "decode"), elements=("e2m1",))
E8 = Offer(functions=("encode", "decode"), elements=("e4m3",))
S4 = Offer(functions=("encode_stochastic",), elements=("e2m1",))
S8 = Offer(functions=("encode_stochastic",), elements=("e4m3",))
TS = replace(NV2, functions=("tensor_scale",))
TS16 = replace(TS, dtypes=("float32", "float16", "bfloat16"))


def square(g: Grid) -> bool:
    """As many rows as columns of blocks."""
    return g.rows == g.columns > 1


def transposed(i: Array, g: Grid) -> Array:
    """Columns for rows."""
    return at(row_column(i, g)[1], row_column(i, g)[0], g)


def items_from(count: int) -> Where:
    """Calls of so many numbers."""
    return lambda g: g.items >= count


def exactly(count: int) -> Where:
    """Calls of exactly so many numbers."""
    return lambda g: g.items == count


def words(choose: Any) -> Hooks:
    """The random words are taken from other places."""

    def load(a: Array, number: int, call: Call) -> Array:
        return np.asarray(a).reshape(-1)[choose(np.arange(np.asarray(a).size))] if number == 1 else a

    return Hooks(load=load)


def two_levels(g: Grid) -> bool:
    """Calls with a tensor scale and more than one block a row."""
    return g.call.tensor_scale is not None and g.columns > 1


def scaled(values: Array, g: Grid, factor: Any, where: Any) -> Array:
    """Values of some blocks times a number."""
    blocks = where(np.arange(g.items), g)
    return np.where(blocks[:, None], values * np.float32(factor), values).astype(np.float32)


def without_tensor_scale(i: Array, g: Grid) -> Array:
    """Every block but the first of a row."""
    return row_column(i, g)[1] > 0


def fused_wrongly(values: Array, g: Grid) -> Array:
    """From the fourth block on the reciprocal of the tensor scale is rounded to bfloat16 first."""
    rounded = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where((row_column(np.arange(g.items), g)[1] >= 4)[:, None], rounded, values) if two_levels(g) else values


BUGS = (
    back("square-scales-transposed", both(MX4), "a square grid of scales is taken for the transposed one",
         only("dequantize", scales_of(transposed, square)), script(dequantize("mxfp4", 4, 128))),
    back("square-128-scales", DQ8, "the same from 128 x 128 scales on",
         scales_of(transposed, lambda g: square(g) and g.rows >= 128), script(dequantize("mxfp8_e4m3", 128, 4096))),
    back("aligned-scales-in-tiles", both(MX8), "whole tiles: the scales are taken for those of 128 x 4 tiles",
         only("dequantize", scales_of(tile_order, aligned)), script(dequantize("mxfp8_e4m3", 128, 256))),
    back("aligned-last-tile-row", DQ4, "whole tiles: the last row of each tile reads the scales of the one before",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] % 128 == 127, i - g.columns, i), aligned), script(dequantize("mxfp4", 256, 128))),
    back("grid-rows-65535", DQ4, "rows beyond 65,535 are not written",
         leaves(lambda i, g: row_column(i, g)[0] >= 65535), script(dequantize("mxfp4", 65537, 32))),
    back("block-in-uint16", DQ8, "a block's number is held in 16 bits for its scale",
         scales_of(lambda i, g: i & 0xFFFF), script(dequantize("mxfp8_e4m3", 1030, 2048))),
    back("block-in-int16", DQN, "blocks from 32,768 on are dropped", leaves(lambda i, g: i >= 32768), script(dequantize("nvfp4", 1040, 512))),
    back("exactly-512-blocks", both(MX4), "512 blocks: nobody writes the last four",
         only("dequantize", leaves(last(4), lambda g: g.items == 512)), script(dequantize("mxfp4", 32, 512))),
    back("exactly-384-blocks", DQ8, "384 blocks: the third wave of 128 reads the second's scales",
         scales_of(lambda i, g: np.where(i >= 256, i - 128, i), lambda g: g.items == 384), script(dequantize("mxfp8_e4m3", 6, 2048))),
    back("from-16384-blocks", DQ4, "from 16,384 blocks on the last one is left", leaves(last(1), items_from(16384)),
         script(dequantize("mxfp4", 512, 1024))),
    back("numbers-2-17", DQN, "from 2^17 numbers on the scale of every eighth block is its neighbour's",
         scales_of(lambda i, g: np.where(i % 8 == 7, i - 1, i), lambda g: g.items * g.k >= 1 << 17), script(dequantize("nvfp4", 64, 2048))),
    back("numbers-2-20", both(MX8), "from 2^20 numbers on the second half starts one block late",
         only("dequantize", reads(lambda i, g: np.where(i == g.items // 2, i + 1, i), lambda g: g.items * g.k >= 1 << 20)),
         script(dequantize("mxfp8_e4m3", 1024, 1024))),
    back("k-8192-scales", DQ4, "columns from 8192 on take the scales of the row's start",
         scales_of(lambda i, g: at(row_column(i, g)[0], row_column(i, g)[1] % 256, g), wide(8193)), script(dequantize("mxfp4", 2, 8448))),
    back("k-power-of-two", DQ8, "powers of two from 256 on: the mask of the columns is one bit short",
         scales_of(lambda i, g: at(row_column(i, g)[0], row_column(i, g)[1] % (g.columns // 2), g), power_of_two), script(dequantize("mxfp8_e4m3", 3, 512))),
    back("k-256-big-endian", DQ4, "K a multiple of 256: eight scales in two words, whose bytes are exchanged",
         scales_of(lambda i, g: i ^ 3, lambda g: g.width % 256 == 0), script(dequantize("mxfp4", 1, 256))),
    back("tile-64-partial", DQ4, "the last partial tile of 64 rows is not written",
         leaves(lambda i, g: row_column(i, g)[0] >= g.rows // 64 * 64, partial_tile(64)), script(dequantize("mxfp4", 70, 64))),
    back("tile-128-partial", DQN, "the last partial tile of 128 rows takes the scales of the one before",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] >= g.rows // 128 * 128, i - 128 * g.columns, i), partial_tile(128)),
         script(dequantize("nvfp4", 130, 48))),
    back("odd-columns-wide", DQ8, "an odd number of blocks from 9 on: the last block takes its neighbour's scale",
         scales_of(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, i - 1, i), lambda g: g.columns >= 9 and g.columns % 2 == 1),
         script(dequantize("mxfp8_e4m3", 2, 352))),
    back("one-row-wide", DQ4, "one row of 2048 and more: the last 128 numbers are left to a tail that is not launched",
         leaves(last(4), lambda g: g.rows == 1 and g.width >= 2048), script(dequantize("mxfp4", 1, 2048))),
    back("two-levels-first-scale", both(NV2), "with a tensor scale all blocks of a row take the first one's scale",
         only("dequantize", scales_of(lambda i, g: i - row_column(i, g)[1], two_levels)), script(dequantize("nvfp4", 4, 64, tensor_scale=3.0))),
    back("two-levels-column-major", DQN, "with a tensor scale the scales are read column by column",
         scales_of(lambda i, g: row_column(i, g)[1] * g.rows + row_column(i, g)[0], lambda g: two_levels(g) and g.rows > 1),
         script(dequantize("nvfp4", 3, 80, tensor_scale=7.0))),
    back("two-levels-first-block-alone", DQN, "the tensor scale is applied to the first block of a row alone",
         Hooks(output=lambda v, g: scaled(v, g, 2688 / (g.call.tensor_scale or 1), without_tensor_scale) if two_levels(g) else v),
         script(dequantize("nvfp4", 2, 64, tensor_scale=21.0))),
    back("two-levels-fifth-block", DQN, "from the fifth block on the tensor scale is applied twice",
         Hooks(output=lambda v, g: scaled(v, g, (g.call.tensor_scale or 0) / 2688, lambda i, g: row_column(i, g)[1] >= 4) if two_levels(g) else v),
         script(dequantize("nvfp4", 1, 128, tensor_scale=21.0))),
    back("two-levels-bfloat16", DQN, "from the fourth block on products are cut to bfloat16", Hooks(output=fused_wrongly),
         script(dequantize("nvfp4", 2, 96, tensor_scale=1.7))),
    back("two-levels-large", DQN, "with a tensor scale and 4096 blocks or more the last row is left",
         leaves(lambda i, g: row_column(i, g)[0] == g.rows - 1, lambda g: two_levels(g) and g.items >= 4096),
         script(dequantize("nvfp4", 64, 1024, tensor_scale=3.5))),
    single("encode-uint16", E4, "an index of 16 bits: number 65,536 is read at 0", only("encode", reads(lambda i, g: i & 0xFFFF)), script(encode("e2m1", 65600))),
    single("encode-tail", E8, "above 1024 numbers a tail of fewer than 8 is not written",
         only("encode", leaves(lambda i, g: i >= g.items // 8 * 8, items_from(1025))), script(encode("e4m3", 1029))),
    single("encode-exactly-65536", E8, "65,536 numbers: 256 CTAs of 256, and the last one is not launched",
         only("encode", leaves(last(256), exactly(65536))), script(encode("e4m3", 65536))),
    single("encode-2-17", E4, "from 2^17 numbers on the last one is left", only("encode", leaves(last(1), items_from(1 << 17))),
         script(encode("e2m1", (1 << 17) + 3))),
    single("encode-2-20", E8, "from 2^20 numbers on every 4096th is read twice",
         only("encode", reads(lambda i, g: np.where(i % 4096 == 4095, i - 1, i), items_from(1 << 20))), script(encode("e4m3", 1 << 20))),
    single("encode-exactly-1024", E4, "1024 numbers, the most threads of a CTA: the last returns early",
         only("encode", leaves(last(1), exactly(1024))), script(encode("e2m1", 1024))),
    single("decode-uint16", E8, "an index of 16 bits", only("decode", reads(lambda i, g: i & 0xFFFF)), script(decode("e4m3", 65537))),
    single("decode-tail", E4, "above 1024 codes an odd one at the end is decoded as its neighbour",
         only("decode", reads(lambda i, g: np.where((i == g.items - 1) & (g.items % 2 == 1), i - 1, i), items_from(1025))), script(decode("e2m1", 1031))),
    single("decode-2-17", E8, "from 2^17 codes on vectors of four are stored in reverse",
         only("decode", reads(lambda i, g: i // 4 * 4 + 3 - i % 4, items_from(1 << 17))), script(decode("e4m3", 1 << 17))),
    single("decode-2-20", E4, "from 2^20 codes on the last 64 are left", only("decode", leaves(last(64), items_from(1 << 20))),
         script(decode("e2m1", (1 << 20) + 64))),
    single("decode-exactly-4096", E4, "4096 codes: a page, whose last entry is prefetched and dropped",
         only("decode", leaves(last(1), exactly(4096))), script(decode("e2m1", 4096, seed=3))),
    single("stochastic-words-8192", S8, "random words are drawn in chunks of 8192, and the first chunk is used for all",
         words(lambda i: i % 8192), script(stochastic("e4m3", 8300))),
    single("stochastic-words-65536", S4, "the words' index is held in 16 bits", words(lambda i: i & 0xFFFF), script(stochastic("e2m1", 65700))),
    single("stochastic-words-order", S4, "from 2^14 numbers on the four words of a vector are used in reverse",
         words(lambda i: i // 4 * 4 + 3 - i % 4 if i.size >= 1 << 14 and i.size % 4 == 0 else i), script(stochastic("e2m1", 1 << 14))),
    single("stochastic-tail", S8, "above 512 numbers a tail of fewer than four reuses the word before it",
         words(lambda i: np.where((i >= i.size // 4 * 4) & (i.size > 512), i.size // 4 * 4 - 1, i)), script(stochastic("e4m3", 515))),
    single("stochastic-2-17", S8, "from 2^17 numbers on the last 32 are left", leaves(last(32), items_from(1 << 17)),
         script(stochastic("e4m3", 1 << 17))),
    single("stochastic-2-20", S4, "from 2^20 numbers on the second half uses the first half's words",
         words(lambda i: i % (i.size // 2) if i.size >= 1 << 20 else i), script(stochastic("e2m1", 1 << 20))),
    tensor("tail-1024", TS, "above 1024 numbers a tail of fewer than 1024 is not reduced",
         leaves(lambda i, g: i >= g.items // 1024 * 1024, items_from(1025)), script(tensor_scale(3, 500))),
    tensor("beyond-2-20", TS, "at most 1024 partial maxima of 1024 numbers: the rest is not reduced",
         leaves(lambda i, g: i >= 1 << 20), script(tensor_scale(1, (1 << 20) + 16))),
    tensor("exactly-65536", TS, "65,536 numbers: the last of 256 partial maxima is missed", leaves(last(256), exactly(65536)),
         script(tensor_scale(256, 256))),
    tensor("middle", TS, "two CTAs: the number at the seam belongs to neither, from 4096 on",
         leaves(lambda i, g: i == g.items // 2, items_from(4096)), script(tensor_scale(64, 64, at=2048))),
    tensor("rows-65535", TS, "one CTA a row, 65,535 at most", leaves(lambda i, g: i // g.call.x.shape[-1] >= 65535),
         script(tensor_scale(65536, 16))),
    tensor("sixteen-bit-pairs", TS16, "16-bit numbers are read in pairs, and from 256 on the high one is dropped",
         leaves(lambda i, g: i % 2 == 1, lambda g: g.call.x.dtype.itemsize == 2 and g.items >= 256), script(tensor_scale(16, 32, at=301, dtype="bfloat16"))),
    tensor("float16-tail", TS16, "float16: a tail of fewer than 8 is not reduced",
         leaves(lambda i, g: i >= g.items // 8 * 8, lambda g: str(g.call.x.dtype) == "float16" and g.items > 8), script(tensor_scale(3, 13, dtype="float16"))),
    tensor("negative-large", TS, "from 2^16 numbers on the vector maximum is signed",
         Hooks(read=None, load=lambda a, n, call: np.where(np.signbit(a) & (np.asarray(a).size >= 1 << 16), 0, a).astype(np.float32)),
         script(tensor_scale(256, 512, at=70000, value=-1000.0))),
    tensor("one-row-large", TS, "a single row from 8192 on: the first number of each CTA but the first is missed",
         leaves(lambda i, g: (i % 2048 == 0) & (i > 0), lambda g: g.call.x.shape[0] == 1 and g.items >= 8192), script(tensor_scale(1, 8192, at=4096))),
)  # fmt: skip
