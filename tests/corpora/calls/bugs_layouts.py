"""Slips of packing and swizzling at sizes, in memory and between calls."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.corpora.calls.bugs_memory import after, from_pointer, in_memory_order, is_fortran, is_pitched, lies, scratch, zero_stride
from tests.corpora.calls.bugs_sizes import at, last, tile_order
from tests.corpora.calls.bugs_state import cached_by, shared
from tests.corpora.calls.catalogue import script
from tests.corpora.calls.effects import bug, leaves, only, reads, row_column
from tests.corpora.calls.formats import Array
from tests.corpora.calls.inputs import fortran, one_row, pack, pitched, rows_apart, swizzle, unpack, unswizzle
from tests.corpora.calls.kernel import Call, Grid, Hooks, Next, Offer

layout = partial(bug, "layouts")

NIBBLES = Offer(functions=("pack", "unpack"), layouts=("nibble-low",))
HIGH = Offer(functions=("pack", "unpack"), layouts=("nibble-high",))
SIXES = Offer(functions=("pack", "unpack"), layouts=("fp6-le",))
TILES = Offer(functions=("swizzle", "unswizzle"), layouts=("128x4",))


def within(i: Array, g: Grid, size: int, order: Any) -> Array:
    """Items of each group of some columns in another order."""
    r, c = row_column(i, g)
    return at(r, c // size * size + order(c % size), g)


def map_by_columns() -> Hooks:
    """The map of a swizzle is kept by columns: further rows are read as those of the first call's last."""
    rows: dict[tuple[str, int], int] = {}

    def read(i: Array, g: Grid) -> Array:
        known = rows.setdefault((g.call.function, g.columns), g.rows)
        r, c = row_column(i, g)
        return at(np.minimum(r, known - 1), c, g)

    return Hooks(read=read)


