"""From sums to outputs: the epilogue, the output's rounding, and every output that a class of accumulations may give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot.accumulators import Accumulator
from mxspec.dot.rounding import DTYPES, OUTPUTS, Float64s, round_floats
from mxspec.dot.sums import Special, Sums
from mxspec.formats import FLOAT32, FloatFormat

#: Roundings that an epilogue may have: of alpha times the tensor scales, of that times the sum, of beta times C, of two
#: additions, and one for each operand's scale folded into its blocks.
_EPILOGUE_ROUNDINGS = 7
#: Numbers below it, however they are added, give no infinity of float32.
_FAR_BELOW_INFINITY = 2.0**120


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """output = alpha * sum + beta * c + bias, in float32, then rounded to the output's dtype."""

    alpha: float = 1.0
    beta: float = 0.0
    #: [m, n], of the output's dtype or float32; None: nothing is added.
    c: npt.NDArray[Any] | None = None
    #: [n], added to every row.
    bias: npt.NDArray[Any] | None = None

    @property
    def added(self) -> list[Float64s]:
        """What is added to the scaled sum, exactly."""
        terms = []
        if self.c is not None:
            terms.append(np.float64(np.float32(self.beta)) * self.c.astype(np.float64))
        if self.bias is not None:
            terms.append(self.bias.astype(np.float64)[None, :])
        return terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """For each output the numbers that it may be, both ends included, as float64."""

    low: Float64s
    high: Float64s
    #: Where every accumulation of the class has to give one result.
    decided: npt.NDArray[np.bool_]
    special: npt.NDArray[np.int8]

    def accepts(self, output: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which outputs are among them. The two zeros are one number; an interval of NaN holds NaN alone."""
        y = output.astype(np.float64)
        inside = (y >= self.low) & (y <= self.high)
        unbounded = (self.low == -np.inf) & (self.high == np.inf)
        found = np.where(self.special == Special.NAN, np.isnan(y), inside | unbounded)
        for kind, value in ((Special.PLUS_INF, np.inf), (Special.MINUS_INF, -np.inf)):
            found = np.where(self.special == kind, y == value, found)
        return found.astype(np.bool_)


def allow_outputs(
    sums: Sums, accumulator: Accumulator, out_dtype: str, *, tensor_scale: float = 1.0, epilogue: Epilogue | None = None
) -> Allowed:
    """Every output that an accumulation of the class, the epilogue and one rounding to the output's dtype may give.

    tensor_scale: the product of both operands' tensor scales; a kernel may apply it to the sum or to its terms.
    """
    epilogue = epilogue or Epilogue()
    fmt = OUTPUTS[out_dtype]
    factor = float(np.float32(epilogue.alpha)) * tensor_scale
    exact_factor = factor == 0 or abs(np.frexp(factor)[0]) == 0.5
    added = epilogue.added
    odd = sums.odd
    with np.errstate(all="ignore"):
        scaled = odd * factor
        total = scaled + sum(added, np.zeros(1))
        # Scales that are folded into the terms leave them whole only where they are powers of two.
        exact_sum = accumulator.decides(sums) & exact_factor
        lost = np.where(exact_sum, 0, accumulator.bound_error(sums) * abs(factor))
        if added or not exact_factor:
            most = np.abs(scaled) + lost + sums.magnitude * abs(factor) + sum((np.abs(x) for x in added), np.zeros(1))
            lost = lost + most * _EPILOGUE_ROUNDINGS * 2.0**-23 + _EPILOGUE_ROUNDINGS * 2.0**-125
        lost = lost + np.abs(total) * 2.0**-50
        low, high = np.nextafter(total - lost, -np.inf), np.nextafter(total + lost, np.inf)
    decided = exact_sum & _adds_exactly(scaled, added)
    exact = round_floats(total, fmt)
    low = np.where(decided, exact, round_floats(low, fmt))
    high = np.where(decided, exact, round_floats(high, fmt))
    # Beyond the largest finite number a conversion overflows or saturates.
    largest = float(fmt.max_value)
    low, high = np.where(low == np.inf, largest, low), np.where(high == -np.inf, -largest, high)
    unknown = ~np.isfinite(lost)
    low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
    for sign in (1, -1):
        # An infinity that is added is one, or the largest number where a conversion saturates.
        infinite = _find_infinite(sums, factor, added, sign)
        low = np.where(infinite, largest if sign > 0 else -np.inf, low)
        high = np.where(infinite, np.inf if sign > 0 else -largest, high)
    if factor == 1 and not added and unknown.any():
        low, high = _bound_overflow(sums, accumulator, fmt, low, high, unknown)
    return Allowed(low=low, high=high, decided=decided & ~unknown, special=_finish_special(sums.special, factor, added))


def _finish_special(special: npt.NDArray[np.int8], factor: float, added: list[Float64s]) -> npt.NDArray[np.int8]:
    """What the factor and what is added make of NaN and infinities among the products; an added NaN is one everywhere."""
    values = np.select([special == Special.PLUS_INF, special == Special.MINUS_INF, special == Special.NAN], [np.inf, -np.inf, np.nan], 1.0)
    with np.errstate(invalid="ignore"):
        total = values * factor
        for term in added:
            total = total + np.where((special == Special.FINITE) & ~np.isnan(term), 0.0, term)
    found = np.where(total > 0, np.int8(Special.PLUS_INF), np.int8(Special.MINUS_INF))
    found = np.where(special == Special.FINITE, special, found)
    return np.where(np.isnan(total), np.int8(Special.NAN), found)


def _find_infinite(sums: Sums, factor: float, added: list[Float64s], sign: int) -> npt.NDArray[np.bool_]:
    """Where one thing that is added is an infinity of a sign, and all else is far below infinity."""
    small = (sums.magnitude * abs(factor) < _FAR_BELOW_INFINITY) & (sums.special == Special.FINITE)
    found = np.zeros(small.shape, np.bool_)
    for place, term in enumerate(added):
        if np.isinf(term).any():
            others = [np.abs(t) < _FAR_BELOW_INFINITY for t in (*added[:place], *added[place + 1 :])]
            found |= np.logical_and.reduce(np.broadcast_arrays(small, term == sign * np.inf, *others))
    return found


def _bound_overflow(
    sums: Sums, accumulator: Accumulator, fmt: FloatFormat, low: Float64s, high: Float64s, unknown: npt.NDArray[np.bool_]
) -> tuple[Float64s, Float64s]:
    """The ends of sums that may overflow and are not known otherwise, where all products have one sign: such sums never fall.

    Once infinite, or at the largest number of the class, they stay there; without that they lose what rounding loses.
    """
    lost = accumulator.bound_rounding(sums)
    one_sign = (np.abs(sums.nearest) == sums.magnitude) & (sums.special == Special.FINITE) & unknown
    least = np.minimum(np.maximum(sums.magnitude - lost, 0), accumulator.largest)
    with np.errstate(over="ignore"):
        nearest = np.minimum(round_floats(np.nextafter(least, 0), fmt), float(fmt.max_value))
    low = np.where(one_sign, np.where(sums.nearest > 0, nearest, -np.inf), low)
    high = np.where(one_sign, np.where(sums.nearest > 0, np.inf, -nearest), high)
    return low, high


def _adds_exactly(scaled: Float64s, added: list[Float64s]) -> npt.NDArray[np.bool_]:
    """Where float32 holds the scaled sum, each addend and the sum of any of them."""
    terms = [scaled, *added]
    fits = np.ones(scaled.shape, np.bool_)
    for chosen in range(1, 1 << len(terms)):
        part = sum((t for i, t in enumerate(terms) if chosen >> i & 1), np.zeros(scaled.shape))
        if chosen != 1:  # the sum itself may be of any size; the class has decided it
            fits &= round_floats(part, FLOAT32) == part
    return fits if added else np.ones(scaled.shape, np.bool_)


def finish_product(sums: Sums, out_dtype: str, *, tensor_scale: float = 1.0, epilogue: Epilogue | None = None) -> npt.NDArray[Any]:
    """The correctly rounded outputs: of the exact sum, scaled, with what is added, rounded once to nearest even.

    Where the epilogue's own arithmetic needs more than float64, outputs are found in rationals.
    """
    epilogue = epilogue or Epilogue()
    factor = float(np.float32(epilogue.alpha)) * tensor_scale
    added = epilogue.added
    simple = not added and (factor == 0 or abs(np.frexp(factor)[0]) == 0.5)
    total = sums.odd * factor if simple else _finish_in_rationals(sums, epilogue, tensor_scale)
    result = round_floats(total, OUTPUTS[out_dtype])
    special = _finish_special(sums.special, factor, added)
    for kind, value in ((Special.NAN, np.nan), (Special.PLUS_INF, np.inf), (Special.MINUS_INF, -np.inf)):
        result = np.where(special == kind, value, result)
    with np.errstate(over="ignore", invalid="ignore"):
        return result.astype(np.float32).astype(DTYPES[out_dtype])


def _finish_in_rationals(sums: Sums, epilogue: Epilogue, tensor_scale: float) -> Float64s:
    """alpha * scales * sum + addends, rounded to odd; the sum is that rounded to odd, which 53 bits tell from its neighbours."""
    from fractions import Fraction

    factor = Fraction(float(np.float32(epilogue.alpha))) * Fraction(tensor_scale)
    terms = [np.broadcast_to(t, sums.nearest.shape) for t in epilogue.added]
    result = np.empty(sums.nearest.shape)
    for place, odd in np.ndenumerate(sums.odd):
        parts = [float(t[place]) for t in terms]
        if not np.isfinite([odd, *parts]).all():
            result[place] = odd * float(factor) + sum(parts)
            continue
        exact = Fraction(float(odd)) * factor + sum(map(Fraction, parts))
        near = float(exact)
        if Fraction(near) != exact and not np.float64(near).view(np.int64) & 1:
            near = float(np.nextafter(near, np.inf if exact > Fraction(near) else -np.inf))
        result[place] = near
    return result
