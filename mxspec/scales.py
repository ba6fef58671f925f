"""Scale rules on arrays: the value of a scale expression -> scale code.

Exponents come from frexp, which is exact; log2 is never called. Where a stack calls a float log2, its result is
modelled as the correctly rounded one, through thresholds computed with 60 decimal digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import code_dtype, encode_table, exact_table_index, round_to_float32, table_index
from mxspec.formats import ElementFormat, ScaleFormat, floor_log2, power_of_two
from mxspec.profiles.schema import ExponentUnderflow, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Overflow, Rounding

#: Exponents of positive float32 numbers.
_MIN_EXPONENT, _MAX_EXPONENT = -149, 127


def significand_bits(element: ElementFormat) -> int:
    """Trailing significand bits of the element's largest value (int8: 6, from 127/64 = 1.984375)."""
    return element.mantissa_bits if element.exponent_bits else element.mantissa_bits - 1


def spacing_near(x: Fraction | int, *, below: bool) -> Fraction:
    """Distance from a float32 to the next one below (or above) it; 0 at 0."""
    if x == 0:
        return Fraction(0)
    exponent = floor_log2(abs(Fraction(x)))
    nearer = (x > 0) == below and abs(x) == power_of_two(exponent)
    return power_of_two(exponent - 23 - nearer)


def exp2(x: Fraction) -> Fraction:
    """2**x with 60 digits; exact for integers."""
    part = x % 1
    with localcontext() as context:
        context.prec = 60
        root = (Decimal(part.numerator) / Decimal(part.denominator) * Decimal(2).ln()).exp()
    return Fraction(root) * power_of_two(int(x - part))


