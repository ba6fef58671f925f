"""Which blocks of a call are wrong, and what became of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum


class Displacement(StrEnum):
    """What is wrong with the blocks that are wrong."""

    SCALES_TRANSPOSED = "the scales lie transposed"
    MOVED = "each holds the answer of another block, always as far away"
    EXCHANGED = "each holds the answer of another block"
    SCALES_ZERO = "each holds its codes, and a scale byte of zero: scales are not written, or written as zero"
    SCALES_ZERO_ELSEWHERE = (
        "each holds its codes, and had a scale byte of zero in the other call: there scales are not written, or written as zero"
    )
    ZERO = "each holds zeros: not written, or written as zero"
    NAN = "each is NaN: what a block with NaN, in this call or an earlier one, left behind"
    OTHER = ""


def classify(got: npt.NDArray[Any], want: npt.NDArray[Any], wrong: npt.NDArray[np.bool_], lines: int) -> tuple[Displacement, int]:
    """What became of the wrong blocks of a call [n, m] in `lines` lines; and how many blocks away the answer's own place is.

    The distance counts where it is one and the same, and is 0 otherwise.
    """
    where = np.flatnonzero(wrong)
    if lines > 1 and got.dtype == np.uint8 and _are_scales_transposed(got, want, lines):
        return Displacement.SCALES_TRANSPOSED, 0
    if not got[where].any():
        return Displacement.ZERO, 0
    if got.dtype == np.uint8 and got.shape[1] > 1 and not got[where, 0].any() and np.array_equal(got[where, 1:], want[where, 1:]):
        return Displacement.SCALES_ZERO, 0
    if got.dtype == np.uint8 and got.shape[1] > 1 and not want[where, 0].any() and np.array_equal(got[where, 1:], want[where, 1:]):
        return Displacement.SCALES_ZERO_ELSEWHERE, 0
    # A scale byte of FF is NaN in every format.
    if (got[where, 0] == 0xFF).all() if got.dtype == np.uint8 and got.shape[1] > 1 else np.isnan(got[where].astype(np.float32)).all():
        return Displacement.NAN, 0
    places: dict[bytes, list[int]] = {}
    for i, row in enumerate(want):
        places.setdefault(row.tobytes(), []).append(i)
    sample = where[:64]
    sources = [places.get(got[i].tobytes(), []) for i in sample]
    if not all(sources):
        return Displacement.OTHER, 0
    distances = [{j - int(i) for j in found} for i, found in zip(sample, sources, strict=True)]
    common = set.intersection(*distances)
    if common and len(sample) > 1:
        return Displacement.MOVED, min(common, key=abs)
    return Displacement.EXCHANGED, 0


def _are_scales_transposed(got: npt.NDArray[Any], want: npt.NDArray[Any], lines: int) -> bool:
    same_codes = np.array_equal(got[:, 1:], want[:, 1:])
    return same_codes and np.array_equal(got[:, 0].reshape(lines, -1), want[:, 0].reshape(-1, lines).T)


def describe_places(wrong: npt.NDArray[np.bool_], lines: int) -> str:
    """How many blocks are wrong, the first of them, and what they have in common."""
    where = np.flatnonzero(wrong)
    grid = wrong.reshape(lines, -1)
    row, block = divmod(int(where[0]), grid.shape[1])
    text = f"{len(where)} of {len(wrong)} blocks got other bits than alone; the first is block {block} of row {row}"
    rows, columns = np.flatnonzero(grid.any(axis=1)), np.flatnonzero(grid.any(axis=0))
    common = []
    if lines > 1 and len(rows) == 1:
        common.append("all in the last row" if rows[0] == lines - 1 else f"all in row {rows[0]}")
    if grid.shape[1] > 1 and len(columns) == 1 and len(where) > 1:
        common.append("all at the end of rows" if columns[0] == grid.shape[1] - 1 else f"all at block {columns[0]} of rows")
    if not common and wrong[where[0] :].all() and where[0] > 0:
        common.append(f"all from block {int(where[0])} of the call on")
    return f"{text}{': ' if common else ''}{', '.join(common)}"
