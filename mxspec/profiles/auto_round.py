"""Descriptive profiles of auto-round (Intel): fake quantizers and checkpoint export, RTN, without tuning."""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import (
    AMAX,
    ONE,
    ONE_SIXTH,
    SF,
    TMAX,
    ZERO,
    Const,
    Expr,
    Q,
    S,
    X,
    absolute,
    const,
    f32,
    if_equal,
    if_inf,
    if_less,
    if_nan,
)  # fmt: skip
from mxspec.profiles.schema import (
    ElementRule,
    Evidence,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
)  # fmt: skip
from mxspec.rounding import NanPolicy, ZeroPolicy

_RAN = "auto-round 0.16.1, torch 2.13.0 CPU, x86-64: 0 of 1.9 million blocks of all its profiles differ"
_INFINITY, _NAN = Const(0x7F800000), Const(0x7FC00000)

_LAST_ULP = (
    "the shared exponent comes from torch.log2 in float32: just below a power of two another library's last "
    "bit of log2 may give the byte below",
)
_CAST_OF_NAN = (
    "a block that holds a NaN or an Inf: its exponent is NaN, whose cast to uint8 C leaves undefined (00 on "
    "x86-64), and its elements' sign is that of a NaN made by torch.pow, which depends on how many blocks a call has",
)


def _mx_scale(for_nan: int) -> ScaleRule:
    # A block of zeros takes log2 as 1; an infinite maximum becomes NaN in (floor(l) - l) + l.
    return ScaleRule(
        value=if_equal(AMAX, ZERO, const(2), AMAX), step=ScaleStep.LOG2F_FLOOR, subtract_emax=True, on_inf=for_nan, on_nan=for_nan
    )


_MX_SCALED = f32.div(X, SF)


def _through_weight(top: Expr, least: Expr, lost: Expr) -> Expr:
    """Scaled elements whose dequantized weight survives float32.

    A NaN or an Inf makes the block NaN. Where log2 of amax rounds up to 128, an element that rounds to 2^128
    under the scale `top` (scaled magnitudes from `least` on) is an Inf in the weight, which becomes `lost`.
    """
    kept = if_equal(SF, top, if_less(absolute(_MX_SCALED), least, _MX_SCALED, lost), _MX_SCALED)
    return if_nan(AMAX, _NAN, if_inf(AMAX, _NAN, kept))


#: Checkpoint scales are decoded as 2 ** (byte - 127): FF is an infinity.
_CHECKPOINT_SCALE = if_nan(SF, _INFINITY, SF)


def _reciprocal(a: Expr) -> Expr:
    """auto-round's `get_reciprocal`: 0 of 0."""
    return if_equal(a, ZERO, ZERO, f32.div(ONE, a))


def _mx_export(fmt: str, scaled: Expr, dtypes: tuple[str, ...], nan: NanPolicy, narrow: str) -> Profile:
    return Profile(
        id=f"auto-round-0.16/{fmt}/export",
        formats=(fmt,),
        summary="the fake path's bytes as packed into a checkpoint; a block with a NaN or an Inf becomes scale 00 and one code",
        source="auto-round 0.16.1 wheel: utils/model_free_utils.py _quantize_weight_mxfp (opt-RTN off), "
        "export_to_autoround/qlinear_fp.py QuantLinear.pack",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=_mx_scale(0x00),
            scaled=scaled,
            dequantize=f32.mul(Q, _CHECKPOINT_SCALE),
            element=ElementRule(
                add_half_floor_f32=True,
                zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW,
                nan=nan if fmt == "mxfp4" else NanPolicy.MAX_POSITIVE,
                nan_own=nan if fmt != "mxfp4" else NanPolicy.NAN,
                invalid_sign=1,
            ),
        ),
        dtypes=dtypes,
        unspecified=(*_LAST_ULP, *_CAST_OF_NAN, narrow),
        unspecified_nan_input_scales=True,
    )


