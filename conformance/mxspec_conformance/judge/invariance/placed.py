"""Where items lie that kernels pass over, of zeros or of NaN, among others that they must not pass over; and items that come again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.pools import Flags, Places, Pool

#: Where -> which items [rows, items in a row] are such. The last one leaves one item.
PLACED: tuple[tuple[str, Callable[[int, int], Flags]], ...] = (
    ("in the first row", lambda rows, across: _flag_rows(rows, across, slice(0, 1))),
    ("in the last rows", lambda rows, across: _flag_rows(rows, across, slice(rows - rows // 4, None))),
    ("in every second row", lambda rows, across: _flag_rows(rows, across, slice(0, None, 2))),
    ("in the first half of the columns", lambda rows, across: _flag_rows(across, rows, slice(0, across // 2)).T),
    ("here and there", lambda rows, across: (np.arange(rows * across) % 17 == 4).reshape(rows, across)),
    ("in all places but one", lambda rows, across: (np.arange(rows * across) != rows * across * 2 // 3).reshape(rows, across)),
)


def _flag_rows(rows: int, across: int, chosen: slice) -> Flags:
    flags = np.zeros((rows, across), bool)
    flags[chosen] = True
    return flags


def list_repeated(place: Places, one: int) -> Iterator[tuple[str, Places]]:
    """(content, places [rows, items]): items that come again where a kernel may look whether they do; one: the item that fills a call."""
    yield "all of them one", np.full_like(place, one)
    yield "every row the same", np.repeat(place[:1], len(place), axis=0)
    ends = place.copy()
    ends[-1] = ends[0]
    yield "the last row as the first", ends
    yield "the second half of the rows as the first", np.resize(place[: -(-len(place) // 2)], place.shape)
    alike = np.repeat(place[:1], len(place), axis=0)
    alike[len(place) // 2] = place[1]
    yield "every row but one the same", alike
    columns = np.repeat(place[:, :1], place.shape[1], axis=1)
    columns[:, place.shape[1] // 2] = place[:, 1]
    yield "every column of items but one the same", columns


def list_passed_over(pool: Pool) -> Iterator[tuple[str, tuple[npt.NDArray[Any], ...]]]:
    """(content, what the function takes of one such block)."""
    answered, shape = pool.answered, (1, pool.fmt.k)
    if answered.function == "quantize":
        for name, value in (("zeros", 0), ("NaN", np.nan)):
            yield name, (np.full(shape, value, answered.inputs[0].dtype),)
        return
    nan = np.isnan(answered.before).all(axis=1)
    middle = np.flatnonzero(~nan)[[(~nan).sum() // 2]] if not nan.all() else np.zeros(1, np.intp)
    yield "zeros", (np.zeros(shape, np.uint8), answered.inputs[1][middle])
    if nan.any():
        yield "NaN", tuple(a[[int(nan.argmax())]] for a in answered.inputs)
