"""Inputs that are computed instead of stored: integers and bit operations only, the same in every language.

vectors/README.md specifies each recipe; conformance/examples/cpp/expand.cpp computes them once more. The id of a case ends
in a digest of its inputs, so that a wrong expansion never passes for the case.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_SIGN = 0x80000000
_IMPLICIT = 0x00800000
_FLT_MAX = 0x7F7FFFFF
_INF = 0x7F800000

Words = npt.NDArray[np.uint32]


def scale_bits(bits: int, exponent: int) -> int:
    """float32 bits of value * 2**exponent for the bits of a finite magnitude.

    Rounded to nearest, ties to even, where the result is subnormal; FLT_MAX where it would be larger.
    """
    field, significand = bits >> 23, bits & _IMPLICIT - 1
    if field:
        significand |= _IMPLICIT
    elif significand:
        shift = 24 - significand.bit_length()
        field, significand = 1 - shift, significand << shift
    else:
        return 0
    field += exponent
    if field >= 255:
        return _FLT_MAX
    if field >= 1:
        return (field << 23) + significand - _IMPLICIT
    drop = 1 - field
    kept, rest, half = significand >> drop, significand & (1 << drop) - 1, 1 << drop - 1
    return kept + (rest > half or (rest == half and kept & 1))


def binade_bits(significand: int, exponent: int) -> int:
    """float32 bits of the 24-bit significand * 2**(exponent - 23); below 2**-126 bits that do not fit are dropped."""
    return significand >> -126 - exponent if exponent < -126 else significand + (exponent + 126 << 23)


def place_largest(lanes: Sequence[int], largest: int, k: int, position: int) -> tuple[int, ...]:
    """A row of k lanes: `largest` at `position`, the lanes around it, zeros after them."""
    rest = [*lanes, *[0] * k][: k - 1]
    return (*rest[:position], largest, *rest[position:])


# quantize


@dataclass(frozen=True, slots=True)
class Positions:
    """Blocks whose maximum visits every lane with either sign: number 2 * position + sign."""

    #: Five magnitudes that the lanes take in turn.
    lanes: tuple[int, ...]
    #: The maximum at even and at odd positions.
    largest: tuple[int, ...]

    def block(self, number: int, k: int) -> tuple[int, ...]:
        """The float32 bits of one block."""
        position, sign = divmod(number, 2)
        lanes = [self.lanes[i % 5] | (_SIGN if (i + position) % 3 == 0 else 0) for i in range(k)]
        return place_largest(lanes, self.largest[position % 2] | (_SIGN if sign else 0), k, position)

    def as_dict(self) -> dict[str, Any]:
        """As it stands in files."""
        return {"lanes": _hex(self.lanes), "largest": _hex(self.largest)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Positions:
        """The inverse of `as_dict`."""
        return cls(_words(entry["lanes"]), _words(entry["largest"]))


@dataclass(frozen=True, slots=True)
class Binades:
    """One block for each exponent of a maximum, from -149 on; then some with a significand of ones."""

    #: Magnitudes at, below and above the element's boundaries, ascending.
    points: tuple[int, ...]
    #: Five 23-bit significands that the maxima take in turn.
    significands: tuple[int, ...]
    #: The exponent of the element's largest value.
    emax: int
    #: The element's smallest positive value.
    smallest: int

    COUNT = 277 + 17

    def maximum(self, number: int) -> tuple[int, int]:
        """Exponent and 23-bit significand of the maximum of one block."""
        if number < 277:
            return number - 149, self.significands[number % 5]
        return 16 * (number - 277) - 140, 0x7FFFFF

    def block(self, number: int, k: int) -> tuple[int, ...]:
        """The float32 bits of one block."""
        exponent, significand = self.maximum(number)
        largest = binade_bits(_IMPLICIT | significand, exponent)
        scale = max(exponent - self.emax, -127)
        # The points ascend, and so do their scaled bits.
        reached = self.points[: bisect_right(self.points, largest, key=lambda p: scale_bits(p, scale))]
        lanes = [scale_bits(reached[(37 * number + i) % len(reached)], scale) if reached else 0 for i in range(k - 1)]
        tiny = 0 if number % 2 else scale_bits(self.smallest, scale - 3)
        lanes[5 * number % (k - 1)] = (tiny, largest, scale_bits(largest, -1))[number % 3]
        kind = (number + number // k) % 4
        sign = _SIGN if kind > 1 else 0
        flipped = kind in (0, 3)
        signed = [b | (sign ^ _SIGN if flipped and (i + number // 4) % 2 == 0 else sign) for i, b in enumerate(lanes)]
        return place_largest(signed, largest | sign, k, 11 * number % k)

    def as_dict(self) -> dict[str, Any]:
        """As it stands in files."""
        return {
            "points": _hex(self.points), "significands": _hex(self.significands), "emax": self.emax,
            "smallest": f"{self.smallest:08x}",
        }  # fmt: skip

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Binades:
        """The inverse of `as_dict`."""
        return cls(_words(entry["points"]), _words(entry["significands"]), entry["emax"], int(entry["smallest"], 16))


#: Recipes of whole blocks, by the name that stands in files.
BLOCK_RECIPES: dict[str, type[Positions] | type[Binades]] = {"positions": Positions, "binades": Binades}


# scale


def neighbours_of(steps: Iterable[int], limit: int) -> list[int]:
    """Each step, the magnitude below and the one above, in order, each once, from 1 to `limit`."""
    return sorted({b for step in steps for b in (step - 1, step, step + 1) if 0 < b <= limit})


#: Maxima that a case of steps holds.
STEP_CASE = 96

#: The bfloat16 magnitudes as float32 bits, by what they are.
BFLOAT16_KINDS = ("finite", "zero", "inf", "nan")


def bfloat16_magnitudes(kind: str) -> Words:
    """float32 bits of all bfloat16 magnitudes of a kind, ascending: together all 2**15.

    Raises ValueError for a kind that is none of `BFLOAT16_KINDS`.
    """
    first, last = {"zero": (0, 0), "finite": (1, 0x7F7F), "inf": (0x7F80, 0x7F80), "nan": (0x7F81, 0x7FFF)}.get(kind, (0, -1))
    if first > last:
        raise ValueError(f"kind = {kind!r}; allowed are {', '.join(BFLOAT16_KINDS)}")
    return np.arange(first, last + 1, dtype=np.uint32) << np.uint32(16)


# layout

#: 2**32 over the golden ratio: its multiples are spread evenly.
_GOLDEN = 2654435761


def number_items(count: int, base: int, plane: int | None) -> npt.NDArray[np.uint8]:
    """A digit of each item's number: digit `plane` of 0, 1 ... count - 1 in a base; None: of their scrambled numbers."""
    number = np.arange(count, dtype=np.uint64)
    if plane is None:
        number = (number * np.uint64(_GOLDEN) & np.uint64(0xFFFFFFFF)) >> np.uint64(16)
    else:
        number //= np.uint64(base**plane)
    return (number % np.uint64(base)).astype(np.uint8)


def _hex(words: Iterable[int]) -> str:
    return "".join(f"{w:08x}" for w in words)


def _words(text: str) -> tuple[int, ...]:
    return tuple(int(text[i : i + 8], 16) for i in range(0, len(text), 8))


__all__ = [
    "BFLOAT16_KINDS",
    "BLOCK_RECIPES",
    "STEP_CASE",
    "Binades",
    "Positions",
    "bfloat16_magnitudes",
    "binade_bits",
    "neighbours_of",
    "number_items",
    "place_largest",
    "scale_bits",
]
