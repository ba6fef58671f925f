"""Slips along the other axis, in ragged tails and in tiles of 16 x 16."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.corpora.calls.bugs_sizes import at, in_bfloat16
from tests.corpora.calls.catalogue import script
from tests.corpora.calls.effects import MX4, MX4R, MX8, NV, NV2, Where, bug, leaves, reads, row_column, scales_of, with_dtypes, with_options
from tests.corpora.calls.formats import BLOCKS, Array
from tests.corpora.calls.inputs import quantize, with_infinities, with_specials
from tests.corpora.calls.kernel import Call, Grid, Hooks, Next

axis = partial(bug, "axis")
pad = partial(bug, "pad")
tile = partial(bug, "tiles")

A4, A8, AN = (with_options(o, "axis") for o in (MX4, MX8, NV))
P4, P8, PN = (with_options(o, "pad") for o in (MX4, MX8, NV))
AP4, AP8, APN = (with_options(o, "axis", "pad") for o in (MX4R, MX8, NV))
TN = with_options(NV2, "block")
TPN = with_options(NV2, "block", "pad", "axis")


def first_axis(g: Grid) -> bool:
    """Calls along axis 0 of a matrix."""
    return g.call.axis in (0, -2)


def and_(*conditions: Where) -> Where:
    """All of them."""
    return lambda g: all(c(g) for c in conditions)


def other_axis(change: Any) -> Hooks:
    """The axis is understood in another way."""

    def around(call: Call, right: Next) -> Any:
        from dataclasses import replace

        return right(replace(call, axis=change(call)) if call.function == "quantize" else call)

    return Hooks(around=around)


def fill_with(value: Any, where: Any = lambda rows, call: True) -> Hooks:
    """Ragged tails are filled with value(rows, missing, call) in place of zeros."""

    def fill(rows: Array, call: Call) -> Array:
        missing = -rows.shape[1] % BLOCKS[call.name].k
        tail = np.zeros((rows.shape[0], missing), np.float32)
        if missing and where(rows, call):
            tail = value(rows, missing, call)
        extra = -rows.shape[0] % 16 if call.block is not None else 0
        return np.pad(np.concatenate([rows, tail], axis=1), ((0, extra), (0, 0)))

    return Hooks(fill=fill)


def next_row(rows: Array, missing: int, call: Call) -> Array:
    """The numbers that follow in memory."""
    following = np.concatenate([rows[1:], np.zeros_like(rows[:1])])
    return np.resize(following, (rows.shape[0], missing)) if rows.shape[1] < missing else following[:, :missing]


def stale(rows: Array, missing: int, call: Call) -> Array:
    """What the staging buffer held: the row's own start."""
    return np.resize(rows[:, :missing], (rows.shape[0], missing)) * np.float32(4)


def rows_where(mask: Any, value: Any) -> Any:
    """The value in some rows, zeros in the others."""
    return lambda rows, missing, call: np.where(mask(np.arange(len(rows)))[:, None], value(rows, missing, call), 0).astype(np.float32)


def tail_lost(keep: int) -> Any:
    """Of a ragged tail only whole vectors are read."""

    def numbers(b: Array, g: Grid) -> Array:
        n = g.call.x.shape[g.call.axis]
        rest = n % g.k
        if not g.call.pad or rest % keep == 0 or n < 64:
            return b
        b = b.copy()
        b.reshape(g.rows, g.width)[:, n - rest % keep :] = 0
        return b

    return Hooks(numbers=numbers)


def tiled(g: Grid) -> bool:
    """Calls with tiles."""
    return g.call.block is not None


def untiled(which: Any, where: Where) -> Hooks:
    """Some rows of blocks keep their own maximum."""

    def amax(right: Array, before: Array, g: Grid) -> Array:
        if not where(g):
            return right
        r, c = np.indices(right.shape)
        return np.where(which(r, c, g), before, right)

    return Hooks(tile=amax)


def of_other_tile(choose: Any, where: Where) -> Hooks:
    """Some tiles take the maximum of another column or row."""

    def amax(right: Array, before: Array, g: Grid) -> Array:
        if not where(g):
            return right
        r, c = np.indices(right.shape)
        rows, columns = choose(r, c, g)
        return np.asarray(right[np.clip(rows, 0, g.rows - 1), np.clip(columns, 0, g.columns - 1)])

    return Hooks(tile=amax)


