"""Exact sums of products of two matrices: decided to be exact output by output, never assumed.

Every product is a multiple of a power of two u. Where the sum of magnitudes is below 2**53 u, float64 adds in any order
without an error, and the sum of magnitudes that float64 itself finds decides that: it is exact as long as it is below. Other
outputs are added anew: matrices by slices of few exponents, whose products float64 adds exactly, single outputs with
`math.fsum` or rationals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mxspec.dot.factor import Factor
from mxspec.dot.rounding import Float64s, lowest_bit, step_to_odd
from mxspec.environment import check_environment
from mxspec.roundoff import product_errors

#: Length of the runs along k whose lowest bits and exponents are examined together.
_RUN = 16
#: Rows whose runs are reduced together.
_ROWS = 32
#: Outputs that are added one by one; more are added by slices.
_FEW = 4096
#: Errors of products are found in float64 where these are multiples of 2**_LEAST and their operands below _MOST.
_LEAST, _MOST = -1074, 2.0**500
#: Products of slices that are added; a matrix that needs more is added output by output.
_PARTS_AT_MOST = 96

Float32s = npt.NDArray[np.float32]


class Special(IntEnum):
    """What an output is that no sum decides."""

    FINITE = 0
    PLUS_INF = 1
    MINUS_INF = 2
    NAN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """For each output [m, n] the exact sum of its products, and what decides which accumulations have to give it."""

    #: The float64 nearest to the sum.
    nearest: Float64s
    #: Sign of the sum minus `nearest`: 0 where float64 holds it.
    remainder: npt.NDArray[np.int8]
    #: At least the sum of the magnitudes of the products.
    magnitude: Float64s
    #: Every product is a multiple of 2**unit.
    unit: npt.NDArray[np.int16]
    #: The largest exponent at which hardware aligns a product, zeros included.
    top: npt.NDArray[np.int16]
    special: npt.NDArray[np.int8]
    #: Products in each sum.
    k: int
    #: At least the sum of the powers of two at which hardware aligns the products; None: not requested.
    aligned: Float64s | None = None

    @property
    def odd(self) -> Float64s:
        """The sum rounded to odd, so that it can be rounded once more."""
        return step_to_odd(self.nearest, self.remainder)

    def fits(self, bits: int) -> npt.NDArray[np.bool_]:
        """Where every partial sum, in any order, has at most so many bits."""
        return self.magnitude < np.ldexp(1.0, np.clip(self.unit.astype(np.int64) + bits, -1074, 1023))


def sum_products(a: Factor, b: Factor) -> Sums:
    """The exact sums of a [m, k] times b [n, k], row by row; tensor scales are left out.

    Raises ValueError where the k differ.
    """
    if a.k != b.k:
        raise ValueError(f"a has k = {a.k} and b has k = {b.k}; both operands of a product have one k, their last axis")
    left, right, exponents, k = pair_parts(a, b)
    masks = (None if f.kept is None else np.tile(f.kept, left.shape[1] // max(f.k, 1)) for f in (a, b))
    special = _find_special(left, right, *masks)
    left, right = (np.where(np.isfinite(x), x, 0) for x in (left, right))
    nearest = left @ right.T
    magnitude = np.abs(left) @ np.abs(right.T)
    unit = _reduce_runs(lowest_bit(left), lowest_bit(right), np.minimum, 8192)
    top = _reduce_runs(*exponents, np.maximum, -8192)
    remainder = np.zeros(nearest.shape, np.int8)
    sums = Sums(
        nearest=nearest, remainder=remainder, magnitude=magnitude, unit=unit, top=top, special=special, k=k
    )  # fmt: skip
    unsure = ~sums.fits(53) & (special == Special.FINITE)
    if unsure.sum() > _FEW and (terms := _multiply_slices(left, right)) is not None:
        _add_matrices(terms, nearest, remainder, unsure)
    else:
        for i, j in np.argwhere(unsure).tolist():
            nearest[i, j], remainder[i, j] = _add_products(left[i], right[j])
    # Each of k additions may have rounded it down.
    magnitude[unsure] *= 1 + 2.0**-50 * max(k, 4)
    nearest[nearest == 0] = 0  # -0 is decided by the accumulator
    return sums


def sum_alignments(a: Factor, b: Factor) -> Float64s:
    """For each output [m, n] at least the sum of the powers of two at which hardware aligns its products, zeros included."""
    _, _, exponents, k = pair_parts(a, b)
    left, right = (np.ldexp(1.0, x.astype(np.int64)) for x in exponents)
    found: Float64s = (left @ right.T) * (1 + 2.0**-50 * max(k, 4))
    return found


def pair_parts(a: Factor, b: Factor) -> tuple[Float64s, Float64s, tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]], int]:
    """Both operands with each part of the one before each part of the other along k, their exponents, and how many roundings
    of terms and partial sums a kernel may make of them."""
    check_environment()
    if a.rest is None and b.rest is None:
        return a.values, b.values, (a.exponents, b.exponents), a.k
    pairs = [(x, y) for x in _list_parts(a) for y in _list_parts(b)]
    left, right = (np.concatenate([pair[side][0] for pair in pairs], axis=1) for side in range(2))
    exponents = [np.concatenate([pair[side][1] for pair in pairs], axis=1) for side in range(2)]
    # Sums of parts are scaled and added group by group: a scale, an offset and an addition more than there are products.
    return left, right, (exponents[0], exponents[1]), len(pairs) * a.k + 2


def _list_parts(factor: Factor) -> list[tuple[Float64s, npt.NDArray[np.int16]]]:
    """An operand's parts, each with its exponents; the rest is aligned no lower than the values are."""
    if factor.rest is None:
        return [(factor.values, factor.exponents)]
    own = np.frexp(np.where(np.isfinite(factor.rest), factor.rest, 0))[1] - 1
    exponents = np.where(factor.rest == 0, factor.exponents, own).astype(np.int16)
    return [(factor.values, factor.exponents), (factor.rest, exponents)]


