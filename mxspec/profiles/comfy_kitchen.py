"""Descriptive profiles of comfy-kitchen (ComfyUI): its eager backend's NVFP4 and MXFP8.

The container puts the first of two codes in the high nibble and the scales in tiles of 128 x 4; the arithmetic is described
here. Under the byte 00 of MXFP8 the scale is zero: zeros become NaN, everything else the largest code.
"""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import AMAX, SF, TMAX, ZERO, Const, Expr, G, M, Q, X, clamp, const, f32, if_equal, if_nan, maximum, minimum
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep, TensorRule, TensorScaleKind
from mxspec.rounding import NanPolicy

_SOURCE = "comfy-kitchen 0.2.40 wheel: comfy_kitchen/backends/eager/quantization.py"
_RAN = "comfy-kitchen 0.2.40, torch 2.13.0 on the CPU, Linux x86-64: reports/peers/comfy-kitchen.json"
_BYTE_0 = const(Fraction(1, 1 << 127))
_INFINITY = Const(0x7F800000)
#: The scale is its byte << 23 as a float32: 00 is zero, FF is an infinity.
_SHIFTED = if_nan(SF, _INFINITY, if_equal(SF, _BYTE_0, ZERO, SF))
_TOTAL = f32.mul(G, SF)


def _limited(value: Expr, largest: int) -> Expr:
    return clamp(value, const(-largest), const(largest))


PROFILES: tuple[Profile, ...] = (
    Profile(
        id="comfy-kitchen-0.2/nvfp4/eager",
        formats=("nvfp4",),
        summary="scale e4m3((amax / 6) / g), elements x / (g * sf); zeros where that product is zero",
        source=f"{_SOURCE} quantize_nvfp4, dequantize_nvfp4; float_utils.py _f32_to_floatx_unpacked",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        two_level=QuantizationSteps(
            scale=ScaleRule(value=minimum(f32.div(f32.div(AMAX, const(6)), G), const(448)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=if_equal(_TOTAL, ZERO, ZERO, _limited(f32.div(X, _TOTAL), 6)),
            dequantize=f32.mul(Q, _TOTAL),
            element=ElementRule(nan=NanPolicy.AS_NUMBER, invalid_sign=1),
        ),
        tensor=TensorRule(native=TensorScaleKind.DECODE, from_amax=f32.div(TMAX, const(2688))),
        unspecified=("the sign of a NaN that arithmetic makes is that of the machine (set on x86-64)",),
        unspecified_nan_block_codes=True,
    ),
    Profile(
        id="comfy-kitchen-0.2/mxfp8_e4m3/eager",
        formats=("mxfp8_e4m3",),
        summary="ceil of a float32 log2 of amax / 448; byte 00 for NaN and Inf, too, and under it zeros become NaN",
        source=f"{_SOURCE} quantize_mxfp8, dequantize_mxfp8; float_utils.py e8m0_to_f32",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=maximum(f32.div(AMAX, M), _BYTE_0), step=ScaleStep.LOG2F_CEIL, on_inf=0x00, on_nan=0x00),
            scaled=if_equal(AMAX, ZERO, ZERO, _limited(f32.div(X, _SHIFTED), 448)),
            dequantize=f32.mul(Q, _SHIFTED),
            element=ElementRule(invalid_sign=1),
        ),
        unspecified=("the sign of a NaN that arithmetic makes, and the integer that NaN and Inf are cast to, are those of x86-64",),
        unspecified_nan_block_codes=True,
    ),
)
