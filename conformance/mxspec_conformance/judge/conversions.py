"""Known mistakes of encoders: the codes of all numbers that were asked, as each mistake would have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.elements import default_nan_policy, encode_table, table_index
from mxspec.expressions import const
from mxspec.formats import E2M1, ElementFormat, ScalarFormat
from mxspec.profiles.schema import ScaleRule, ScaleStep
from mxspec.rounding import Overflow, Rounding
from mxspec.scales import scale_exponents
from mxspec_conformance.judge.explanation import ROUNDING_TEXT, Cause, ConversionMistake, Explanation

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
#: Roundings that are tried together with a mistake.
_TRIED = (Rounding.RNE, Rounding.RNA, Rounding.RTZ)


def list_known(x: Floats, fmt: ScalarFormat, asked: Rounding, *, own: bool, returned: Codes, expected: Codes) -> dict[Explanation, Codes]:
    """What gives codes [n] of numbers [n], and contradicts none that is right.

    own: whether the format's own Inf or NaN is asked for beyond the largest value.
    returned, expected: codes [n]; -1: no answer.
    A target that rounds otherwise does so in all numbers: what would make a right one wrong explains nothing.
    """
    # Beyond the largest value a target has two answers to choose from, unless one was asked for.
    counts = ~np.isnan(x) if own else np.abs(x) <= np.float32(float(fmt.max_value))
    right = counts & (returned == expected)
    wrong = (returned != expected) & ~np.isnan(x)
    if not wrong.any():
        return {}
    return {
        explanation: codes for explanation, codes in _list_all(x, fmt, asked, own=own, returned=returned, expected=expected)
        if (codes == returned)[wrong].any() and (codes == expected)[right].all()
    }  # fmt: skip


def _list_all(
    x: Floats, fmt: ScalarFormat, asked: Rounding, *, own: bool, returned: Codes, expected: Codes
) -> Iterator[tuple[Explanation, Codes]]:
    for rounding in ROUNDING_TEXT:
        codes = _encode(x, fmt, rounding)
        if own and rounding is asked:  # what saturation gives is then saturation itself
            yield _mistake(ConversionMistake.SATURATED), np.where(returned == expected, expected, codes)
        else:
            yield Explanation(Cause.ROUNDING, rounding=rounding), codes
    if not fmt.signed:
        partly = _without_some_bits(x, returned, expected)
        if partly is not None:
            yield _mistake(ConversionMistake.FRACTION_IN_PART), partly
        if fmt.is_power_of_two:
            yield from ((_mistake(mistake), _by_log2(x, fmt, step)) for mistake, step in _LOG2.items())
    elif fmt.nan_code is not None:
        yield _mistake(ConversionMistake.NAN_IN_A_RANGE), _with_nan_between(x, fmt, returned, expected)
    if own:
        return
    with np.errstate(all="ignore"):
        for mistake, narrow in _list_narrow(x):
            yield _mistake(mistake), _encode(narrow, fmt, asked)
    if isinstance(fmt, ElementFormat) and not fmt.twos_complement:
        if (returned != expected)[np.abs(x) > np.float32(float(fmt.max_value))].any():  # else ties alone show it
            yield from ((_mistake(mistake), find_nearest(x, fmt, less)) for mistake, less in DISTANCES.items())
        yield _mistake(ConversionMistake.TIES_DOWN), _encode(-x, fmt, Rounding.RNU) ^ fmt.sign_bit
        yield from _with_wide_ties(x, fmt, returned, expected)
        for rounding in dict.fromkeys((asked, *_TRIED)):
            for mistake, codes in _of_floats(x, fmt, rounding):
                yield _mistake(mistake, None if rounding is asked else rounding), codes


def _list_narrow(x: Floats) -> Iterator[tuple[ConversionMistake, Floats]]:
    half = x.astype(np.float16).astype(np.float32)
    yield ConversionMistake.THROUGH_FLOAT16, half
    yield ConversionMistake.THROUGH_BFLOAT16, x.astype(ml_dtypes.bfloat16).astype(np.float32)
    # A fraction that is full in the ten bits of a normal number becomes the next power of two.
    full = ((x.view(np.uint32) & 0x7FF000) == 0x7FF000) & (np.abs(x) < np.float32(2.0**-15))
    yield ConversionMistake.FLOAT16_CARRY, np.where(full, 2 * half, half).astype(np.float32)


#: Mistake -> what is taken off the distances of even codes.
DISTANCES = {ConversionMistake.DISTANCES: 0.0, ConversionMistake.BIASED_DISTANCES: 1e-6}


def find_nearest(x: npt.NDArray[Any], fmt: ElementFormat, less: float) -> Codes:
    """The codes [...] of the least float32 distances |x| - v, the first of equal ones; less: what is taken off those of even codes."""
    values = np.array([float(fmt.magnitude(m)) for m in range(fmt.max_code + 1)], np.float32)
    bias = np.where(np.arange(len(values)) % 2 == 0, np.float32(less), np.float32(0))
    with np.errstate(all="ignore"):
        codes = np.argmin(np.abs(np.abs(x.astype(np.float32))[..., None] - values) - bias, axis=-1)
    return np.asarray(np.where(np.isfinite(x), codes, fmt.max_code) | np.where(np.signbit(x), fmt.sign_bit, 0), np.int64)


def _mistake(mistake: ConversionMistake, rounding: Rounding | None = None) -> Explanation:
    return Explanation(Cause.CONVERSION_MISTAKE, mistake=mistake, rounding=rounding)


def _encode(x: Floats, fmt: ScalarFormat, rounding: Rounding) -> Codes:
    table = encode_table(fmt, rounding, Overflow.SATURATE, default_nan_policy(fmt))
    codes: Codes = table[table_index(x if fmt.signed else np.abs(x))].astype(np.int64)
    return codes


def _of_floats(x: Floats, fmt: ElementFormat, rounding: Rounding) -> Iterator[tuple[ConversionMistake, Codes]]:
    codes, size = _encode(x, fmt, rounding), np.abs(np.where(np.isnan(x), np.float32(0), x)).astype(np.float64)
    least = float(fmt.magnitude(1 << fmt.mantissa_bits))
    small, finite, sign = size < least, np.isfinite(x), np.where(np.signbit(x), fmt.sign_bit, 0)
    # A carry: the fraction of the number cut is full, that of the rounded one is empty.
    cut, high = (c & (fmt.sign_bit - 1) for c in (_encode(x, fmt, Rounding.RTZ), codes))
    field = cut >> fmt.mantissa_bits
    carried = finite & (high == cut + 1) & (high & ((1 << fmt.mantissa_bits) - 1) == 0)
    yield ConversionMistake.CARRY_ORED, np.where(carried, (field | 1) << fmt.mantissa_bits | sign, codes)
    yield ConversionMistake.CARRY_DROPPED, np.where(carried, field << fmt.mantissa_bits | sign, codes)
    with np.errstate(all="ignore"):
        step = np.ldexp(1.0, np.frexp(np.where(small, size, 0.0))[1] - 1 - fmt.mantissa_bits)
        once = np.copysign(np.nan_to_num(np.rint(np.where(small, size, 0.0) / step) * step), x).astype(np.float32)
        coarse = np.rint(np.where(small, size, 0.0) / least).astype(np.int64)
    yield ConversionMistake.TWICE_BELOW, np.where(small, _encode(np.where(small, once, np.float32(0)), fmt, rounding), codes)
    yield ConversionMistake.COARSE_BELOW, np.where(small, coarse | sign, codes)
    yield ConversionMistake.NOTHING_BELOW, np.where(small, sign, codes)
    top = fmt.max_code >> fmt.mantissa_bits
    full = finite & (np.abs(x) >= np.float32(float(fmt.magnitude(top << fmt.mantissa_bits))))
    yield ConversionMistake.TOP_FIELD_FULL, np.where(full, fmt.max_code | sign, codes)
    if fmt.inf_code is None:
        infinite = ~np.isnan(x) & (high >= top << fmt.mantissa_bits)
        yield ConversionMistake.TOP_FIELD_INFINITE, np.where(infinite, top << fmt.mantissa_bits | sign, codes)
    else:
        beyond = size >= float(fmt.max_value) + float(fmt.max_value - fmt.magnitude(fmt.max_code - 1)) / 2
        yield ConversionMistake.LAST_BUT_ONE, np.where(beyond, fmt.sign_bit - 2 | sign, codes)


def _with_wide_ties(x: Floats, fmt: ElementFormat, returned: Codes, expected: Codes) -> Iterator[tuple[Explanation, Codes]]:
    """The even code for all numbers as close to a midpoint as those that wrongly got it, if these lie on both sides of midpoints."""
    values = np.array([float(fmt.magnitude(m)) for m in range(fmt.max_code + 1)])
    middles, size = (values[1:] + values[:-1]) / 2, np.abs(np.where(np.isnan(x), np.inf, x)).astype(np.float64)
    tie = np.searchsorted(values, np.where(size < values[-1], size, 0.0), side="right") - 1
    tie = np.minimum(tie, len(middles) - 1)
    away = np.where(size < values[-1], np.abs(size - middles[tie]), np.inf)
    even = tie + (tie & 1) | np.where(np.signbit(x), fmt.sign_bit, 0)
    missed = (away > 0) & np.isfinite(away) & (returned == even) & (expected != even)
    if missed.any() and len(set(np.sign(size - middles[tie])[missed])) == 2:
        reach = float(away[missed].max())
        words = f"numbers that lie up to {reach:.2g} next to a tie were ties, and went to even"
        yield Explanation(Cause.CONVERSION_MISTAKE, words), np.where(away <= reach, even, expected)


def _with_nan_between(x: Floats, fmt: ScalarFormat, returned: Codes, expected: Codes) -> Codes:
    """NaN for all between the smallest and the largest finite number of a sign that became NaN."""
    assert fmt.nan_code is not None
    size, codes = np.abs(x), expected.copy()
    for negative in (False, True):
        nan = fmt.nan_code | (fmt.sign_bit if negative else 0)
        beyond = np.isfinite(x) & (size > np.float32(float(fmt.max_value))) & (np.signbit(x) == negative)
        lost = size[beyond & (returned == nan)]
        if lost.size:
            codes[beyond & (size >= lost.min()) & (size <= lost.max())] = nan
    return codes


#: Conversions to powers of two by a float32 logarithm.
_LOG2 = {
    ConversionMistake.LOG2_FLOOR: ScaleStep.LOG2F_FLOOR, ConversionMistake.LOG2_CEIL: ScaleStep.LOG2F_CEIL,
    ConversionMistake.LOG2_ROUND: ScaleStep.LOG2F_ROUND,
}  # fmt: skip


def _by_log2(x: Floats, fmt: ScalarFormat, step: ScaleStep) -> Codes:
    """Codes of powers of two by an exponent rule; zero and infinity at the ends."""
    ordinary, size = np.isfinite(x) & (x != 0), np.abs(x)
    exponents = scale_exponents(np.where(ordinary, size, np.float32(1)).astype(np.float64), ScaleRule(value=const(0), step=step), E2M1)
    codes: Codes = np.where(ordinary, np.clip(exponents + fmt.bias, 0, fmt.max_code), np.where(size > 0, fmt.max_code, 0))
    return codes


def _without_some_bits(x: Floats, returned: Codes, expected: Codes) -> Codes | None:
    """Codes of powers of two if some bits of the fraction were ignored when rounding up; None where they all were, or none."""
    fraction = x.view(np.uint32).astype(np.int64) & 0x7FFFFF
    normal = np.isfinite(x) & (x >= np.float32(2.0**-126))
    low = np.minimum((x.view(np.uint32) >> 23).astype(np.int64), expected)
    missed = normal & (expected == low + 1) & (returned == low)
    mask = int(np.bitwise_or.reduce(fraction[missed])) if missed.any() else 0
    if mask in (0, 0x7FFFFF):
        return None
    return np.where(normal & (expected == low + 1) & (fraction & ~mask == 0), low, expected)
