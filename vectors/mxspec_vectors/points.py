"""Numbers at which rounding and scale rules decide: float32 bits, boundaries, tensor maxima.

Everything here is a pure function: the same on any platform.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mxspec.formats import FLOAT32, BlockFormat, ElementFormat, ScalarFormat, floor_log2, power_of_two
from mxspec.reals import decode_real, encode_real, make_real

Bits = npt.NDArray[np.uint32]


SIGN = 0x80000000


INF = 0x7F800000


QUIET_NAN = 0x7FC00000


FLT_MAX = 0x7F7FFFFF


MIN_NORMAL = 0x00800000


def float_bits(value: Fraction | int) -> int:
    """float32 bits of a rational, rounded to nearest even."""
    return encode_real(make_real(Fraction(value)), FLOAT32)


def bits_value(bits: int) -> Fraction:
    """The rational that float32 bits mean."""
    return decode_real(bits, FLOAT32).value


def neighbours(bits: int) -> tuple[int, int, int]:
    """The float below, the float, the float above (magnitudes)."""
    return max(bits - 1, 0), bits, min(bits + 1, FLT_MAX)


class Stream:
    """A small portable generator (xorshift64*), so that vectors do not depend on a library's random numbers."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + 0x1234567) & (1 << 64) - 1 or 1

    def below(self, n: int) -> int:
        """A number in [0, n)."""
        s = self._state
        s ^= s >> 12
        s = (s ^ s << 25) & (1 << 64) - 1
        s ^= s >> 27
        self._state = s
        return ((s * 0x2545F4914F6CDD1D & (1 << 64) - 1) >> 32) * n >> 32


def element_points(element: ElementFormat) -> list[tuple[str, int]]:
    """(topic, float32 bits) of the magnitudes where the element's rounding is decided: midpoints, values, neighbours."""
    points: list[tuple[str, int]] = []
    for m in range(element.max_code):
        low, high = element.magnitude(m), element.magnitude(m + 1)
        below, tie, above = neighbours(float_bits((low + high) / 2))
        points += [("below-tie", below), ("tie-even", tie), ("above-tie", above), ("exact", float_bits(high))]
    return points


def walking_ones(fmt: ScalarFormat) -> list[int]:
    """float32 bits just above ties that go down: a tie and one lower bit, each bit in turn, for each place that the last
    kept bit can have in a float32. A sticky bit that leaves one of them out, or a table with too few, rounds one wrong.
    """
    found: dict[int, list[int]] = {}
    for m in range(0, fmt.max_code, 2):
        low, high = fmt.magnitude(m), fmt.magnitude(m + 1)
        tie = (low + high) / 2
        place = floor_log2(tie) - floor_log2(high - low)
        bits = float_bits(tie)
        found.setdefault(place, [bits + (1 << j) for j in range(23) if bits_value(bits + (1 << j)) < high])
    return [b for points in found.values() for b in points]


def scale_points(fmt: BlockFormat) -> list[int]:
    """float32 bits of the maxima at which some scale rule changes its answer, in one binade [1, 2)."""
    element = fmt.element
    trailing = element.mantissa_bits if element.exponent_bits else element.mantissa_bits - 1
    max_significand = element.max_value / power_of_two(element.emax)
    half_up = 2 - Fraction(1, 1 << (trailing + 1))
    return [float_bits(v) for v in (Fraction(1), max_significand, half_up, 2 - Fraction(1, 1 << 12))]


def _tensor_amaxes() -> list[tuple[str, int]]:
    """Tensor maxima: scale 1, ordinary, odd significands, tiny (2688 / amax overflows), huge, zero, special."""
    return [
        ("unit", float_bits(2688)),
        ("one", float_bits(1)),
        ("odd", 0x40490FDB),
        ("third", 0x3EAAAAAB),
        ("thousandth", 0x3A83126F),
        ("large", 0x4B189681),
        ("tiny", 0x00800000),
        ("subnormal", 0x00012345),
        ("overflow", 0x03A80000),
        ("huge", 0x7F7FFFFF),
        ("zero", 0),
        ("inf", INF),
        ("nan", QUIET_NAN),
    ]


#: Tensor maxima of the NVFP4 cases, by name.
TENSOR_AMAXES: dict[str, int] = dict(_tensor_amaxes())


ORDINARY_AMAXES = ("unit", "one", "odd", "third", "thousandth", "large")
