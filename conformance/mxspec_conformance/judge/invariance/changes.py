"""Ways in which the inputs of a call may be others, and the same in part: what is kept by less than all of them is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.dtypes import DTYPES

Array = npt.NDArray[Any]


def flip_lowest_bits(array: Array) -> Array:
    """Items whose lowest bits are others."""
    bits = array.view(f"u{array.dtype.itemsize}")
    changed: Array = (bits ^ bits.dtype.type(1)).view(array.dtype)
    return changed


def flip_signs(array: Array) -> Array:
    """The magnitudes under other signs."""
    bits = array.view(f"u{array.dtype.itemsize}")
    changed: Array = (bits ^ bits.dtype.type(1 << 8 * array.dtype.itemsize - 1)).view(array.dtype)
    return changed


def reverse_items(array: Array) -> Array:
    """The same items in another order."""
    return np.array(array.reshape(-1)[::-1]).reshape(array.shape)


def reverse_all_but_first(array: Array) -> Array:
    """The first row, and the items of the others in another order."""
    return np.concatenate([array[:1], reverse_items(array[1:])]) if len(array) > 1 else reverse_items(array)


def narrow(dtype: str, array: Array) -> Array:
    """float32 numbers as a narrower type holds them."""
    with np.errstate(all="ignore"):
        return array.astype(DTYPES[dtype]).astype(np.float32)


def change_most(array: Array) -> Array:
    """Every sixteenth item stays: what is remembered by so many is the same."""
    changed = reverse_items(array)
    changed.reshape(-1)[::16] = np.ascontiguousarray(array).reshape(-1)[::16]
    return changed


def change_one(share: float, array: Array) -> Array:
    """One item is another one, that at a share of the array: what is remembered of its start, of both ends, or of every so many, is
    the same."""
    changed = np.ascontiguousarray(array).copy()
    bits = changed.reshape(-1).view(f"u{array.dtype.itemsize}")
    if bits.size:
        highest = 1 << 8 * array.dtype.itemsize - 1
        bits[round(share * (bits.size - 1))] ^= bits.dtype.type(1 if array.dtype.kind in "iu" else highest)
    return changed


#: Ways in which an array may be another one, and the same in part.
CHANGES: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("other lowest bits", flip_lowest_bits), ("another order", reverse_items), ("the same first row alone", reverse_all_but_first),
    ("all but every sixteenth item", change_most), ("an item in the middle", partial(change_one, 0.5)),
    ("its last item", partial(change_one, 1.0)), ("zeros", np.zeros_like),
)  # fmt: skip
#: And of floating-point numbers.
SIGNED: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("signs", flip_signs), ("the bytes of each number", lambda array: array.byteswap()),
)  # fmt: skip


def list_changed(arguments: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(what is other, arguments) with one of the arrays changed, wherever it lies."""
    count = len(find_arrays(arguments))
    for number, (place, array) in enumerate(find_arrays(arguments), 1):
        for name, change in (*CHANGES, *SIGNED * (array.dtype.kind not in "iu")):
            yield name + f" of input {number}" * (count > 1), _exchange(arguments, place, change(array))


def list_spliced(arguments: Sequence[Any], others: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(what is other, arguments) with rows of another call of the same shapes: between the ends of each array, and one in the middle."""
    for what, all_but_ends in (("all but its ends", True), ("one row", False)):
        given = tuple(arguments)
        for (place, array), (_, other) in zip(find_arrays(arguments), find_arrays(others), strict=False):
            if array.shape == other.shape and len(array) > 2:
                count, end = len(array), max(len(array) // 8, 1)
                rows = slice(end, count - end) if all_but_ends else slice(count // 2, count // 2 + 1)
                spliced = np.array(array)
                spliced[rows] = other[rows]
                given = _exchange(given, place, spliced)
        yield what, given


def find_arrays(arguments: Sequence[Any]) -> list[tuple[tuple[int, ...], Array]]:
    """The arrays among arguments and in tuples of them, with the places that lead there."""
    found: list[tuple[tuple[int, ...], Array]] = []
    for i, part in enumerate(arguments):
        if isinstance(part, np.ndarray):
            found.append(((i,), part))
        elif isinstance(part, tuple):
            found += [((i, *place), array) for place, array in find_arrays(part)]
    return found


def _exchange(arguments: Sequence[Any], place: tuple[int, ...], array: Array) -> tuple[Any, ...]:
    first, *rest = place
    part = _exchange(arguments[first], tuple(rest), array) if rest else array
    return (*arguments[:first], part, *arguments[first + 1 :])