def _find_special(
    a: Float64s, b: Float64s, kept_a: npt.NDArray[np.bool_] | None, kept_b: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.int8]:
    """What each output is where an operand holds NaN or infinities; what was dropped meets none of them."""
    found = np.full((len(a), len(b)), Special.FINITE, np.int8)
    where = ~(np.isfinite(a).all(axis=0) & np.isfinite(b).all(axis=0))
    if not where.any():
        return found
    left, right = (_Kinds.of(x[:, where], kept if kept is None else kept[:, where]) for x, kept in ((a, kept_a), (b, kept_b)))
    plus = _meet(left, right, ("plus", "up"), ("minus", "down"), ("up", "plus"), ("down", "minus"))
    minus = _meet(left, right, ("plus", "down"), ("minus", "up"), ("up", "minus"), ("down", "plus"))
    nan = _meet(
        left, right, ("nan", "kept"), ("kept", "nan"), ("plus", "zero"), ("minus", "zero"), ("zero", "plus"), ("zero", "minus")
    )  # fmt: skip
    found[plus] = Special.PLUS_INF
    found[minus] = Special.MINUS_INF
    found[nan | (plus & minus)] = Special.NAN
    return found


@dataclass(frozen=True, slots=True)
class _Kinds:
    """For each number of an operand [rows, places] whether it is of a kind: 1 or 0. What was dropped is of none."""

    kept: Float32s
    nan: Float32s
    zero: Float32s
    plus: Float32s
    minus: Float32s
    #: Above and below zero, infinities included.
    up: Float32s
    down: Float32s

    @classmethod
    def of(cls, x: Float64s, kept: npt.NDArray[np.bool_] | None) -> _Kinds:
        kinds = (np.ones_like(x, np.bool_), np.isnan(x), x == 0, x == np.inf, x == -np.inf, x > 0, x < 0)
        return cls(*((kind if kept is None else kind & kept).astype(np.float32) for kind in kinds))


def _meet(left: _Kinds, right: _Kinds, *pairs: tuple[str, str]) -> npt.NDArray[np.bool_]:
    """For each output whether one of its products is of one of these pairs of kinds."""
    met: npt.NDArray[np.bool_] = sum(getattr(left, x) @ getattr(right, y).T for x, y in pairs) > 0
    return met


