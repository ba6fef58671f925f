"""Descriptive profiles of AMD Quark: `downcast_to_mxfp_torch` in its scale modes, and `fake_quantize_mx`."""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import (
    AMAX,
    ONE,
    SF,
    ZERO,
    Const,
    Expr,
    M,
    Q,
    X,
    const,
    f32,
    if_equal,
    if_inf,
    if_less,
    if_nan,
    maximum,
)  # fmt: skip
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Rounding, ZeroPolicy

_RAN = "amd-quark 0.13, torch 2.13.0 CPU, x86-64: 0 of 2.2 million blocks of all its profiles differ"
_FP8 = ("mxfp8_e4m3", "mxfp8_e5m2")
_DOWNCAST = "amd-quark 0.13 wheel: quark/torch/kernel/mx/triton.py downcast_to_mxfp_torch, upcast_from_mxfp_torch"
_FAKE = (
    "amd-quark 0.13 wheel: quark/torch/kernel/hw_emulation/hw_emulation_interface.py fake_quantize_mx, "
    "quantization/utils.py even_round, csrc/mx/funcs.cuh"
)
_INFINITY = Const(0x7F800000)
_BYTE_0, _BYTE_1 = const(Fraction(1, 1 << 127)), const(Fraction(1, 1 << 126))

#: The scale is its byte << 23 as a float32: 00 is zero, FF is an infinity.
_SHIFTED = if_nan(SF, _INFINITY, if_equal(SF, _BYTE_0, ZERO, SF))
#: Elements are multiplied by 0 under the bytes 00 and FF.
_MULTIPLIER = if_nan(SF, ZERO, if_equal(SF, _BYTE_0, ZERO, f32.div(ONE, SF)))
_RATIO = f32.div(AMAX, M)

_INVALID = "the sign of a NaN made of 0 times Inf is that of the machine (set on x86-64)"

_SCALES: dict[str, tuple[ScaleRule, str]] = {
    "round-up": (
        # Adding 7fffff to the ratio's bits carries into the exponent: a subnormal ratio becomes 2^-126, a
        # NaN wraps to 0.
        ScaleRule(
            value=if_equal(_RATIO, ZERO, ZERO, maximum(_RATIO, _BYTE_1)),
            step=ScaleStep.ENCODE,
            rounding=Rounding.RTP,
            on_inf=0xFF,
            on_nan=0x00,
        ),
        "amax / max rounded up to a power of two; a NaN in the block gives the byte 00, which multiplies by zero",
    ),
    "round-down": (
        ScaleRule(value=_RATIO, step=ScaleStep.FLOOR, on_inf=0xFF, on_nan=0xFF),
        "the exponent field of amax / max: one too low for most maxima, so that they saturate",
    ),
}


def _downcast(mode: str, family: str, formats: tuple[str, ...]) -> Profile:
    scale, summary = _SCALES[mode]
    element = (
        ElementRule(rounding=Rounding.RNA, nan=NanPolicy.MAX_SIGNED, invalid_sign=1) if family == "mxfp4" else ElementRule(invalid_sign=1)
    )
    return Profile(
        id=f"quark-0.13/{family}/{mode}",
        formats=formats,
        summary=f"{summary}; {'ties away from zero' if family == 'mxfp4' else 'ties to even'}",
        source=f"{_DOWNCAST}, DequantScaleRoundingMode.{mode.replace('-', '_').upper()}",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(scale=scale, scaled=f32.mul(X, _MULTIPLIER), dequantize=f32.mul(Q, _SHIFTED), element=element),
        unspecified=(_INVALID,),
        unspecified_nan_block_codes=True,
    )


def _even_scale(rounds_to_infinity_from: Fraction) -> ScaleRule:
    """Quark's `even_round`: a maximum that the half-up step carries to 2^128 is infinite."""
    top = const(rounds_to_infinity_from * (1 << 127))
    return ScaleRule(value=if_less(AMAX, top, AMAX, if_nan(AMAX, AMAX, _INFINITY)), step=ScaleStep.HALF_UP, subtract_emax=True, on_inf=0xFE)


def _fake(fmt: str, mantissa_bits: int) -> Profile:
    fp8 = fmt in _FP8
    scaled: Expr = f32.div(X, SF)
    if not fp8:
        # An Inf stays one; the packer cuts it to an exponent field of ones: 2^emax.
        inf = const(16 if fmt == "mxfp6_e3m2" else 4)
        scaled = if_inf(scaled, if_less(X, ZERO, f32.sub(ZERO, inf), inf), scaled)
    return Profile(
        id=f"quark-0.13/{fmt}/fake-even",
        formats=(fmt,),
        summary="half-up scale, elements divided by it, ties to even; "
        + ("fp8 by torch's cast" if fp8 else "no negative zero; an Inf stays an Inf, which the packer cuts to its fields"),
        source=_FAKE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=_even_scale(2 - Fraction(1, 2 << mantissa_bits)),
            scaled=scaled,
            dequantize=f32.mul(Q, SF),
            element=ElementRule(zero=ZeroPolicy.SIGNED if fp8 else ZeroPolicy.PLUS),
        ),
        unspecified=() if fp8 else ("an Inf has no code in this format: the fake path returns floats, and the code is the packer's",),
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = (
    *(_downcast(mode, family, formats) for mode in _SCALES for family, formats in (("mxfp4", ("mxfp4",)), ("mxfp8", _FP8))),
    Profile(
        id="quark-0.13/mxfp4/even",
        formats=("mxfp4",),
        summary="half-up scale (fake_quantize_mx's), elements times its reciprocal, ties away from zero",
        source=f"{_DOWNCAST}, DequantScaleRoundingMode.EVEN",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=_even_scale(Fraction(7, 4)),
            scaled=f32.mul(X, f32.div(ONE, SF)),
            dequantize=f32.mul(Q, _SHIFTED),
            element=ElementRule(rounding=Rounding.RNA, nan=NanPolicy.MAX_SIGNED, invalid_sign=1),
        ),
        unspecified=(_INVALID,),
        unspecified_nan_block_codes=True,
    ),
    *(_fake(fmt, bits) for fmt, bits in (("mxfp4", 1), ("mxfp6_e2m3", 3), ("mxfp6_e3m2", 2), ("mxfp8_e4m3", 3), ("mxfp8_e5m2", 2))),
)