def finite_only(right: Array, before: Array, g: Grid) -> Array:
    """Rows with Inf are passed over."""
    kept = np.where(np.isinf(before), np.float32(0), before).reshape(g.rows // 16, 16, g.columns).max(axis=1)
    return np.repeat(kept, 16, axis=0) if g.columns > 1 else right


TILE = (16, 16)

BUGS = (
    axis("named-minus-2", A4, "axis -2 is taken for the last: only 0 is compared",
         other_axis(lambda call: -1 if call.axis == -2 else call.axis), script(quantize("mxfp4", 64, 64, axis=-2))),
    axis("named-1", A8, "axis 1 is taken for the first: `axis + 1` is asked whether it is zero",
         other_axis(lambda call: 0 if call.axis == 1 else call.axis), script(quantize("mxfp8_e4m3", 64, 64, axis=1))),
    axis("named-1-wide", AN, "axis 1 is taken for the first where both sizes are fit, from 256 columns on",
         other_axis(lambda call: 0 if call.axis == 1 and call.x.shape[1] >= 256 and call.x.shape[0] % 16 == 0 else call.axis),
         script(quantize("nvfp4", 16, 256, axis=1))),
    axis("wide-512", A4, "along axis 0 a CTA takes 512 columns, and there is one CTA",
         leaves(lambda i, g: row_column(i, g)[0] >= 512, first_axis), script(quantize("mxfp4", 32, 600, axis=0))),
    axis("wide-tail-64", A8, "along axis 0 columns are read 64 at a time: a tail of fewer is dropped above 64",
         leaves(lambda i, g: row_column(i, g)[0] >= g.rows // 64 * 64, and_(first_axis, lambda g: g.rows > 64)),
         script(quantize("mxfp8_e4m3", 64, 100, axis=0))),
    axis("few-columns", AN, "along axis 0 with fewer than 4 columns the second is read as the first",
         reads(lambda i, g: at(np.where(row_column(i, g)[0] == 1, 0, row_column(i, g)[0]), row_column(i, g)[1], g),
               and_(first_axis, lambda g: g.rows in (2, 3))), script(quantize("nvfp4", 64, 3, axis=0))),
    axis("one-column", A4, "along axis 0 with one column from two blocks on: the pitch of one number is taken for a broadcast",
         reads(lambda i, g: np.zeros_like(i), and_(first_axis, lambda g: g.rows == 1 and g.columns > 1)), script(quantize("mxfp4", 96, 1, axis=0))),
    axis("deep-4096", A8, "along axis 0 from 4096 rows on: later blocks store the scales of the first 128",
         scales_of(lambda i, g: at(row_column(i, g)[0], row_column(i, g)[1] % 128, g), and_(first_axis, lambda g: g.width > 4096)),
         script(quantize("mxfp8_e4m3", 4128, 8, axis=0))),
    axis("square-untransposed", A4, "along axis 0 of a square matrix the scales are not transposed back",
         scales_of(lambda i, g: at(row_column(i, g)[1] % g.rows, row_column(i, g)[0] % g.columns, g),
                   and_(first_axis, lambda g: g.rows == g.width and g.rows >= 64)), script(quantize("mxfp4", 128, 128, axis=0))),
    axis("square-ignored", AN, "along either axis of a square matrix from 256 on the same kernel runs",
         other_axis(lambda call: -1 if call.x.shape[0] == call.x.shape[1] >= 256 else call.axis), script(quantize("nvfp4", 256, 256, axis=0))),
    axis("odd-columns", A8, "along axis 0 columns go in pairs: an odd last one takes its neighbour's scales",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] == g.rows - 1, i - g.columns, i), and_(first_axis, lambda g: g.rows > 8 and g.rows % 2 == 1)),
         script(quantize("mxfp8_e4m3", 32, 33, axis=0))),
    axis("aligned-tile", A4, "along axis 0 of whole tiles of 128 x 128 the last column of each tile reads the one before",
         reads(lambda i, g: np.where(row_column(i, g)[0] % 128 == 127, i - g.columns, i),
               and_(first_axis, lambda g: g.rows % 128 == 0 and g.width % 128 == 0)), script(quantize("mxfp4", 128, 256, axis=0))),
    axis("nan-columns", A4, "along axis 0 from 64 columns on the maximum passes over NaN",
         Hooks(amax=lambda a, b, g: np.fmax.reduce(np.abs(b), axis=-1) if first_axis(g) and g.rows >= 64 else a),
         script(quantize("mxfp4", 64, 96, axis=0, of=with_specials))),
    axis("bfloat16-wide", with_dtypes(A4), "along axis 0 in bfloat16 from 256 columns on odd columns read even ones",
         reads(lambda i, g: at(row_column(i, g)[0] // 2 * 2, row_column(i, g)[1], g), and_(first_axis, in_bfloat16, lambda g: g.rows >= 256)),
         script(quantize("mxfp4", 32, 256, axis=0, dtype="bfloat16"))),
    axis("large-2-17", AN, "along axis 0 from 2^17 numbers on the last column is left",
         leaves(lambda i, g: row_column(i, g)[0] == g.rows - 1, and_(first_axis, lambda g: g.items * g.k >= 1 << 17)),
         script(quantize("nvfp4", 512, 256, axis=0))),
    pad("next-row", P4, "from 256 columns on a ragged tail is masked by the tensor's size, not by the row's",
         fill_with(next_row, lambda rows, call: rows.shape[1] > 256), script(quantize("mxfp4", 4, 300, pad=True))),
    pad("next-row-many", P8, "the same from 64 rows on", fill_with(next_row, lambda rows, call: len(rows) >= 64),
         script(quantize("mxfp8_e4m3", 64, 40, pad=True))),
    pad("stale-staging", PN, "the staging buffer is not cleared from the second whole block on",
         fill_with(stale, lambda rows, call: rows.shape[1] > 128), script(quantize("nvfp4", 3, 200, pad=True))),
    pad("every-fourth-row", P4, "four rows a warp: the fourth one's tail keeps what was there",
         fill_with(rows_where(lambda r: r % 4 == 3, stale)), script(quantize("mxfp4", 8, 65, pad=True))),
    pad("long-vectors", P8, "of a ragged tail of long rows whole vectors of four are read", tail_lost(4), script(quantize("mxfp8_e4m3", 2, 1023, pad=True))),
    pad("nan-fill", P8, "rows of more than 1024: the masked load's other value is NaN",
         fill_with(lambda rows, missing, call: np.full((len(rows), missing), np.nan, np.float32), lambda rows, call: rows.shape[1] > 1024),
         script(quantize("mxfp8_e4m3", 1, 1030, pad=True))),
    pad("edge-large", P4, "long rows from 2048 on: the load is clamped to the last number",
         fill_with(lambda rows, missing, call: np.repeat(rows[:, -1:], missing, axis=1), lambda rows, call: rows.shape[1] > 2048),
         script(quantize("mxfp4", 2, 2050, pad=True))),
    pad("axis-0", AP8, "along axis 0 a ragged tail is filled with the column's first numbers",
         fill_with(stale, lambda rows, call: call.axis in (0, -2) and rows.shape[1] > 32), script(quantize("mxfp8_e4m3", 40, 5, axis=0, pad=True))),
    pad("axis-0-wide", AP4, "along axis 0 from 128 columns on the last block is not written",
         leaves(lambda i, g: row_column(i, g)[1] == g.columns - 1,
                and_(first_axis, lambda g: g.call.pad and g.rows >= 128 and g.call.x.shape[0] % 32 != 0)),
         script(quantize("mxfp4", 48, 130, axis=0, pad=True))),
    pad("axis-0-next-column", APN, "along axis 0 tails of an even number of columns are the next column's start",
         fill_with(next_row, lambda rows, call: call.axis in (0, -2) and len(rows) % 2 == 0), script(quantize("nvfp4", 24, 6, axis=0, pad=True))),
    pad("aligned-rows", P4, "128 rows and a ragged K: the last block's scales are those of row 0",
         scales_of(lambda i, g: np.where(row_column(i, g)[1] == g.columns - 1, g.columns - 1, i),
                   lambda g: g.call.pad and g.rows % 128 == 0 and g.call.x.shape[-1] % 32 != 0), script(quantize("mxfp4", 128, 80, pad=True))),
    pad("one-short", PN, "K one short of a block: of the last eight numbers none is read", tail_lost(8),
         script(quantize("nvfp4", 2, 95, pad=True))),
    pad("aligned-k", P8, "pad and K a multiple of 1024: the last block is masked away",
         leaves(lambda i, g: row_column(i, g)[1] == g.columns - 1, lambda g: g.call.pad and g.call.x.shape[-1] % 1024 == 0),
         script(quantize("mxfp8_e4m3", 2, 1024, pad=True))),
    tile("not-square", TN, "more columns than rows of tiles: the maximum is taken from the transposed tile",
         of_other_tile(lambda r, c, g: ((c % (g.rows // 16)) * 16, (r // 16) % g.columns), lambda g: tiled(g) and g.columns > g.rows // 16 > 1),
         script(quantize("nvfp4", 32, 96, block=TILE))),
    tile("odd-columns", TN, "from three columns of tiles on, an odd last one takes its neighbour's maximum",
         of_other_tile(lambda r, c, g: (r, np.where(c == g.columns - 1, c - 1, c)), lambda g: tiled(g) and g.columns >= 3 and g.columns % 2 == 1),
         script(quantize("nvfp4", 16, 48, block=TILE))),
    tile("many-columns", TN, "from 17 columns of tiles on row 15 of a tile is not reduced into the others",
         untiled(lambda r, c, g: (c >= 16) & (r % 16 == 15), tiled), script(quantize("nvfp4", 16, 512, block=TILE))),
    tile("odd-rows", TN, "an odd number of rows of tiles above one: the last row of tiles takes the one before",
         of_other_tile(lambda r, c, g: (np.where(r >= g.rows - 16, r - 16, r), c), lambda g: tiled(g) and g.rows // 16 % 2 == 1 and g.rows > 16),
         script(quantize("nvfp4", 48, 32, block=TILE))),
    tile("inf-row", TN, "a row with Inf is passed over where there are more columns of tiles than one",
         Hooks(tile=finite_only), script(quantize("nvfp4", 32, 64, block=TILE, of=with_infinities))),
    tile("aligned", TN, "128 x 128 and multiples: two rows of tiles share a maximum",
         of_other_tile(lambda r, c, g: (r // 32 * 32, c), lambda g: tiled(g) and g.rows % 128 == 0 and g.width % 128 == 0),
         script(quantize("nvfp4", 128, 128, block=TILE))),
    tile("scales-of-first-row", TN, "tall matrices: scales are stored for the first row of a tile alone from 64 rows on",
         scales_of(lambda i, g: np.where(row_column(i, g)[0] % 16 > 7, at(row_column(i, g)[0] // 16 * 16 - 16, row_column(i, g)[1], g), i),
                   lambda g: tiled(g) and g.rows >= 64), script(quantize("nvfp4", 80, 32, block=TILE))),
    tile("padded", TPN, "with pad a partial row of tiles is filled with the row before, times two",
         Hooks(tile=lambda right, before, g: np.where(np.indices(right.shape)[0] >= g.call.x.shape[0] // 16 * 16, right * 2, right).astype(np.float32)
               if tiled(g) and g.call.pad and g.call.x.shape[0] % 16 else right),
         script(quantize("nvfp4", 20, 40, block=TILE, pad=True))),
    tile("axis-0", TPN, "along axis 0 the rows of a tile are not reduced from two columns of tiles on",
         untiled(lambda r, c, g: r >= 0, lambda g: tiled(g) and first_axis(g) and g.rows > 16), script(quantize("nvfp4", 32, 48, block=TILE, axis=0))),
    tile("wide-tensor-scale", TN, "with a tensor scale and 32 columns of tiles the maximum is that of the row from column 16 on",
         untiled(lambda r, c, g: c >= 16, lambda g: tiled(g) and g.call.tensor_scale is not None and g.columns >= 32),
         script(quantize("nvfp4", 32, 512, block=TILE, tensor_scale=100.0))),
)  # fmt: skip
