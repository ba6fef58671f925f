"""Values at which rules of affine integers change their answers: codes between two ends, midpoints, and the floats adjacent to both."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from mxspec.affine.formats import AffineFormat
from mxspec.formats import power_of_two
from mxspec.reals import encode_real, make_real

#: Ends of groups, the simplest first; times a power of two.
ENDS = tuple(
    (Fraction(lo), Fraction(hi))
    for lo, hi in (
        (0, 1), (-1, 1), (-1, 0), (0, 15), (-8, 7), (-Fraction(1, 2), Fraction(4, 5)), (1, 2), (-2, -1), (-3, 1), (-1, 3),
        (5, 6), (0, 0), (1, 1), (-1, -1), (1, 1 + Fraction(1, 128)), (-Fraction(1, 3), Fraction(1, 7)), (-1000, 1),
    )
)  # fmt: skip
#: Powers of two that ends are multiplied by, the simplest first.
EXPONENTS = (0, 1, -1, 3, -3, 6, -6, 10, -10, -13)


@lru_cache(maxsize=512)
def list_points(fmt: AffineFormat, ends: int, exponent: int) -> tuple[int, ...]:
    """Bits of a group's two ends, then of the codes and midpoints between them and the floats adjacent to these."""
    (lo, hi), factor = ENDS[ends], power_of_two(exponent)
    points = [_bits(lo * factor, fmt), _bits(hi * factor, fmt)]
    for step in range(2 * fmt.bins + 1):  # even steps are codes, odd ones midpoints
        middle = _bits((lo + (hi - lo) * Fraction(step, 2 * fmt.bins)) * factor, fmt)
        magnitude, sign = middle & ~fmt.scalar.sign_bit, middle & fmt.scalar.sign_bit
        # Beside a zero lies the smallest float of its sign, beyond the largest float nothing.
        points += [middle, sign | min(magnitude + 1, fmt.scalar.max_code), sign | max(magnitude - 1, 0)]
    return tuple(points)


def _bits(value: Fraction, fmt: AffineFormat) -> int:
    return encode_real(make_real(value), fmt.scalar)