def _reduce_runs(a: npt.NDArray[np.int16], b: npt.NDArray[np.int16], smaller: np.ufunc, nothing: int) -> npt.NDArray[np.int16]:
    """For each output the least, or largest, sum of what its products' factors have; by runs along k, so a bound of it."""
    runs = [smaller.reduceat(x, range(0, x.shape[1], _RUN), axis=1) if x.shape[1] else x for x in (a, b)]
    result = np.full((len(a), len(b)), nothing, np.int16)
    columns = np.ascontiguousarray(runs[1].T)
    for start in range(0, len(a), _ROWS):  # all runs of a few rows, while these lie in the cache
        tile = result[start : start + _ROWS]
        found = np.empty_like(tile)
        for left, right in zip(runs[0][start : start + _ROWS].T, columns, strict=True):
            np.add(left[:, None], right, out=found)
            smaller(tile, found, out=tile)
    return result


def _add_products(a: Float64s, b: Float64s) -> tuple[float, int]:
    """The nearest float64 of one sum, and the sign of what it lacks."""
    used = (a != 0) & (b != 0)
    x, y = a[used], b[used]
    products = x * y
    lows = [lowest_bit(side) for side in (x, y)]
    bits = [int((np.frexp(side)[1] - low).max(initial=0)) for side, low in zip((x, y), lows, strict=True)]
    if sum(bits) <= 53:
        terms = products.tolist()
    elif int((lows[0].astype(np.int32) + lows[1]).min()) >= _LEAST and max(np.abs(side).max() for side in (x, y)) < _MOST:
        terms = [*products.tolist(), *product_errors(x, y, products).tolist()]
    else:
        total = sum((Fraction(p) * Fraction(q) for p, q in zip(x.tolist(), y.tolist(), strict=True)), Fraction())
        near = float(total)
        return near, (total > Fraction(near)) - (total < Fraction(near))
    near = math.fsum(terms)
    rest = math.fsum([*terms, -near])
    return near, (rest > 0) - (rest < 0)


def _cut(x: Float64s, width: int) -> list[Float64s]:
    """x as a sum of matrices, the numbers of each within so many exponents."""
    exponents = np.where(x == 0, -(1 << 14), np.frexp(x)[1] // width)
    return [np.where(exponents == e, x, 0) for e in np.unique(exponents[x != 0])]


def _multiply_slices(a: Float64s, b: Float64s) -> Iterable[Float64s] | None:
    """Matrices whose exact sum is the product; None where that takes too many."""
    bits = [int((np.frexp(x)[1] - lowest_bit(x))[x != 0].max(initial=1)) for x in (a, b)]
    room = 53 - sum(bits) - a.shape[1].bit_length()
    if room < 2:
        return None
    parts = [_cut(x, room // 2) for x in (a, b)]
    if len(parts[0]) * len(parts[1]) > _PARTS_AT_MOST:
        return None
    return (left @ right.T for left in parts[0] for right in parts[1])


def _add_matrices(terms: Iterable[Float64s], nearest: Float64s, remainder: npt.NDArray[np.int8], where: npt.NDArray[np.bool_]) -> None:
    """Exact sums of several matrices, into `nearest` and `remainder`, at some outputs."""
    columns = [term[where] for term in terms]
    found, signs = _distil(columns)
    nearest[where], remainder[where] = found, signs


def _distil(columns: Sequence[Float64s]) -> tuple[Float64s, npt.NDArray[np.int8]]:
    """The nearest float64 of each sum over the columns, and the sign of what it lacks."""
    rest = [c.copy() for c in columns]
    for _ in range(3):  # error-free transformations: each leaves the sum and moves it upward
        for i in range(1, len(rest)):
            low, high = rest[i - 1], rest[i]
            total = low + high
            back = total - low
            rest[i - 1] = (low - (total - back)) + (high - back)
            rest[i] = total
    lower = sum(rest[:-1], np.zeros_like(rest[-1]))
    total = rest[-1] + lower
    left = (rest[-1] - total) + lower
    slack = np.ldexp(sum((np.abs(c) for c in rest[:-1]), np.zeros_like(lower)), -48) * len(rest)
    # Sure where what is left is zero with nothing lost, or larger than all that was, and far from a midpoint.
    exact = slack == 0
    spacing = np.spacing(np.abs(total))
    sure = exact | ((np.abs(left) > slack) & (np.abs(left) + slack < spacing / 4))
    signs = np.sign(left).astype(np.int8)
    for place in np.flatnonzero(~sure).tolist():
        values = [float(c[place]) for c in columns]
        total[place] = near = math.fsum(values)
        over = math.fsum([*values, -near])
        signs[place] = (over > 0) - (over < 0)
    return total, signs
