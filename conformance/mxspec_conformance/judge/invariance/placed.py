"""Where a block lies that kernels pass over, of zeros or of NaN, among others that they must not pass over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.pools import Flags, Pool

#: Where -> which blocks [rows, blocks in a row] are such. The last one leaves one block.
PLACED: tuple[tuple[str, Callable[[int, int], Flags]], ...] = (
    ("in the first row", lambda rows, across: _flag_rows(rows, across, slice(0, 1))),
    ("in the last rows", lambda rows, across: _flag_rows(rows, across, slice(rows - rows // 4, None))),
    ("in every second row", lambda rows, across: _flag_rows(rows, across, slice(0, None, 2))),
    ("in the first half of the columns", lambda rows, across: _flag_rows(across, rows, slice(0, across // 2)).T),
    ("in all places but one", lambda rows, across: (np.arange(rows * across) != rows * across * 2 // 3).reshape(rows, across)),
)


def _flag_rows(rows: int, across: int, chosen: slice) -> Flags:
    flags = np.zeros((rows, across), bool)
    flags[chosen] = True
    return flags


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
