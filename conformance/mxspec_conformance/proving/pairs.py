"""The pairs: every finite magnitude of a 16-bit float as a block's maximum, with every element up to it, in all signs.

A chunk is a run of maxima. For each maximum, once with either sign, the elements +0, ... +m, -0, ... -m fill blocks in order
around the maximum's lane, which moves from maximum to maximum; the last block is filled up from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Patterns = npt.NDArray[np.uint16]

#: Elements of a chunk, about.
CHUNK_ELEMENTS = 1 << 24
_LARGEST = {"bfloat16": 0x7F7F, "float16": 0x7BFF}
_SIGN = 0x8000
_NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}


def as_floats(patterns: Patterns, dtype: str) -> npt.NDArray[Any]:
    """The 16-bit floats that patterns are."""
    return patterns.view(_NUMPY[dtype])


def as_float32(patterns: Patterns, dtype: str) -> npt.NDArray[np.float32]:
    """The same numbers in float32."""
    if dtype == "bfloat16":
        return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return as_floats(patterns, dtype).astype(np.float32)


@dataclass(frozen=True, slots=True)
class PairSpace:
    """All pairs of a dtype for blocks of k lanes."""

    dtype: str
    k: int
    #: The largest maximum's pattern, where not every finite one is tested (a tensor's own maximum bounds its blocks').
    largest: int

    @classmethod
    def below(cls, dtype: str, k: int, bound: float | None = None) -> PairSpace:
        """The pairs of all finite numbers, or of those up to a bound."""
        largest = _LARGEST[dtype]
        if bound is not None and not np.isnan(bound):
            values = as_float32(np.arange(largest + 1, dtype=np.uint16), dtype)
            largest = int(np.searchsorted(values, np.float32(bound), side="right")) - 1
        return cls(dtype, k, largest)

    @property
    def pairs(self) -> int:
        """Pairs of magnitudes."""
        return (self.largest + 1) * (self.largest + 2) // 2

    def elements(self, first: int = 0, last: int | None = None) -> int:
        """Elements, with both signs of element and maximum, of the maxima from first to last."""
        end = self.largest if last is None else last
        return 2 * ((end + 1) * (end + 2) - first * (first + 1))

    def chunks(self) -> list[tuple[int, int]]:
        """First and last maximum of each chunk."""
        total = 2 * np.cumsum(2 * np.arange(1, self.largest + 2, dtype=np.int64))
        count = max(1, round(int(total[-1]) / CHUNK_ELEMENTS))
        ends = np.searchsorted(total, total[-1] * np.arange(1, count + 1) / count)
        starts = np.concatenate([[0], ends[:-1] + 1])
        return [(int(a), int(b)) for a, b in zip(starts, ends, strict=True) if a <= b]

    def rows(self, maximum: int) -> int:
        """Blocks of one maximum with one sign."""
        return -(-2 * (maximum + 1) // (self.k - 1))

    def lane(self, maximum: int, sign: int) -> int:
        """Where the maximum stands."""
        return (7 * maximum + maximum // self.k + 5 * sign) % self.k

    def fill(self, first: int, last: int, lookup: Callable[[int], npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """What stands in every lane [blocks, k] of the maxima from first to last.

        lookup: maximum -> 65536 entries, one for each pattern; the patterns themselves for inputs, codes for answers.
        """
        counts = [self.rows(m) for m in range(first, last + 1)]
        out = np.empty((2 * sum(counts), self.k), dtype)
        start = 0
        body = np.empty(2 * (last + 1) + self.k, dtype)
        for m, rows in zip(range(first, last + 1), counts, strict=True):
            table = lookup(m)
            n = m + 1
            used = rows * (self.k - 1)
            body[:n], body[n : 2 * n] = table[:n], table[_SIGN : _SIGN + n]
            body[2 * n : used] = np.resize(body[: 2 * n], used - 2 * n)
            elements = body[:used].reshape(rows, self.k - 1)
            for sign in (0, 1):
                part, lane = out[start : start + rows], self.lane(m, sign)
                part[:, :lane], part[:, lane + 1 :] = elements[:, :lane], elements[:, lane:]
                part[:, lane] = table[m | _SIGN * sign]
                start += rows
        return out

    def inputs(self, first: int, last: int) -> Patterns:
        """The blocks [blocks, k] of the maxima from first to last, as patterns."""
        identity = np.arange(1 << 16, dtype=np.uint16)
        return self.fill(first, last, lambda _: identity, np.uint16)

    def per_block(self, values: npt.NDArray[Any], first: int, last: int) -> npt.NDArray[Any]:
        """For each block of the maxima from first to last, the value of its maximum; values: one for each maximum."""
        counts = [2 * self.rows(m) for m in range(first, last + 1)]
        return np.repeat(values[first : last + 1], counts)
