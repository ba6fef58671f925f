"""Descriptive profiles of FBGEMM's MX4: `fp32_to_mx4` and `mx4_to_fp32` in blocks of 32, by the mode of the shared exponent.

"even" adds half a step less one ulp to the largest magnitude's bits, so that 1.75 exactly is not carried: the third rule of
that name, after the half-up ones of torchao and Quark. Elements are rounded half away from zero in every mode.
"""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import AMAX, SF, ZERO, Const, Expr, Q, X, ceil_pow2, const, exact, f32, if_equal, if_inf, if_less, if_nan
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Rounding

_SOURCE = "fbgemm-gpu-cpu 1.9.0 wheel: fbgemm_gpu/triton/quantize_ref.py py_quantize_mx4, _compute_exp, py_dequantize_mx4"
_RAN = "fbgemm-gpu-cpu 1.9.0, torch 2.13.0 on the CPU, Linux x86-64: reports/peers/fbgemm.json"
_MINUS_ZERO = Const(0x80000000)
_BYTE_FF = const(Fraction(1, 1 << 128))

#: A block of zeros has the smallest normal float32 for its maximum.
_MAXIMUM = if_equal(AMAX, ZERO, const(Fraction(1, 1 << 126)), AMAX)
#: The power of two at or below the maximum.
_POWER = if_equal(ceil_pow2(_MAXIMUM), _MAXIMUM, _MAXIMUM, exact.mul(ceil_pow2(_MAXIMUM), const(Fraction(1, 2))))
_NAN, _INFINITY = Const(0x7FC00000), Const(0x7F800000)
#: The maximum that the sum carries to the bits of infinity; larger ones become NaN.
_LAST = Const(0x7F600001)
#: 2^21 - 1 added to the bits of a float32.
_CARRIED = if_less(
    _LAST,
    _MAXIMUM,
    _NAN,
    if_equal(_LAST, _MAXIMUM, _INFINITY, exact.add(_MAXIMUM, exact.mul(_POWER, const(Fraction((1 << 21) - 1, 1 << 23))))),
)

_QUOTIENT = f32.div(X, SF)


def _scaled(value: Expr) -> Expr:
    """What is no number has the exponent field 255, which wraps in a signed byte and ends as a zero."""
    finite = if_inf(_QUOTIENT, if_less(X, ZERO, _MINUS_ZERO, ZERO), _QUOTIENT)
    return if_nan(X, X, if_nan(value, value, finite))


_MODES: dict[str, tuple[Expr, ScaleStep, str]] = {
    "ceil": (_MAXIMUM, ScaleStep.LOG2F_CEIL, "ceil of a float32 log2 of amax"),
    "even": (_CARRIED, ScaleStep.LOG2F_FLOOR, "amax's bits plus 2^21 - 1, so that 1.75 exactly is not carried, then floor"),
    "floor": (_MAXIMUM, ScaleStep.LOG2F_FLOOR, "floor of a float32 log2 of amax"),
}


def _mx4(mode: str) -> Profile:
    value, step, summary = _MODES[mode]
    return Profile(
        id=f"fbgemm-1.9/mxfp4/{mode}",
        formats=("mxfp4",),
        summary=f"{summary}; ties away from zero; bytes up to FC; NaN and Inf become zeros, a block with a NaN becomes zeros",
        source=f"{_SOURCE}, RoundingMode.{mode}",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=value, step=step, subtract_emax=True, byte_range=(0x00, 0xFC), on_inf=0xFC, on_nan=0x00),
            scaled=_scaled(value),
            # Byte FF is 2^-128, and code 8 the table's -0, an integer without a sign.
            dequantize=f32.mul(if_equal(Q, ZERO, ZERO, Q), if_nan(SF, _BYTE_FF, SF)),
            element=ElementRule(rounding=Rounding.RNA, nan=NanPolicy.ZERO_SIGNED, invalid_sign=1),
        ),
        dtypes=("float32",),
        unspecified=("the byte of a NaN cast to int8 is that of x86-64",),
    )


PROFILES: tuple[Profile, ...] = tuple(_mx4(mode) for mode in _MODES)
