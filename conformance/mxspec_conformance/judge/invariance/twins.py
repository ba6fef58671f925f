"""Calls that follow one which is the same but for one thing: what is kept by less than all of a call is wrong.

A kernel that keeps answers, or prepared inputs, keeps them by something: bytes without their dtype, codes without their scales, a
sum, numbers in a narrower type. The twin is asked first, and its answer is not looked at; then the call whose answer is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.matrix import Matrix
from mxspec_conformance.judge.invariance.pools import Places, Pool
from mxspec_conformance.observations.bisection import run_once
from mxspec_conformance.targets.dtypes import DTYPES

Array = npt.NDArray[Any]
#: Rows and blocks of a pair of calls; and of one that differs so little that few blocks tell.
SHAPE, MANY = (16, 8), (64, 16)
#: Factor of a tensor scale that is another one, and the same in three digits.
NEAR = np.float32(1 + 2.0**-12)


@dataclass(frozen=True, slots=True)
class Twin:
    """A call before: (arguments, options) -> other arguments and options."""

    differs_in: str
    change: Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    shape: tuple[int, int] = SHAPE


def flip_lowest_bits(array: Array) -> Array:
    """Each item beside itself: its lowest bit is another."""
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
    return np.ascontiguousarray(array.reshape(-1)[::-1]).reshape(array.shape)


def reverse_all_but_first(array: Array) -> Array:
    """The first row, and the items of the others in another order."""
    return np.concatenate([array[:1], reverse_items(array[1:])]) if len(array) > 1 else reverse_items(array)


def narrow(dtype: str, array: Array) -> Array:
    """float32 numbers as a narrower type holds them."""
    with np.errstate(all="ignore"):
        return array.astype(DTYPES[dtype]).astype(np.float32)


#: Ways in which an array may be another one, and the same in part.
CHANGES: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("other lowest bits", flip_lowest_bits), ("another order", reverse_items), ("the same first row alone", reverse_all_but_first),
)  # fmt: skip


def change_one(share: float, array: Array) -> Array:
    """One item is another one, that at a share of the array: what is remembered of its start, of both ends, or of every so many, is
    the same."""
    changed = np.ascontiguousarray(array).copy()
    bits = changed.reshape(-1).view(f"u{array.dtype.itemsize}")
    if bits.size:
        highest = 1 << 8 * array.dtype.itemsize - 1
        bits[round(share * (bits.size - 1))] ^= bits.dtype.type(1 if array.dtype.kind in "iu" else highest)
    return changed


#: Changes of one item, for calls so small that most of them is remembered.
SINGLE: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("an item in the middle", partial(change_one, 0.5)), ("its last item", partial(change_one, 1.0)),
)  # fmt: skip


def list_changed(arguments: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(what is other, arguments) with one of the arrays changed."""
    arrays = [i for i, a in enumerate(arguments) if isinstance(a, np.ndarray)]
    for i in arrays:
        for name, change in (*CHANGES, *SINGLE):
            told = f"{name} of input {arrays.index(i) + 1}" if len(arrays) > 1 else name
            yield told, (*arguments[:i], change(arguments[i]), *arguments[i + 1 :])


def _replace(number: int, change: Callable[[Array], Array]) -> Callable[..., Any]:
    def changed(arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (*arguments[:number], change(arguments[number]), *arguments[number + 1 :]), options

    return changed


def _read_as(dtype: str, array: Array) -> Array:
    return array.view(DTYPES[dtype])


def _with_option(**more: Any) -> Callable[..., Any]:
    return lambda arguments, options: (arguments, options | more)


def _list_twins(matrix: Matrix, pool: Pool) -> Iterator[Twin]:
    function, capabilities, options = pool.answered.function, matrix.session.capabilities, pool.answered.kwargs
    arrays = pool.answered.inputs
    for number in range(len(arrays)):
        for name, change in CHANGES:
            told = f"{name} of {('codes', 'scales')[number]}" if len(arrays) > 1 else name
            # In a call's arguments the name of the format follows the last array.
            yield Twin(told, _replace(number, change))
    if options.get("tensor_scale"):
        with np.errstate(over="ignore"):
            near = float(np.float32(options["tensor_scale"]) * NEAR)
        if np.isfinite(near):
            yield Twin("a tensor scale beside", _with_option(tensor_scale=near), MANY)
    if function != "quantize":
        return
    yield Twin("signs", _replace(0, flip_signs))
    for dtype in ("float16", "bfloat16") if arrays[0].dtype == np.float32 else ():
        yield Twin(f"what {dtype} does not hold", _replace(0, partial(narrow, dtype)), MANY)
    for dtype in capabilities.dtypes:
        if np.dtype(DTYPES[dtype]).itemsize == arrays[0].dtype.itemsize and np.dtype(DTYPES[dtype]) != arrays[0].dtype:
            yield Twin(f"the dtype {dtype}", _replace(0, partial(_read_as, dtype)))
    square = (2 * pool.fmt.k, 2)
    if capabilities.has(function, "axis"):
        yield Twin("the axis", _with_option(axis=0), square)
    if capabilities.has(function, "block") and len(pool.fmt.shapes) > 1:
        yield Twin("square blocks", _with_option(block=pool.fmt.shapes[1]), (4 * pool.fmt.shapes[1][0], 4 * pool.fmt.shapes[1][1] // pool.fmt.k))


def judge_twins(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Calls after their twins, in every dtype and tensor scale."""
    for number, pool in enumerate(pools):
        for twin in _list_twins(matrix, pool):
            rows, blocks = twin.shape
            place = matrix.draw(pool, rows * blocks, rows)
            call = partial(_after_twin, matrix, pool, place, rows, twin)
            label = f"{pool.name}: after a call that is the same but for {twin.differs_in}"
            matrix.enter("state", label, pool, place, call, lines=rows, quick=not number)


def _after_twin(matrix: Matrix, pool: Pool, place: Places, rows: int, twin: Twin) -> Array:
    answered, session = pool.answered, matrix.session
    arguments = answered.arguments(place, rows=rows)
    given, options = twin.change(arguments, dict(answered.kwargs))
    run_once(partial(session.call, answered.function, *given, **options))  # what it returns is judged elsewhere
    return answered.rows(session.call(answered.function, *arguments, **answered.kwargs))
