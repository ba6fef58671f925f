"""Intervals of float64 that hold what a float computation can return, and proven enclosures of exp, erf and tanh.

u is 2^-53, the relative error of one float64 operation of NumPy, rounded to nearest as IEEE 754 says; no function of NumPy but the square
root is relied on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.elements import round_to

Floats = npt.NDArray[np.float64]
#: The dtypes that a step may round to.
KINDS = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
#: ln 2 as a number of 42 bits and the rest: k times the first is exact for every |k| below 2^11.
_LN2 = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")
#: A relative margin for what float64 rounds in the steps around it: eight operations.
_MARGIN = 2.0**-50


@dataclass(frozen=True, slots=True)
class Interval:
    """For each element the least and the largest number that a step may have left; NaN at an end: what it left is NaN."""

    lo: Floats
    hi: Floats

    @property
    def ends(self) -> tuple[Floats, ...]:
        """Both, or the one where they are the same array."""
        return (self.lo,) if self.lo is self.hi else (self.lo, self.hi)

    def __add__(self, other: Interval) -> Interval:
        return hull(a + b for a in self.ends for b in other.ends)

    def __mul__(self, other: Interval) -> Interval:
        return hull(a * b for a in self.ends for b in other.ends)

    def __truediv__(self, other: Interval) -> Interval:
        """By an interval of positive numbers."""
        return hull(a / b for a in self.ends for b in other.ends)

    def rounded(self, dtype: str = "float32") -> Interval:
        """Rounded to nearest even, which never turns an order round. After one operation on float32 numbers the float64 result, rounded,
        is the exact one, rounded: 53 >= 2 * 24 + 2 (Figueroa)."""
        return hull(round_to(end, KINDS[dtype]).astype(np.float64) for end in self.ends)

    def widened(self, relative: Any, absolute: Any = 0.0) -> Interval:
        """With an error of so much of a number's magnitude, and so much more, at either end; infinities stay."""
        by = np.asarray(relative) + _MARGIN
        low, high = (np.where(np.isinf(end), 0, np.abs(end) * by + absolute) for end in (self.lo, self.hi))
        return Interval(self.lo - low, self.hi + high)

    def clamped(self, low: float, high: float) -> Interval:
        """Each number brought into a range."""
        return hull(np.clip(end, low, high) for end in self.ends)

    def widened_by_ulps(self, ulps: Any) -> Interval:
        """With an error of so many units in the last place of float32 of the larger end."""
        largest = np.maximum(np.abs(self.lo), np.abs(self.hi))
        step = np.ldexp(1.0, np.maximum(np.frexp(np.where(np.isfinite(largest), largest, 0))[1] - 24, -149))
        return Interval(self.lo - step * ulps, self.hi + step * ulps)


def hull(ends: Any) -> Interval:
    """The least and the largest of arrays."""
    first, *others = ends
    lo = hi = first
    for end in others:
        lo, hi = np.minimum(lo, end), np.maximum(hi, end)
    return Interval(lo, hi)


def make_point(x: npt.ArrayLike) -> Interval:
    """Numbers that are known."""
    return hull([np.asarray(x).astype(np.float64)])


def _exp(z: Floats) -> Floats:
    """exp within 8 u of itself, for |z| <= 700.

    z = k ln 2 + r, |r| < 0.35. k times 42 bits of ln 2 is exact, and so is its difference from z (Sterbenz); the rest of ln 2 enters with
    errors below 2^-84: r is off by less than 2^-54. Horner's rule, q_i = 1 + r q_(i+1) / i, where no q is below 0.7, has the relative
    errors e_i <= 0.72 / i (e_(i+1) + 2 u) + u: less than 5 u at the end. What is cut off is below r^17 / 17! < 2^-70; 2^k is exact.
    """
    k = np.rint(z / 0.6931471805599453)
    r = z - k * _LN2[0] - k * _LN2[1]
    q = np.ones_like(r)
    for i in range(16, 0, -1):
        q = 1 + r * q / i
    return np.ldexp(q, np.where(np.isnan(k), 0, k).astype(np.int64))


def _erf(z: Floats) -> Floats:
    """erf within 2^-43: 2 / sqrt(pi) e^(-z^2) (z + 2 z^3 / 3 + 4 z^5 / (3 5) + ...), all terms of one sign.

    For |z| <= 6 the n-th term is off by 3 n u of itself, their sum by 120 u more, exp by 8 u and by 36 u for its argument: 530 u in all.
    What is cut off after 120 terms is below 2^-70 of the sum. Beyond, erf is 1 up to 2^-55.
    """
    cut = np.minimum(np.abs(z), 6.0)
    square, term, total = cut * cut, cut, cut
    for n in range(1, 121):
        term = term * square * (2 / (2 * n + 1))
        total = total + term
    return np.copysign(total * _exp(-square) * 1.1283791670955126, z)


def enclose_erf(z: Interval) -> Interval:
    """erf."""
    return hull(_erf(end) for end in z.ends).widened(0, 2.0**-42)


def enclose_tanh(z: Interval) -> Interval:
    """tanh, as 1 - 2 / (1 + e^2z): off by less than exp's 8 u and 3 u more; beyond |z| = 20 it is 1 up to 2^-56."""
    return hull(1 - 2 / (1 + _exp(np.clip(2 * end, -40, 40))) for end in z.ends).widened(0, 2.0**-48)


def enclose_exp(z: Interval) -> Interval:
    """exp; beyond +-700 it is 0 or infinite for float32."""
    i = hull(_exp(np.clip(end, -700, 700)) for end in z.ends).widened(2.0**-48)
    return Interval(np.where(z.lo < -700, 0, i.lo), np.where(z.hi > 700, np.inf, i.hi))
