"""One input of the vectors, and how its lanes are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mxspec_vectors.points import SIGN, Stream, bits_value, float_bits
from mxspec_vectors.recipes import place_largest


@dataclass(frozen=True, slots=True)
class Input:
    """One case before it has answers."""

    slug: str
    topic: str
    flags: tuple[str, ...]
    #: float32 bits, shape [rows, columns].
    bits: tuple[tuple[int, ...], ...]
    #: float32 bits of the largest magnitude of the tensor that the block is part of; None: no tensor scale.
    tensor_amax: int | None = None
    axis: int = -1
    pad: bool = False
    block: tuple[int, int] | None = None
    #: The recipe that gives `bits`, and the block's number in it.
    recipe: tuple[str, int] | None = None

    @property
    def x(self) -> npt.NDArray[np.float32]:
        """The tensor."""
        return np.array(self.bits, np.uint32).view(np.float32)


def single_block(lanes: list[int], largest: int, k: int, position: int) -> tuple[tuple[int, ...], ...]:
    """One row of k lanes: `largest` at `position`, the lanes around it, zeros after them."""
    return (place_largest(lanes, largest, k, position),)


def full_block(points: list[int], largest: int, k: int, position: int, turn: int, sign: int) -> tuple[tuple[int, ...], ...]:
    """One row of k lanes: `largest` at `position`, the points around it, repeated until no lane is left.

    turn: the point at which the lanes begin, so that over several blocks each point lies in each lane. Signs
    alternate from `sign` on, the other way round in the next repetition.
    """
    n = len(points)
    lanes = [points[(i + turn) % n] | (SIGN if (i + i // n) % 2 else 0) ^ sign for i in range(k - 1)]
    return single_block(lanes, largest, k, position)


TOPIC_FLAGS = {
    "tie-even": ("ties-away", "ties-to-zero", "carry"),
    "below-tie": ("double-rounding", "truncation"),
    "above-tie": ("tie-hack", "truncation"),
    "exact": ("basic", "truncation"),
}


def filler_lanes(largest: int, k: int, seed: int) -> list[int]:
    """Lanes below a maximum: quarters, halves, odd multiples that fall on and between codes."""
    stream = Stream(seed)
    lanes = []
    for i in range(k - 1):
        fraction = Fraction(stream.below(255) + 1, 256) if i % 3 else Fraction(stream.below(16), 16)
        lanes.append(float_bits(bits_value(largest) * fraction) | (SIGN if stream.below(2) else 0))
    return [b if b & 0x7FFFFFFF <= largest else largest for b in lanes]
