"""Patterns: where the items of a matrix go, written as digits of the row and column index.

`(M i:4 r:32) (C c:4) -> M C r i c` says: the row number has the digits M (whatever is left), i (0 to 3) and r (0 to 31),
the column number the digits C and c (0 to 3), the most significant first; items are stored in the order of the number
whose digits are M C r i c. A bar on the right, `N B | s j h`, ends the digits that number a record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

_DIGIT = re.compile(r"([A-Za-z])(?::(\d+))?$")
#: Last axes up to this length are copied item by item.
_SHORT = 8
#: Widths in bytes that a run of items may be moved in at once.
_WIDE: dict[int, type[np.unsignedinteger[Any]]] = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern."""

    text: str
    #: Digits of the row number as (name, size), most significant first; size 0 takes what is left.
    rows: tuple[tuple[str, int], ...]
    columns: tuple[tuple[str, int], ...]
    #: Names of all digits in storage order.
    order: tuple[str, ...]
    #: How many of them number the record.
    outer: int

    @property
    def row_tile(self) -> int:
        """Rows come in multiples of this."""
        return prod(size for _, size in self.rows if size)

    @property
    def column_tile(self) -> int:
        """Columns come in multiples of this."""
        return prod(size for _, size in self.columns if size)

    def arrange(self, matrix: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The items in storage order: [records, items of a record]. Rows and columns must be whole tiles."""
        sizes, axes, words = self._plan(matrix, *matrix.shape)
        source = words.reshape([sizes[n] for n in self._names() if n in sizes])
        data = np.empty([source.shape[axis] for axis in axes], source.dtype)
        _copy(data, source.transpose(axes))
        return data.view(np.uint8).reshape(self.records(*matrix.shape), -1)

    def restore(self, data: npt.NDArray[np.uint8], rows: int, columns: int) -> npt.NDArray[np.uint8]:
        """The matrix [rows, columns] whose items lie in `data` in storage order; inverts `arrange`."""
        sizes, axes, words = self._plan(data, rows, columns)
        target = np.empty([sizes[n] for n in self._names() if n in sizes], words.dtype)
        turned = target.transpose(axes)
        _copy(turned, words.reshape(turned.shape))
        return target.view(np.uint8).reshape(rows, columns)

    def measure(self, rows: int, columns: int) -> dict[str, int]:
        """The size of each digit. Raises ValueError where rows or columns are no whole tiles."""
        return self._sizes(rows, columns)

    def records(self, rows: int, columns: int) -> int:
        """How many records a matrix makes; 1 where the pattern has none."""
        sizes = self._sizes(rows, columns)
        return prod(sizes[name] for name in self.order[: self.outer])

    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in (*self.rows, *self.columns))

    def _plan(self, data: npt.NDArray[np.uint8], rows: int, columns: int) -> tuple[dict[str, int], list[int], npt.NDArray[Any]]:
        """Digit sizes, axes in storage order, and the data; a last digit that both sides end in makes items wider."""
        sizes = self._sizes(rows, columns)
        last, order = self.columns[-1][0], self.order
        wide = _WIDE.get(sizes[last])
        flat = np.ascontiguousarray(data)
        if order[-1] == last and wide is not None and len(order) - 1 >= max(self.outer, 1):
            del sizes[last]
            order, flat = order[:-1], flat.view(wide)
        names = [name for name in self._names() if name in sizes]
        return sizes, [names.index(name) for name in order], flat

    def _sizes(self, rows: int, columns: int) -> dict[str, int]:
        sizes = {}
        for digits, length, tile in ((self.rows, rows, self.row_tile), (self.columns, columns, self.column_tile)):
            if length % tile:
                raise ValueError(f"{length} is not a multiple of the {tile} of the pattern {self.text!r}")
            for name, size in digits:
                sizes[name] = size or length // tile
        return sizes


def _copy(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """target[...] = source; a short last axis is taken item by item, which leaves NumPy longer runs."""
    if target.ndim > 1 and target.shape[-1] <= _SHORT:
        for i in range(target.shape[-1]):
            target[..., i] = source[..., i]
    else:
        target[...] = source


@lru_cache(maxsize=256)
def parse_pattern(text: str) -> Pattern:
    """The pattern that a text spells.

    Raises ValueError where it is malformed: a digit missing, named twice, or without a place.
    """
    left, arrow, right = text.partition("->")
    groups = re.findall(r"\(([^()]*)\)|([A-Za-z](?::\d+)?)", left)
    if not arrow or len(groups) != 2:
        raise ValueError(f"pattern {text!r}: expected 'rows columns -> order'")
    rows, columns = (tuple(_parse_digit(word, text) for word in (many or one).split()) for many, one in groups)
    outer, bar, inner = right.partition("|")
    order = (*outer.split(), *inner.split())
    names = [name for name, _ in (*rows, *columns)]
    if sorted(names) != sorted(order) or len(set(names)) != len(names):
        raise ValueError(f"pattern {text!r}: each digit stands once on either side; left {names}, right {list(order)}")
    for digits in (rows, columns):
        if sum(size == 0 for _, size in digits) != 1:
            raise ValueError(f"pattern {text!r}: rows and columns each have exactly one digit without a size")
    return Pattern(text, rows, columns, order, len(outer.split()) if bar else 0)


def _parse_digit(word: str, text: str) -> tuple[str, int]:
    found = _DIGIT.match(word)
    if found is None:
        raise ValueError(f"pattern {text!r}: {word!r} is no digit; write a letter, or a letter and its size (r:32)")
    return found[1], int(found[2] or 0)