def _float32_bounds(points: Iterable[Fraction]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The smallest float32 whose rounded log2 is at least each point, and the largest whose rounded log2 is at most it."""
    first, last = [], []
    for x in points:
        low = exp2(x - spacing_near(x, below=True) / 2)
        high = exp2(x + spacing_near(x, below=False) / 2)
        below, above = (power_of_two(max(floor_log2(bound), -126) - 23) for bound in (low, high))
        first.append(float(-(-low // below) * below))
        last.append(float(high // above * above))
    return np.array(first), np.array(last)


@lru_cache(maxsize=1)
def log2f_thresholds() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Where the float32-rounded log2 reaches an integer although the real one does not.

    Returns two float64 arrays indexed by k + 149 for k = -149 .. 128: the smallest float32 whose rounded log2 is at
    least k, and the largest whose rounded log2 is at most k. Around k = 0 both are 1.
    """
    return _float32_bounds(Fraction(k) for k in range(_MIN_EXPONENT, _MAX_EXPONENT + 2))


def log2f_floor(value: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """floor of log2 rounded to float32: one too high just below some powers of two. value: positive, finite."""
    first, _ = log2f_thresholds()
    floor = np.frexp(value)[1].astype(np.int64) - 1
    return floor + (value >= first[floor - _MIN_EXPONENT + 1])


def log2bf16_reach(k: int) -> Fraction:
    """From which logarithm on rounding to float32 and then to bfloat16 gives at least the integer k.

    A bfloat16 tie goes to k if k's significand is even (it is odd for odd k beyond 128); float32 rounds first, so the
    bound lies half a float32 below the tie or above it.
    """
    if k == 0:
        return Fraction(0)
    spacing = spacing_near(k, below=True) * 2**16
    tie = k - spacing / 2
    half = power_of_two(floor_log2(abs(tie)) - 24)
    return tie + half if k / spacing % 2 else tie - half


@lru_cache(maxsize=1)
def _log2bf16_thresholds() -> npt.NDArray[np.float64]:
    """Indexed by k + 149: the smallest number whose log2, rounded to float32 and then to bfloat16, is at least k."""
    return np.array([float(exp2(log2bf16_reach(k))) for k in range(_MIN_EXPONENT, _MAX_EXPONENT + 2)])


def scale_exponents(value: npt.NDArray[np.float64], rule: ScaleRule, element: ElementFormat) -> npt.NDArray[np.int64]:
    """Exponents that an exponent rule gives for positive finite values, before bias and clamping."""
    fraction, exponent = np.frexp(value)
    floor = exponent.astype(np.int64) - 1
    if rule.step is ScaleStep.FLOOR:
        e = floor
    elif rule.step is ScaleStep.CEIL:
        e = floor + (fraction != 0.5)
    elif rule.step is ScaleStep.HALF_UP:
        e = floor + (2 * fraction >= 2 - 2.0 ** -(significand_bits(element) + 1))
    elif rule.step is ScaleStep.LOG2F_FLOOR:
        e = log2f_floor(value)
    elif rule.step is ScaleStep.LOG2BF16_FLOOR:
        e = floor + (value >= _log2bf16_thresholds()[floor - _MIN_EXPONENT + 1])
    else:
        _, last = log2f_thresholds()
        index = floor - _MIN_EXPONENT
        if rule.step is ScaleStep.LOG2F_CEIL:
            e = floor + (value > last[index])
        else:
            e = floor + _log2f_rounds_up(value, fraction, floor)
    return e + rule.offset - (element.emax if rule.subtract_emax else 0)


def _log2f_rounds_up(
    value: npt.NDArray[np.float64], fraction: npt.NDArray[np.float64], floor: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether the float32-rounded log2 lies nearer to floor + 1, or midway with floor odd."""
    first, last = _log2f_middle_thresholds()
    index = floor - _MIN_EXPONENT
    return np.where(floor % 2 == 0, value > last[index], value >= first[index])


@lru_cache(maxsize=1)
def _log2f_middle_thresholds() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Indexed by k + 149: smallest float32 whose rounded log2 is at least k + 1/2, largest with at most k + 1/2."""
    return _float32_bounds(k + Fraction(1, 2) for k in range(_MIN_EXPONENT, _MAX_EXPONENT + 1))


def encode_ggml_ue4m3(value: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """ggml's own ue4m3 encoder on non-negative float32 values.

    Subnormal results are floor(value * 512 + 0.5) and at most 7; normal ones add the first dropped bit; 248 and above
    give 7E. Source: ggml-impl.h, `ggml_fp32_to_ue4m3`.
    """
    clipped = np.minimum(value, np.float32(448))
    bits = clipped.view(np.uint32)
    exponent = (bits >> np.uint32(23)).astype(np.int64) - 127 + 7
    mantissa = ((bits >> np.uint32(20)) & np.uint32(7)).astype(np.int64)
    mantissa += ((bits >> np.uint32(19)) & np.uint32(1)).astype(np.int64)
    subnormal = np.minimum(np.floor(clipped * np.float32(512) + np.float32(0.5)), 7).astype(np.int64)
    exponent, mantissa = exponent + (mantissa > 7), np.where(mantissa > 7, 0, mantissa)
    normal = np.where(exponent >= 15, 0x7E, (exponent << 3) | mantissa)
    raw_exponent = (bits >> np.uint32(23)).astype(np.int64) - 127 + 7
    return np.where(value > 0, np.where(raw_exponent <= 0, subnormal, normal), 0).astype(np.uint8)


def encode_scale(value: npt.NDArray[Any], rule: ScaleRule, scale: ScaleFormat, element: ElementFormat) -> npt.NDArray[Any]:
    """The scale codes (`code_dtype`, value's shape) of a scale expression's values.

    value: float32, or float64 from the exact domain; non-negative, Inf or NaN. Zero, Inf and NaN follow `rule.on_zero`,
    `on_inf`, `on_nan`.
    """
    value = np.abs(value)
    ordinary = np.isfinite(value) & (value > 0)
    low, high = rule.byte_range
    if rule.step is ScaleStep.GGML_UE4M3:
        codes = encode_ggml_ue4m3(np.where(ordinary, value, 0).astype(np.float32))
    elif rule.step is ScaleStep.ENCODE:
        codes = np.clip(_encode_directly(np.where(ordinary, value, 1), rule, scale), low, high)
    else:
        exponents = scale_exponents(np.where(ordinary, value, 1).astype(np.float64), rule, element) + scale.bias << scale.mantissa_bits
        if rule.underflow is ExponentUnderflow.WRAP:
            codes = (np.minimum(exponents, high) & 0xFF).astype(np.uint8)
        else:
            codes = np.clip(exponents, low, high).astype(code_dtype(scale))
    assert scale.nan_code is not None
    codes = np.where(value == 0, low if rule.on_zero is None else rule.on_zero, codes)
    codes = np.where(np.isinf(value), high if rule.on_inf is None else rule.on_inf, codes)
    codes = np.where(np.isnan(value), scale.nan_code if rule.on_nan is None else rule.on_nan, codes)
    return codes.astype(code_dtype(scale))


def _encode_directly(value: npt.NDArray[Any], rule: ScaleRule, scale: ScaleFormat) -> npt.NDArray[Any]:
    """The scale format's encoder on positive float32 or exact float64 values, saturating; to float32 it rounds to nearest even."""
    if scale.bits > 8:
        assert rule.rounding is Rounding.RNE
        return round_to_float32(value.astype(np.float64)).view(np.uint32)
    index = exact_table_index(value) if value.dtype == np.float64 else table_index(value)
    return encode_table(scale, rule.rounding, Overflow.SATURATE, NanPolicy.NAN)[index]
