"""Descriptive profiles of NNCF's weight compression (OpenVINO): its NumPy reference in MXFP4, MXFP8 and NVFP4.

Every scale is at least float32's epsilon, 2^-23. NVFP4 elements are divided by the block's scale before that is rounded to
e4m3. Conversion to e4m3 goes through float16 and does not saturate.
"""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import AMAX, SF, TMAX, ZERO, Const, Expr, G, M, Q, X, absolute, const, f16, f32, if_inf, if_less, if_nan
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep, TensorRule, TensorScaleKind
from mxspec.rounding import NanPolicy

_SOURCE = (
    "nncf 3.4.0 wheel: nncf/quantization/algorithms/weight_compression/weight_lowering.py do_float_quantization, "
    "calculate_float_quantization_params, _calculate_float_quantized_weight; fp8_conversion.py fp32_to_fp8e4m3"
)
_RAN = "nncf 3.4.0 with NumPy 2.4.6, Linux x86-64: reports/peers/nncf.json"
_EPSILON = const(Fraction(1, 1 << 23))
_MINUS_ZERO, _NAN = Const(0x80000000), Const(0x7FC00000)


def _floored(scale: Expr) -> Expr:
    return if_less(scale, _EPSILON, _EPSILON, scale)


def _table(quotient: Expr) -> Expr:
    """The table's zero is -0, for everything that rounds to zero; below it no distance tells -6 from -4 for -Inf."""
    finite = if_less(const(Fraction(1, 4)), absolute(quotient), quotient, _MINUS_ZERO)
    return if_nan(quotient, quotient, if_inf(quotient, if_less(X, ZERO, const(-4), const(6)), finite))


def _e4m3(value: Expr) -> Expr:
    """Through float16; NaN, positive, for what would round beyond the largest."""
    rounded = f16.round(value)
    return if_less(const(464), absolute(rounded), _NAN, rounded)


def _mx(fmt: str) -> Profile:
    quotient = f32.div(X, SF)
    fp4 = fmt == "mxfp4"
    return Profile(
        id=f"nncf-3.4/{fmt}",
        formats=(fmt,),
        summary="ceil of a float32 log2 of amax / max, which is at least 2^-23; "
        + ("what rounds to zero becomes -0" if fp4 else "elements through float16, NaN beyond 464"),
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=_floored(f32.div(AMAX, M)), step=ScaleStep.LOG2F_CEIL),
            scaled=_table(quotient) if fp4 else _e4m3(quotient),
            dequantize=f32.mul(Q, SF),
            element=ElementRule(nan=NanPolicy.MAX_POSITIVE) if fp4 else ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
        ),
        dtypes=("float32", "float16"),
        unspecified_nan_block_codes=True,
    )


_BLOCK_SCALE = _floored(f32.div(AMAX, const(6)))

PROFILES: tuple[Profile, ...] = (
    _mx("mxfp4"),
    _mx("mxfp8_e4m3"),
    Profile(
        id="nncf-3.4/nvfp4",
        formats=("nvfp4",),
        summary="elements divided by amax / 6 in float32, not by the stored scale; what rounds to zero becomes -0",
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        two_level=QuantizationSteps(
            scale=ScaleRule(value=_e4m3(f32.div(_BLOCK_SCALE, G)), step=ScaleStep.ENCODE),
            scaled=_table(f32.div(X, _BLOCK_SCALE)),
            dequantize=f32.mul(Q, f32.mul(SF, G)),
            element=ElementRule(nan=NanPolicy.MAX_POSITIVE),
        ),
        tensor=TensorRule(native=TensorScaleKind.DECODE, from_amax=_floored(f32.div(_floored(f32.div(TMAX, const(6))), const(448)))),
        dtypes=("float32", "float16"),
        unspecified_nan_block_codes=True,
    ),
)
