"""Descriptive profiles of triton_kernels (gpt-oss; transformers, vLLM, SGLang): its Torch reference of the kernels.

The scale is rounded on its bits as in AMD Quark, whose copy of this function is older: elements are rounded to nearest even
here. ROUND_DOWN divides by the power of two below the element's largest value.
"""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import (
    AMAX,
    FLT_MAX,
    ONE,
    SF,
    ZERO,
    Const,
    Expr,
    M,
    Q,
    X,
    clamp,
    const,
    exact,
    f32,
    if_equal,
    if_inf,
    if_nan,
    maximum,
)
from mxspec.formats import get_block
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Rounding

_SOURCE = (
    "tokenspeed-triton-kernels 1.0.0.post20260510 wheel: triton_kernels/numerics_details/mxfp.py downcast_to_mxfp_torch, "
    "upcast_from_mxfp_torch"
)
_RAN = "tokenspeed-triton-kernels 1.0.0.post20260510, torch 2.13.0 on the CPU, Linux x86-64: reports/peers/triton-kernels.json"
_INFINITY = Const(0x7F800000)
_BYTE_0, _BYTE_1 = const(Fraction(1, 1 << 127)), const(Fraction(1, 1 << 126))
#: The scale is its byte << 23 as a float32: 00 is zero, FF is an infinity.
_SHIFTED = if_nan(SF, _INFINITY, if_equal(SF, _BYTE_0, ZERO, SF))
_MULTIPLIER = if_nan(SF, ZERO, if_equal(SF, _BYTE_0, ZERO, f32.div(ONE, SF)))
_INVALID = "the sign of a NaN made of 0 times Inf is that of the machine (set on x86-64)"


def _scale(mode: str, fmt: str) -> ScaleRule:
    if mode == "round-up":
        ratio = f32.div(AMAX, M)
        return ScaleRule(
            value=if_equal(ratio, ZERO, ZERO, maximum(ratio, _BYTE_1)),
            step=ScaleStep.ENCODE,
            rounding=Rounding.RTP,
            on_inf=0xFF,
            on_nan=0x00,
        )
    power = const(1 << get_block(fmt).element.emax)
    return ScaleRule(value=f32.div(AMAX, power), step=ScaleStep.FLOOR, on_inf=0xFF, on_nan=0xFF)


def _limited(value: Expr) -> Expr:
    """What the upcast returns: no infinity, but those that are codes."""
    return if_inf(Q, Q, clamp(value, exact.sub(ZERO, FLT_MAX), FLT_MAX))


def _mx(mode: str, fmt: str) -> Profile:
    fp4 = fmt == "mxfp4"
    return Profile(
        id=f"triton-kernels-1.0/{fmt}/{mode}",
        formats=(fmt,),
        summary=(
            "amax / max rounded up to a power of two on its bits; a NaN in the block gives the byte 00, which multiplies by zero"
            if mode == "round-up"
            else "the exponent field of amax over the largest power of two; byte 00 multiplies by zero"
        ),
        source=f"{_SOURCE}, DequantScaleRoundingMode.{mode.replace('-', '_').upper()}",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=_scale(mode, fmt),
            scaled=f32.mul(X, _MULTIPLIER),
            dequantize=_limited(f32.mul(Q, _SHIFTED)),
            element=ElementRule(nan=NanPolicy.MAX_SIGNED, invalid_sign=1) if fp4 else ElementRule(invalid_sign=1),
        ),
        unspecified=(_INVALID,),
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = (
    *(_mx(mode, fmt) for mode in ("round-up", "round-down") for fmt in ("mxfp4", "mxfp8_e4m3", "mxfp8_e5m2")),
    Profile(
        id="triton-kernels-1.0/nvfp4",
        formats=("nvfp4",),
        summary="one level: scale e4m3(amax / 6), elements times 1 / sf, zeros under a scale of zero",
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(AMAX, const(6)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, if_equal(SF, ZERO, ZERO, f32.div(ONE, SF))),
            dequantize=_limited(f32.mul(Q, SF)),
            element=ElementRule(nan=NanPolicy.MAX_SIGNED, invalid_sign=1),
        ),
        unspecified=(_INVALID,),
        unspecified_nan_block_codes=True,
    ),
)