_NV_SCALE = ScaleRule(value=f32.mul(S, f32.mul(AMAX, ONE_SIXTH)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E))
_NV_FACTOR = _reciprocal(f32.mul(SF, _reciprocal(S)))
_NV_SCALED = f32.mul(X, _NV_FACTOR)
_NV_TENSOR = TensorRule(native=TensorScaleKind.ENCODE, from_amax=f32.mul(const(2688), _reciprocal(TMAX)))
_NV_SIGN = ("the sign bit of a NaN scale byte is that of a NaN made by the machine (0 times Inf: FF on x86)",)


def _nvfp4(path: str, summary: str, source: str, scaled: Expr, dequantize: Expr, zero: ZeroPolicy, *open_points: str) -> Profile:
    return Profile(
        id=f"auto-round-0.16/nvfp4/{path}",
        formats=("nvfp4",),
        summary=summary,
        source=source,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        two_level=QuantizationSteps(
            scale=_NV_SCALE, scaled=scaled, dequantize=dequantize, element=ElementRule(zero=zero, nan=NanPolicy.ZERO, under_nan_scale=0x00)
        ),
        tensor=_NV_TENSOR,
        unspecified=(*_NV_SIGN, *open_points),
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = (
    Profile(
        id="auto-round-0.16/mx/fake",
        formats=("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8"),
        summary="floor of a float32 log2, elements by floor(v + 0.5) with ties taken back to even; an Inf "
        "makes the whole block NaN, a zero block has the scale of amax 2",
        source="auto-round 0.16.1 wheel: data_type/mxfp.py quant_mx, quant_element",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=_mx_scale(0xFF),
            scaled=_MX_SCALED,
            dequantize=f32.mul(Q, SF),
            element=ElementRule(add_half_floor_f32=True, zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW, under_nan_scale=0x00),
        ),
        unspecified=_LAST_ULP,
    ),
    _mx_export(
        "mxfp4",
        # An Inf is equally far from every value, so it becomes a zero of its sign.
        _through_weight(const(1 << 126), const(3.5), f32.mul(X, const(Fraction(1, 1 << 140)))),
        ("float32", "bfloat16"),
        NanPolicy.ZERO_NEGATIVE,
        "float16 weights: the dequantized weight is rounded to float16 before it is packed, so small blocks lose elements",
    ),
    _mx_export(
        "mxfp8_e4m3",
        # An Inf saturates to 448.
        _through_weight(const(1 << 120), const(248), f32.mul(_MX_SCALED, const(4))),
        ("float32",),
        NanPolicy.NAN_NEGATIVE,
        "16-bit weights: the dequantized weight is rounded to its own dtype before it is packed, so tiny blocks lose elements",
    ),
    _nvfp4(
        "fake",
        "scale S * (amax * fl(1/6)), elements times 1 / (sf * (1 / S)), both reciprocals 0 of 0",
        "auto-round 0.16.1 wheel: data_type/nvfp.py nv_fp4, ref_nvfp4_quant",
        _NV_SCALED,
        f32.mul(Q, _reciprocal(_NV_FACTOR)),
        ZeroPolicy.PLUS_UNLESS_UNDERFLOW,
    ),
    _nvfp4(
        "export",
        "the fake path's scale and magnitudes as packed into a checkpoint, without negative zeros; dequantized (q * (1 / S)) * sf",
        "auto-round 0.16.1 wheel: nv_fp4, then export_to_autoround/qlinear_fp.py QuantLinear.pack; experimental/qmodules/nvfp4.py",
        # The weight is the element times the factor's reciprocal, then times the factor again: 0 where that
        # is Inf.
        if_inf(_NV_FACTOR, ZERO, _NV_SCALED),
        f32.mul(f32.mul(Q, _reciprocal(S)), SF),
        ZeroPolicy.PLUS,
        "16-bit weights under a tensor scale that is not their own: the dequantized weight is rounded to "
        "their dtype before it is packed, and what underflows there is lost",
    ),
)
