"""Nibbles in patterns that move them: items are joined to words first, and words are moved. Equal to arranging and then packing.

The last digits of the storage order number the items of a word. From the last on, each is folded: where it is the last digit of
the column number, its items lie side by side already; where it is another, its items are slices that are shifted and joined. What
is left is a copy of words in another order, and rows are done in bands that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.layouts.packing import NIBBLES_LOW, Bytes
from mxspec.layouts.pattern import Pattern
from mxspec.layouts.tuned import pack_items, unpack_items

Words = npt.NDArray[Any]
#: Items of a band.
_BAND = 1 << 18
_UNSIGNED: dict[int, np.dtype[Any]] = {8: np.dtype("u1"), 16: np.dtype("<u2"), 32: np.dtype("<u4")}


@dataclass(frozen=True, slots=True)
class _Fold:
    """One digit that is folded into the word."""

    #: Where the axis is before the fold.
    axis: int
    size: int
    #: Bits of what is joined.
    bits: int
    #: Whether it is the last axis, whose items are neighbours.
    adjacent: bool


@dataclass(frozen=True, slots=True)
class Folding:
    """How a pattern's nibbles become words."""

    pattern: Pattern
    folds: tuple[_Fold, ...]
    #: Names of the digits that are left, in the order of the matrix.
    left: tuple[str, ...]
    bits: int

    def pack(self, matrix: Bytes) -> Bytes:
        """The bytes [records, bytes of a record] of a matrix of nibbles."""
        sizes = self.pattern.measure(*matrix.shape)
        axes, shape = self._order(sizes)
        target = np.empty(shape, _UNSIGNED[self.bits])
        back = target.transpose(np.argsort(axes))
        for rows, part in self._bands(sizes, matrix.shape[1]):
            back[part] = self._join(np.ascontiguousarray(matrix[rows]), sizes)
        return target.view(np.uint8).reshape(self.pattern.records(*matrix.shape), -1)

    def unpack(self, data: Bytes, rows: int, columns: int) -> Bytes:
        """The matrix [rows, columns]; inverts `pack`."""
        sizes = self.pattern.measure(rows, columns)
        axes, shape = self._order(sizes)
        words = np.ascontiguousarray(data).reshape(-1).view(_UNSIGNED[self.bits]).reshape(shape).transpose(np.argsort(axes))
        matrix = np.empty((rows, columns), np.uint8)
        for band, part in self._bands(sizes, columns):
            matrix[band] = self._split(np.ascontiguousarray(words[part])).reshape(-1, columns)
        return matrix

    def _order(self, sizes: dict[str, int]) -> tuple[list[int], list[int]]:
        kept = [n for n in self.pattern.order if n in self.left]
        return [self.left.index(n) for n in kept], [sizes[n] for n in kept]

    def _bands(self, sizes: dict[str, int], columns: int) -> Iterator[tuple[slice, slice]]:
        """Rows, and values of the first digit of the row number, of each band."""
        first, tile = sizes[self.pattern.rows[0][0]], self.pattern.row_tile
        step = max(_BAND // max(tile * columns, 1), 1)
        for start in range(0, first, step):
            stop = min(start + step, first)
            yield slice(start * tile, stop * tile), slice(start, stop)

    def _join(self, rows: Bytes, sizes: dict[str, int]) -> Words:
        names = [n for n, _ in (*self.pattern.rows, *self.pattern.columns)]
        items: Words = rows.reshape(-1, *(sizes[n] for n in names[1:]))
        for fold in self.folds:
            after = _UNSIGNED[max(fold.bits * fold.size, 8)]
            if fold.adjacent and fold.bits == 4:
                items = pack_items(items, NIBBLES_LOW).view(after)[..., 0]
            elif fold.adjacent:
                items = np.ascontiguousarray(items).view(after)[..., 0]
            elif run := _run(items, fold):
                whole = _widen(items, fold.axis + 1, run)
                low, high = (whole[(slice(None),) * fold.axis + (i,)] for i in (0, 1))
                joined = high << low.dtype.type(4)
                joined |= low
                items = joined[..., None].view(np.uint8).reshape(*items.shape[: fold.axis], *items.shape[fold.axis + 1 :])
            else:
                whole = np.zeros(1, after)
                for i in range(fold.size):
                    part = items[(slice(None),) * fold.axis + (i,)]
                    moved = np.left_shift(part, after.type(fold.bits * i), dtype=after) if i else part.astype(after)
                    whole = moved if i == 0 else np.bitwise_or(whole, moved, out=whole)
                items = whole
        return items

    def _split(self, words: Words) -> Bytes:
        for fold in reversed(self.folds):
            before = _UNSIGNED[max(fold.bits, 8)]
            if fold.adjacent and fold.bits == 4:
                data = np.ascontiguousarray(words)[..., None].view(np.uint8)
                words = unpack_items(data, NIBBLES_LOW)
            elif fold.adjacent:
                words = np.ascontiguousarray(words)[..., None].view(before)
            else:
                shape = list(words.shape)
                shape.insert(fold.axis, fold.size)
                items = np.empty(shape, before)
                if run := _run(items, fold):
                    both, wide = _widen(items, fold.axis + 1, run), _widen(np.ascontiguousarray(words), fold.axis, run)
                    for i in (0, 1):
                        place = both[(slice(None),) * fold.axis + (i,)]
                        np.right_shift(wide, wide.dtype.type(4 * i), out=place)
                        place &= wide.dtype.type(int.from_bytes(b"\x0f" * run, "little"))
                    words = items
                    continue
                for i in range(fold.size):
                    place = items[(slice(None),) * fold.axis + (i,)]
                    np.copyto(place, words >> words.dtype.type(fold.bits * i), casting="unsafe")
                    if fold.bits == 4:
                        place &= np.uint8(15)
                words = items
        return words


def _run(items: Words, fold: _Fold) -> int:
    """Bytes that lie side by side behind the axis of a fold of two nibbles, if they are one word of a machine; else 0."""
    behind = prod(items.shape[fold.axis + 1 :])
    return behind if fold.bits == 4 and fold.size == 2 and behind in (2, 4, 8) else 0


def _widen(items: Words, axis: int, run: int) -> Words:
    """A view in which the axes from `axis` on are one number of `run` bytes."""
    return items.reshape(*items.shape[:axis], run).view(f"<u{run}")[..., 0]


def plan_folding(pattern: Pattern) -> Folding | None:
    """How a pattern of nibbles is folded; None where words would not have two bytes, or rows begin with a digit that is folded."""
    left = [n for n, _ in (*pattern.rows, *pattern.columns)]
    fixed = dict((*pattern.rows, *pattern.columns))
    folds: list[_Fold] = []
    bits = 4
    for name in reversed(pattern.order[pattern.outer :]):
        size = fixed[name]
        if not size or name == pattern.rows[0][0] or bits * size not in (8, 16, 32):
            break
        axis = left.index(name)
        folds.append(_Fold(axis, size, bits, axis == len(left) - 1))
        left.pop(axis)
        bits *= size
    return Folding(pattern, tuple(folds), tuple(left), bits) if bits >= 16 and prod(f.size for f in folds) > 1 else None