def stale_padding() -> Hooks:
    """Tiles are written into a buffer that is never cleared: padding holds an older call's scales."""
    held = [np.zeros(0, np.uint8)]

    def finish(answer: Any, call: Call) -> Any:
        if call.function != "swizzle":
            return answer
        old, held[0] = held[0], answer.copy()
        rows, columns = call.x.shape[-2:]
        if call.x.ndim > 2:
            return answer
        used = np.zeros(answer.size, bool)
        r, c = np.arange(rows)[:, None], np.arange(columns)[None]
        used[(r // 128 * (-(-columns // 4)) + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = True
        n = min(old.size, answer.size)
        return np.where(used[:n], answer[:n], old[:n]) if n == answer.size else answer

    return Hooks(finish=finish)


def in_place_nibbles(a: Array, call: Call) -> None:
    """Odd codes are shifted where they stand."""
    a[..., 1::2] <<= 4


def view_of_data(call: Call, right: Next) -> Any:
    """Nothing is copied where an unpacked side is as large as its data."""
    answer = right(call)
    if call.function != "unswizzle" or call.x.size != answer.size or not call.x.flags.writeable:
        return answer
    call.x.reshape(-1)[:] = answer.reshape(-1)
    return call.x.reshape(call.shape)


BUGS = (
    layout("nibbles-k-32", NIBBLES, "K a multiple of 32: a vector of 16 bytes is stored as two words, exchanged",
           only("pack", reads(lambda i, g: within(i, g, 32, lambda c: c ^ 16), lambda g: g.columns % 32 == 0)), script(pack("nibble-low", 2, 64))),
    layout("nibbles-k-256", NIBBLES, "K a multiple of 256: words of eight codes are reversed",
           only("pack", reads(lambda i, g: within(i, g, 8, lambda c: 7 - c), lambda g: g.columns % 256 == 0)), script(pack("nibble-low", 2, 256))),
    layout("nibbles-rows-65535", NIBBLES, "rows from 65,535 on are not packed",
           only("pack", leaves(lambda i, g: row_column(i, g)[0] >= 65535)), script(pack("nibble-low", 65540, 2))),
    layout("nibbles-2-17", NIBBLES, "from 2^17 codes on the last four are left", only("pack", leaves(last(4), lambda g: g.items >= 1 << 17)), script(pack("nibble-low", 512, 256, seed=3))),
    layout("nibbles-odd-rows", HIGH, "odd rows of 64 codes and more: the last row is packed as the one before",
           only("pack", reads(lambda i, g: np.where(row_column(i, g)[0] == g.rows - 1, i - g.columns, i), lambda g: g.rows > 1 and g.rows % 2 == 1 and g.columns >= 64)),
           script(pack("nibble-high", 5, 64))),
    layout("nibbles-fortran", NIBBLES, "codes in Fortran order are packed as they lie", only("pack", lies(is_fortran, in_memory_order)),
           script(pack("nibble-low", 16, 16, arrange=fortran))),
    layout("nibbles-pitch", NIBBLES, "a pitch of codes is ignored", only("pack", lies(is_pitched, from_pointer)), script(pack("nibble-low", 8, 32, arrange=pitched(16)))),
    layout("nibbles-every-second-row", HIGH, "a row stride of two rows is ignored", only("pack", lies(is_pitched, from_pointer)), script(pack("nibble-high", 8, 32, arrange=rows_apart))),
    layout("nibbles-in-place", NIBBLES, "odd codes are shifted in the caller's array",
           Hooks(around=lambda call, right: after(in_place_nibbles).around(call, right) if call.function == "pack" else right(call)), script(pack("nibble-low", 4, 32))),
    layout("nibbles-scratch", NIBBLES, "packed bytes are returned in a buffer that the next call writes into", scratch(lambda call: call.function == "pack"),
           script(pack("nibble-low", 4, 32), pack("nibble-low", 4, 32, seed=2))),
    layout("nibbles-cache-pointer", HIGH, "packed weights are cached by their address", cached_by(lambda call: int(np.asarray(call.x).__array_interface__["data"][0])),
           script(pack("nibble-high", 4, 32), pack("nibble-high", 4, 32, seed=2, into=0))),
    layout("unpack-k-32", NIBBLES, "unpacking K a multiple of 32: halves of a vector are exchanged",
           only("unpack", reads(lambda i, g: within(i, g, 32, lambda c: c ^ 16), lambda g: g.columns % 32 == 0 and g.columns > 32)), script(unpack("nibble-low", 2, 64))),
    layout("unpack-2-16", NIBBLES, "unpacking 2^16 codes and more: an index of 16 bits wraps", only("unpack", reads(lambda i, g: i & 0xFFFF)), script(unpack("nibble-low", 257, 256))),
    layout("unpack-scratch", HIGH, "unpacked codes are returned in a buffer that the next call writes into", scratch(lambda call: call.function == "unpack"),
           script(unpack("nibble-high", 4, 32), unpack("nibble-high", 4, 32, seed=2))),
    layout("sixes-k-32", SIXES, "K a multiple of 32: of eight groups of three bytes the last two are exchanged",
           only("pack", reads(lambda i, g: within(i, g, 32, lambda c: np.where(c >= 24, c ^ 4, c)), lambda g: g.columns % 32 == 0)), script(pack("fp6-le", 2, 64))),
    layout("sixes-k-128", SIXES, "K a multiple of 128: the last group of each vector of 16 is left",
           only("pack", leaves(lambda i, g: i % 64 >= 60, lambda g: g.columns % 128 == 0)), script(pack("fp6-le", 1, 128))),
    layout("sixes-rows-128", SIXES, "128 rows: the last row is packed as the one before",
           only("pack", reads(lambda i, g: np.where(row_column(i, g)[0] % 128 == 127, i - g.columns, i), lambda g: g.rows % 128 == 0)), script(pack("fp6-le", 128, 16))),
    layout("sixes-pitch", SIXES, "a pitch of codes is ignored", only("pack", lies(is_pitched, from_pointer)), script(pack("fp6-le", 4, 16, arrange=pitched(4)))),
    layout("sixes-unpack-large", SIXES, "unpacking from 2^16 codes on: the last group repeats the one before",
           only("unpack", reads(lambda i, g: np.where(i >= g.items - 4, i - 4, i), lambda g: g.items >= 1 << 16)), script(unpack("fp6-le", 256, 256))),
    layout("tiles-three-columns", TILES, "from three column tiles on the third is taken for the second",
           only("swizzle", reads(lambda i, g: np.where((row_column(i, g)[1] >= 8), i - 4, i), lambda g: g.columns >= 9)), script(swizzle(128, 12))),
    layout("tiles-four-rows", TILES, "from four row tiles on the fourth and later are not written",
           only("swizzle", leaves(lambda i, g: row_column(i, g)[0] >= 384)), script(swizzle(512, 4))),
    layout("tiles-aligned", TILES, "whole tiles: the scales are taken for swizzled already",
           only("swizzle", reads(tile_order, lambda g: g.rows % 128 == 0 and g.columns % 4 == 0 and g.columns > 4)), script(swizzle(128, 8))),
    layout("tiles-square", TILES, "as many row tiles as column tiles, above one: tiles go column by column",
           only("swizzle", reads(lambda i, g: at(row_column(i, g)[1] // 4 * 128 + row_column(i, g)[0] % 128, row_column(i, g)[0] // 128 * 4 + row_column(i, g)[1] % 4, g),
                                 lambda g: g.rows == g.columns * 32 > 128)), script(swizzle(256, 8))),
    layout("tiles-rows-32768", TILES, "a row held in 16 bits with a sign: rows from 32,768 on are dropped",
           only("swizzle", leaves(lambda i, g: row_column(i, g)[0] >= 32768)), script(swizzle(32900, 4))),
    layout("tiles-map-by-columns", TILES, "the map is cached by columns", map_by_columns, script(swizzle(130, 5), swizzle(300, 5))),
    layout("tiles-padding-stale", TILES, "padding keeps an earlier call's scales", stale_padding, script(swizzle(128, 4), swizzle(100, 3))),
    layout("tiles-pitch", TILES, "a pitch of scales is ignored", only("swizzle", lies(is_pitched, from_pointer)), script(swizzle(130, 4, arrange=pitched(4)))),
    layout("tiles-broadcast", TILES, "a row stride of 0 is taken for the default", only("swizzle", lies(lambda a: zero_stride(a, 0), from_pointer)), script(swizzle(128, 4, arrange=one_row))),
    layout("tiles-fortran-large", TILES, "scales in Fortran order from 128 rows on are swizzled as they lie",
           only("swizzle", lies(lambda a: is_fortran(a) and a.shape[0] >= 128, in_memory_order)), script(swizzle(128, 4, arrange=fortran))),
    layout("tiles-threads", TILES, "threads share the buffer of scales", shared(0.0005), script(swizzle(128, 8), swizzle(128, 8, seed=2), rounds=12)),
    layout("unswizzle-aligned", TILES, "unswizzling whole tiles, two or more: the last four rows repeat the ones before",
           only("unswizzle", reads(lambda i, g: np.where(row_column(i, g)[0] % 128 >= 124, i - 4 * g.columns, i), lambda g: g.rows % 128 == 0 and g.columns % 4 == 0 and g.items > 512)),
           script(unswizzle(256, 8))),
    layout("unswizzle-three-columns", TILES, "unswizzling more than eight columns: columns from eight on wrap",
           only("unswizzle", reads(lambda i, g: at(row_column(i, g)[0], row_column(i, g)[1] % 8, g))), script(unswizzle(130, 11))),
    layout("unswizzle-over-data", TILES, "whole tiles are unswizzled in the caller's buffer", Hooks(around=view_of_data), script(unswizzle(128, 4))),
)  # fmt: skip
