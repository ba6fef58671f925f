"""NVIDIA ModelOpt 0.47 on the CPU: `MXFP4QTensor`, `MXFP8QTensor`, `NVFP4QTensor`.

16-bit inputs are widened: every step that rounds runs in float32.
"""

from __future__ import annotations

from mxspec.expressions import AMAX, ONE, SF, TMAX, ZERO, Const, Expr, G, Q, X, const, f32, if_equal, if_less, if_nan
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep, TensorRule, TensorScaleKind
from mxspec.rounding import NanPolicy, Rounding, ZeroPolicy

_SOURCE = "nvidia-modelopt 0.47.0 wheel: modelopt/torch/quantization/qtensor/"
_WITNESS = "nvidia-modelopt 0.47.0 on torch 2.13.0+cpu, Linux x86-64 (AVX-512, AVX2 and SSE dispatch): "
_INF = Const(0x7F800000)
_LOG2 = "the scale where amax / M lies a few ulps above a power of two: torch's log2 decides, on x86-64 as the correctly rounded one would"
_CAST = (
    "the byte 00 of a block with Inf or NaN: a float Inf or NaN is cast to uint8, which C++ leaves undefined; this is the answer of x86-64"
)
_NAN_SIGN = (
    "the sign bit of a NaN scale's byte (NaN in the block; a block of zeros under the tensor scale 0): by "
    "position in the tensor, as torch's SIMD and scalar code differ"
)
# Byte FF is 2**128, an infinity.
_E8M0 = f32.mul(Q, if_nan(SF, _INF, SF))

_NVFP4_DIVISOR = f32.mul(SF, G)
_NVFP4_ELEMENT = ElementRule(nan=NanPolicy.MAX_POSITIVE, zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW)


def _nvfp4(path: str, summary: str, source: str, value: Expr, tensor: TensorRule) -> Profile:
    return Profile(
        id=f"modelopt-0.47/nvfp4/{path}",
        formats=("nvfp4",),
        summary=f"{summary}; a scale of zero becomes 1, others are at least 2^-9; elements x / (sf * g); code 8 decodes to +0",
        source=_SOURCE + source,
        evidence=Evidence.MEASURED,
        witness=_WITNESS + "594,035 blocks in each input dtype",
        two_level=QuantizationSteps(
            scale=ScaleRule(value=value, step=ScaleStep.ENCODE, byte_range=(0x01, 0x7E)),
            scaled=f32.div(X, _NVFP4_DIVISOR),
            dequantize=f32.mul(f32.add(Q, ZERO), _NVFP4_DIVISOR),
            element=_NVFP4_ELEMENT,
        ),
        tensor=tensor,
        unspecified=(_NAN_SIGN,),
        unspecified_nan_block_codes=True,
    )


def _one_if_zero(value: Expr) -> Expr:
    return if_equal(value, ZERO, ONE, value)


_SIXTH = f32.div(AMAX, const(6))

PROFILES: tuple[Profile, ...] = (
    Profile(
        id="modelopt-0.47/mxfp4",
        formats=("mxfp4",),
        summary="float32 log2 of amax / 6 rounded up; ties toward zero; the sign bit is set unless x > 0; "
        "Inf or NaN loses the block (byte 00, codes 8)",
        source=_SOURCE + "mxfp4_tensor.py MXFP4QTensor",
        evidence=Evidence.MEASURED,
        witness=_WITNESS + "148,807 blocks in each input dtype",
        one_level=QuantizationSteps(
            scale=ScaleRule(value=_SIXTH, step=ScaleStep.LOG2F_CEIL, on_inf=0x00, on_nan=0x00),
            # The divisor is 2^e before it is stored: Inf or NaN where amax is.
            scaled=f32.div(X, if_less(AMAX, _INF, SF, AMAX)),
            dequantize=_E8M0,
            element=ElementRule(rounding=Rounding.RNZ, nan=NanPolicy.ZERO_NEGATIVE, zero=ZeroPolicy.MINUS_UNLESS_POSITIVE),
        ),
        unspecified=(_LOG2, _CAST),
    ),
    Profile(
        id="modelopt-0.47/mxfp8_e4m3",
        formats=("mxfp8_e4m3",),
        summary="float32 log2 of amax / 448 rounded up; elements x * 2^(127 - byte); a NaN in the block "
        "gives byte 00, so that its other elements saturate",
        source=_SOURCE + "mxfp8_tensor.py MXFP8QTensor",
        evidence=Evidence.MEASURED,
        witness=_WITNESS + "153,019 blocks in each input dtype",
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(AMAX, const(448)), step=ScaleStep.LOG2F_CEIL, on_inf=0xFE, on_nan=0x00),
            scaled=f32.mul(X, f32.div(ONE, SF)),
            dequantize=_E8M0,
            element=ElementRule(nan_own=NanPolicy.NAN),
        ),
        unspecified=(_LOG2,),
    ),
    _nvfp4(
        "dynamic",
        "scale amax / (6 * g)",
        "nvfp4_tensor.py NVFP4QTensor.quantize, get_weights_scaling_factor",
        _one_if_zero(f32.div(AMAX, f32.mul(const(6), G))),
        TensorRule(native=TensorScaleKind.DECODE, from_amax=f32.div(TMAX, const(2688))),
    ),
    _nvfp4(
        "static",
        "scale ((amax / 6) * 448) / (tmax / 6)",
        "nvfp4_tensor.py NVFP4QTensor.get_weights_scaling_factor_from_quantizer with a static quantizer",
        f32.div(f32.mul(_one_if_zero(_SIXTH), const(448)), f32.div(TMAX, const(6))),
        TensorRule(native=TensorScaleKind.AMAX, from_amax=TMAX, derived=((G, f32.div(TMAX, const(2688))),)),
    ),
)
