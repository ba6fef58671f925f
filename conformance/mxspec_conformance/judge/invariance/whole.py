"""Matrices that mean something as a whole: what sums to nothing, what is sorted, the identity, one number among zeros."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def list_whole(rows: int, across: int, k: int) -> Iterator[tuple[str, Array]]:
    """(content, matrix float32 of whole blocks of k); of numbers that every dtype holds and that add up without rounding."""
    columns = across * k
    whole = ((np.arange(rows // 2 * columns) * 37 % 31 - 15).reshape(rows // 2, columns)).astype(np.float32)
    yield "rows and their negatives", np.concatenate([whole, -whole])
    turns = np.concatenate([whole[:, : columns // 2], -whole[:, : columns // 2]], axis=1)
    yield "half a row and its negative", turns
    wide = min(columns, 256) // k * k  # bfloat16 holds 256 numbers in steps of one
    rising = (np.arange(wide, dtype=np.float32) - wide // 2) * np.exp2(np.arange(rows) % 4).astype(np.float32)[:, None]
    yield "rows that rise", rising
    yield "rows that fall", np.ascontiguousarray(rising[:, ::-1])
    side = 64 if 64 % k == 0 else 2 * k
    identity = np.eye(side, dtype=np.float32)
    yield "the identity", identity
    yield "a permutation", np.ascontiguousarray(np.roll(identity, side // 3, axis=1)[::-1])
    for name, row, column in (("first", 0, 0), ("middle", rows // 2, columns // 2 + 3), ("last", rows - 1, columns - 1)):
        alone = np.zeros((rows, columns), np.float32)
        alone[row, column] = -2.75
        yield f"zeros except for the {name} number", alone
