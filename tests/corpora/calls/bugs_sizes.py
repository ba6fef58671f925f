"""Quantizers that change their path with the size of the call, and slip in one of the paths."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.corpora.calls.catalogue import script
from tests.corpora.calls.effects import (
    MX4,
    MX4R,
    MX8,
    MX8R,
    NV,
    NV2,
    Choice,
    Where,
    both,
    bug,
    leaves,
    only,
    reads,
    row_column,
    scales_of,
    with_dtypes,
)
from tests.corpora.calls.formats import Array
from tests.corpora.calls.inputs import quantize, with_specials
from tests.corpora.calls.kernel import Grid, Hooks

size = partial(bug, "sizes")


def blocks(count: int) -> Where:
    """Calls of exactly so many blocks."""
    return lambda g: g.items == count


def numbers_from(count: int) -> Where:
    """Calls of so many numbers and more."""
    return lambda g: g.items * g.k >= count


def wide(width: int) -> Where:
    """Rows of so many numbers and more."""
    return lambda g: g.width >= width


def aligned(g: Grid) -> bool:
    """Whole tiles of 128 x 128 numbers: the path of production."""
    return g.items > 0 and g.rows % 128 == 0 and g.width % 128 == 0


def power_of_two(g: Grid) -> bool:
    """Rows of 256, 512, 1024 ... numbers."""
    return g.width >= 256 and g.width & (g.width - 1) == 0


def partial_tile(rows: int) -> Where:
    """Calls whose last tile of rows is not whole, and not the only one."""
    return lambda g: g.rows > rows and g.rows % rows != 0


def in_last_tile(rows: int) -> Choice:
    """Blocks of the partial tile."""
    return lambda i, g: row_column(i, g)[0] >= g.rows // rows * rows


def last(count: int) -> Choice:
    """The last so many items of a call."""
    return lambda i, g: i >= g.items - count


def at(rows: Array, columns: Array, g: Grid) -> Array:
    """Numbers of blocks."""
    return np.asarray(rows * g.columns + columns)


def magic_rows(i: Array, g: Grid) -> Array:
    """Division by the columns as multiplication with a reciprocal of 16 bits."""
    row = (i * (-(-65536 // g.columns))) >> 16
    return at(row, np.clip(i - row * g.columns, 0, g.columns - 1), g)


def tile_order(i: Array, g: Grid) -> Array:
    """The block whose scale lands at each byte if 128 x 4 tiles are stored where rows were asked for."""
    r, c = row_column(i, g)
    tile = r // 128 * (g.columns // 4) + c // 4
    place = tile * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4
    return np.argsort(place)


def nan_passed_over(amax: Array, b: Array, g: Grid) -> Array:
    """fmax in place of a maximum that keeps NaN."""
    return np.where(np.isnan(amax), np.fmax.reduce(np.abs(b), axis=-1, initial=np.float32(0)), amax)


def lanes_missing(lanes: slice, where: Where, blocks_of: Choice | None = None) -> Hooks:
    """Some lanes are not reduced in some blocks."""

    def amax(right: Array, b: Array, g: Grid) -> Array:
        if not where(g):
            return right
        kept = np.abs(b)
        kept[:, lanes] = 0
        short = kept.max(axis=-1)
        return short if blocks_of is None else np.where(blocks_of(np.arange(g.items), g), short, right)

    return Hooks(amax=amax)


def in_bfloat16(g: Grid) -> bool:
    """Calls with bfloat16."""
    return str(g.call.x.dtype) == "bfloat16"


def in_float16(g: Grid) -> bool:
    """Calls with float16."""
    return str(g.call.x.dtype) == "float16"


BUGS = (
    size("grid-rows-65535", MX4, "one CTA a row, and no more than 65,535 of them: later rows are not written",
         leaves(lambda i, g: row_column(i, g)[0] >= 65535), script(quantize("mxfp4", 65536, 32))),
    size("row-in-uint16", both(MX8), "the row's number is held in 16 bits: row 65,536 reads row 0",
         only("quantize", reads(lambda i, g: at(row_column(i, g)[0] & 0xFFFF, row_column(i, g)[1], g))),
         script(quantize("mxfp8_e4m3", 65600, 32))),
    size("row-in-int16", NV, "the row's number is a short: rows from 32,768 on are negative and dropped",
         leaves(lambda i, g: row_column(i, g)[0] >= 32768), script(quantize("nvfp4", 32769, 16))),
    size("block-in-uint16", MX4R, "the block's number is held in 16 bits",
         reads(lambda i, g: i & 0xFFFF), script(quantize("mxfp4", 257, 8192))),
    size("block-in-int16", MX8R, "the block's number is a short: blocks from 32,768 on are dropped",
         leaves(lambda i, g: i >= 32768), script(quantize("mxfp8_e4m3", 128, 257 * 32))),
    size("grid-blocks-65535", MX4, "one CTA a block, 65,535 at most",
         leaves(lambda i, g: i >= 65535), script(quantize("mxfp4", 1024, 2048))),
    size("large-kernel-16384", NV, "from 16,384 blocks on another kernel runs, whose loop ends one block early",
         leaves(last(1), lambda g: g.items >= 16384), script(quantize("nvfp4", 1024, 256))),
    size("exactly-16384-blocks", MX8, "16,384 blocks exactly: the last CTA's guard is < in place of <=",
         leaves(last(128), blocks(16384)), script(quantize("mxfp8_e4m3", 512, 1024))),
    size("wave-of-384", MX4, "exactly three waves of 128 blocks: the third reads the second's buffer",
         reads(lambda i, g: np.where(i >= 256, i - 128, i), blocks(384)), script(quantize("mxfp4", 12, 1024))),
    size("exactly-384-rows-of-nvfp4", NV2, "384 blocks: the last buffer of the triple buffering is not drained",
         leaves(last(128), blocks(384)), script(quantize("nvfp4", 48, 128))),
    size("exactly-512-blocks", MX8, "512 blocks fill a wave: there is no tail CTA, and none writes the last four",
         leaves(last(4), blocks(512)), script(quantize("mxfp8_e4m3", 16, 1024))),
    size("exactly-1024-blocks", MX4R, "1024 blocks: as many threads as a CTA has at most, and the last one returns early",
         leaves(last(1), blocks(1024)), script(quantize("mxfp4", 32, 1024))),
    size("exactly-1024-blocks-scales", NV, "1024 blocks: the scales of the second half are those of the first",
         scales_of(lambda i, g: i % 512, blocks(1024)), script(quantize("nvfp4", 64, 256))),
    size("numbers-2-17", MX8R, "from 2^17 numbers on scales are stored in pairs, swapped",
         scales_of(lambda i, g: i ^ 1, numbers_from(1 << 17)), script(quantize("mxfp8_e4m3", 128, 1024))),
    size("exactly-2-17-numbers", MX4, "2^17 numbers: a workspace one row too small",
         leaves(lambda i, g: row_column(i, g)[0] == g.rows - 1, lambda g: g.items * g.k == 1 << 17),
         script(quantize("mxfp4", 64, 2048))),
    size("numbers-2-20", both(MX4), "from 2^20 numbers on the last warp misses its last eight lanes",
         only("quantize", lanes_missing(slice(24, 32), numbers_from(1 << 20), lambda i, g: i >= g.items - 32)),
         script(quantize("mxfp4", 1024, 1024))),
    size("exactly-2-20-numbers", NV, "2^20 numbers: the second half of the split tensor starts one block late",
         reads(lambda i, g: np.where(i == g.items // 2, i + 1, i), lambda g: g.items * g.k == 1 << 20),
         script(quantize("nvfp4", 512, 2048))),
    size("offset-in-22-bits", MX4, "a code's bit offset is held in 22 bits: 2^20 codes of 4",
         reads(lambda i, g: i % (1 << 15)), script(quantize("mxfp4", 1025, 1024))),
    size("k-8192-scales", MX4, "rows of 8192 and more take two CTAs, and the second stores the first one's scales",
         scales_of(lambda i, g: at(row_column(i, g)[0], row_column(i, g)[1] % 256, g), wide(8193)), script(quantize("mxfp4", 3, 8224))),
    size("k-8192-exact", MX8, "rows of 8192: the block after the last vector of the first half is skipped",
         leaves(lambda i, g: row_column(i, g)[1] == g.columns // 2, lambda g: g.width == 8192), script(quantize("mxfp8_e4m3", 2, 8192))),
    size("k-12288-shared", NV, "rows are staged in 48 KiB of shared memory: numbers from 12,288 on are read from its start",
         reads(lambda i, g: at(row_column(i, g)[0], row_column(i, g)[1] % 768, g)), script(quantize("nvfp4", 1, 16384))),
    size("k-16384-int16", MX4, "a byte offset of float32 in 16 bits: columns from 16,384 on wrap",
         reads(lambda i, g: at(row_column(i, g)[0], row_column(i, g)[1] % 512, g)), script(quantize("mxfp4", 2, 16416))),
    size("k-32768-short", MX8R, "the column is a short: columns from 32,768 on are dropped",
         leaves(lambda i, g: row_column(i, g)[1] >= 1024), script(quantize("mxfp8_e4m3", 1, 32800))),
    size("k-power-of-two", MX4, "powers of two are masked, and the mask is one block short",
         reads(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, i - g.columns + 1, i), power_of_two),
         script(quantize("mxfp4", 4, 512))),
    size("k-power-of-two-rows", NV, "powers of two are shifted, by the wrong count from 1024 on: rows are read in pairs",
         reads(lambda i, g: at(row_column(i, g)[0] // 2 * 2, row_column(i, g)[1], g), lambda g: power_of_two(g) and g.width >= 1024),
         script(quantize("nvfp4", 4, 1024))),
    size("k-256-scales-swapped", MX8, "K a multiple of 256: eight scales in one store, its halves swapped",
         scales_of(lambda i, g: i ^ 4, lambda g: g.width % 256 == 0), script(quantize("mxfp8_e4m3", 2, 256))),
    size("k-256-nan", MX4R, "K a multiple of 256: the vector path's maximum passes over NaN",
         Hooks(amax=lambda a, b, g: nan_passed_over(a, b, g) if g.width % 256 == 0 else a),
         script(quantize("mxfp4", 8, 512, of=with_specials))),
    size("k-128-big-endian", NV, "K a multiple of 128 from 512 on: four scales in one word, the first in its high byte",
         scales_of(lambda i, g: i // 4 * 4 + 3 - i % 4, lambda g: g.width % 128 == 0 and g.width >= 512),
         script(quantize("nvfp4", 2, 512))),
    size("k-64-lane-order", MX4, "K a multiple of 64 but not of 128: the second block of the pair has its halves exchanged",
         Hooks(numbers=lambda b, g: np.where((np.arange(g.items) % 2 == 1)[:, None], np.roll(b, 16, axis=-1), b)
               if g.width % 128 == 64 and g.columns > 2 else b), script(quantize("mxfp4", 2, 192))),
    size("aligned-scales-in-tiles", MX8, "whole tiles of 128 x 128: the scales are returned in the order of tiles of 128 x 4",
         scales_of(tile_order, aligned), script(quantize("mxfp8_e4m3", 128, 256))),
    size("aligned-nan", MX4, "whole tiles: the reduction passes over NaN",
         Hooks(amax=lambda a, b, g: nan_passed_over(a, b, g) if aligned(g) else a),
         script(quantize("mxfp4", 128, 128, of=with_specials))),
    size("aligned-zero-sign", MX8, "whole tiles: zeros lose their sign",
         Hooks(output=lambda c, g: np.where(c == 0x80, 0, c).astype(np.uint8) if aligned(g) else c),
         script(quantize("mxfp8_e4m3", 128, 128, of=with_specials))),
    size("aligned-reciprocal", MX8R, "whole tiles: the maximum is taken one ulp too high before its scale",
         Hooks(amax=lambda a, b, g: np.nextafter(a, np.float32(np.inf)) if aligned(g) else a),
         script(quantize("mxfp8_e4m3", 256, 256, of=lambda r, c, s, d: np.full((r, c), 448, np.float32)))),
    size("aligned-last-column", NV, "whole tiles: the last column of blocks is loaded before the barrier, from the tile before",
         reads(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, i - 8, i), lambda g: aligned(g) and g.columns > 8),
         script(quantize("nvfp4", 128, 384))),
    size("aligned-rows-only", MX4, "rows a multiple of 128 with 4 columns of blocks or more: row 127 of each tile is not written",
         leaves(lambda i, g: row_column(i, g)[0] % 128 == 127, lambda g: g.rows % 128 == 0 and g.columns >= 4),
         script(quantize("mxfp4", 256, 160))),
    size("tile-64-partial", MX4, "the last partial tile of 64 rows is not launched",
         leaves(in_last_tile(64), partial_tile(64)), script(quantize("mxfp4", 100, 32))),
    size("tile-128-partial", MX8, "the last partial tile of 128 rows is read at the last whole one's place",
         reads(lambda i, g: at(np.minimum(row_column(i, g)[0], g.rows // 128 * 128 - 1), row_column(i, g)[1], g), partial_tile(128)),
         script(quantize("mxfp8_e4m3", 200, 96))),
    size("tile-256-partial-scales", NV, "the last partial tile of 256 rows stores the scales of the tile before it",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] >= g.rows // 256 * 256, i - 256 * g.columns, i), partial_tile(256)),
         script(quantize("nvfp4", 300, 64))),
    size("tile-256-one-short", MX4R, "255 rows of a tile of 256: the guard counts in fours, and the last three rows are dropped",
         leaves(lambda i, g: row_column(i, g)[0] >= g.rows // 4 * 4, lambda g: g.rows > 128 and g.rows % 4 == 3),
         script(quantize("mxfp4", 255, 32))),
    size("odd-rows-wide", MX4, "odd rows of 1024 numbers and more: the last row has no partner, and its scales stay zero",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] == g.rows - 1, 0, i), lambda g: g.rows > 1 and g.rows % 2 == 1 and g.width >= 1024),
         script(quantize("mxfp4", 5, 1024))),
    size("odd-blocks-pair", MX8, "rows of 5, 7, 9 ... blocks: the last one's scale is its neighbour's",
         scales_of(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, i - 1, i), lambda g: g.columns > 4 and g.columns % 2 == 1),
         script(quantize("mxfp8_e4m3", 3, 160))),
    size("tail-of-four", MX4, "four blocks a thread: above 64 blocks a tail of three is not written",
         leaves(lambda i, g: i >= g.items // 4 * 4, lambda g: g.items > 64 and g.items % 4 == 3), script(quantize("mxfp4", 67, 32))),
    size("tail-of-256", NV, "256 blocks a CTA: a tail of one block is read from the CTA before",
         reads(lambda i, g: np.where(i == g.items - 1, i - 256, i), lambda g: g.items > 256 and g.items % 256 == 1),
         script(quantize("nvfp4", 257, 16))),
    size("one-row-split", MX4, "one row of 4096 and more is split: blocks at the seams miss their upper half",
         lanes_missing(slice(16, 32), lambda g: g.rows == 1 and g.width >= 4096, lambda i, g: i % 64 == 63),
         script(quantize("mxfp4", 1, 4096))),
    size("few-rows-wide", MX8, "2 to 8 rows of 2048 and more, the kernel for small batches: row 4 and later read row 3",
         reads(lambda i, g: at(np.minimum(row_column(i, g)[0], 3), row_column(i, g)[1], g), lambda g: g.rows <= 8 and g.width >= 2048),
         script(quantize("mxfp8_e4m3", 8, 2048))),
    size("magic-division", MX4R, "blocks to rows by a reciprocal of 16 bits",
         reads(magic_rows, lambda g: g.columns > 1), script(quantize("mxfp4", 2100, 224))),
    size("rows-transposed-square", NV, "as many rows as columns of blocks: the scales are stored transposed",
         scales_of(lambda i, g: at(row_column(i, g)[1], row_column(i, g)[0], g), lambda g: g.rows == g.columns > 1),
         script(quantize("nvfp4", 16, 256))),
    size("rows-4096-stride", MX8R, "a pitch of 4096 and more bytes: every eighth row reads the row before (bank swizzle)",
         reads(lambda i, g: np.where(row_column(i, g)[0] % 8 == 7, i - g.columns, i), lambda g: g.width * 4 % 4096 == 0 and g.rows >= 8),
         script(quantize("mxfp8_e4m3", 16, 1024))),
    size("bfloat16-large", with_dtypes(MX4), "bfloat16 from 2^16 numbers on: of each pair of lanes one is reduced",
         lanes_missing(slice(1, None, 2), lambda g: in_bfloat16(g) and g.items * g.k >= 1 << 16),
         script(quantize("mxfp4", 64, 1024, dtype="bfloat16"))),
    size("bfloat16-k-512", with_dtypes(NV), "bfloat16, K a multiple of 512: vectors of 8 blocks, the last one's scale is the first one's",
         scales_of(lambda i, g: np.where(i % 8 == 7, i - 7, i), lambda g: in_bfloat16(g) and g.width % 512 == 0),
         script(quantize("nvfp4", 2, 512, dtype="bfloat16"))),
    size("float16-aligned", with_dtypes(MX8), "float16, whole tiles: the maximum of half2 pairs takes the low half alone",
         lanes_missing(slice(1, None, 2), lambda g: in_float16(g) and aligned(g)),
         script(quantize("mxfp8_e4m3", 128, 256, dtype="float16"))),
)  # fmt: skip
