"""Descriptive profiles of ggml's C reference functions, as llama.cpp uses them to make model files.

Block scales are kept halved and values doubled; halving and doubling are exact.
"""

from __future__ import annotations

from mxspec.expressions import AMAX, SF, ZERO, Const, Expr, Q, X, absolute, const, exact, f32, if_equal, if_nan
from mxspec.profiles.schema import (
    AmaxNan,
    ElementRule,
    Evidence,
    ExponentUnderflow,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
)  # fmt: skip

_SOURCE = "ggml-org/ggml@d99724f:src/ggml-quants.c, src/ggml-impl.h (the same text in llama.cpp)"
_WITNESS = "ggml 0.21.0 (d99724f), libggml-base by GCC 12.2 -O3 without FMA on Linux x86-64: {} blocks, every byte"

#: What one code times the halved scale gives; byte FF is read as 2**128.
_HALF_OF_FF = Const(0x7F000000)
_HALF = if_nan(SF, _HALF_OF_FF, f32.mul(SF, const(0.5)))
_PRODUCT = f32.mul(f32.mul(Q, const(2)), _HALF)


def _search(product: Expr) -> ElementRule:
    """The first of 16 codes with the least float32 error; code 8 never wins against code 0."""
    return ElementRule(error=absolute(f32.sub(product, X)))


#: 7F counts as zero, as 00 does.
_NVFP4_PRODUCT = if_nan(SF, f32.mul(Q, ZERO), f32.mul(f32.mul(Q, const(2)), f32.mul(SF, const(0.5))))

PROFILES: tuple[Profile, ...] = (
    Profile(
        id="ggml-0.21/mxfp4",
        formats=("mxfp4",),
        summary="floor of a float32 log2, bytes wrap below zero; nearest code by float32 search: ties toward "
        "zero, no -0; "
        "NaN lanes are passed over and become 0",
        source=f"{_SOURCE}: quantize_row_mxfp4_ref, dequantize_row_mxfp4",
        evidence=Evidence.MEASURED,
        witness=_WITNESS.format("256,259"),
        one_level=QuantizationSteps(
            scale=ScaleRule(
                value=AMAX, step=ScaleStep.LOG2F_FLOOR, subtract_emax=True, underflow=ExponentUnderflow.WRAP, on_zero=0x00, on_inf=0x00
            ),
            scaled=exact.div(X, SF),
            # Code 8 is read as +0.
            dequantize=if_equal(Q, ZERO, ZERO, _PRODUCT),
            element=_search(_PRODUCT),
        ),
        amax_nan=AmaxNan.SKIP,
        dtypes=("float32",),
        unspecified=(
            "a block maximum below 2**-125: a negative float is cast to uint8, which C leaves undefined; x86-64 wraps",
            "an infinity in the block: the float Inf is cast to uint8, which C leaves undefined; 00 on x86-64",
            "a block maximum within a few ulps below a power of two: the last ulp of log2f decides",
            "a product beyond FLT_MAX (byte FD): a build with FMA sees it unrounded and takes another code",
        ),
    ),
    Profile(
        id="ggml-0.21/nvfp4",
        formats=("nvfp4",),
        summary="one level: ggml's own ue4m3 of amax / 6 (half up on one bit, 448 from 248 on); nearest code "
        "by float32 "
        "search: ties toward zero, no -0",
        source=f"{_SOURCE}: quantize_row_nvfp4_ref, dequantize_row_nvfp4",
        evidence=Evidence.MEASURED,
        witness=_WITNESS.format("251,947"),
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(AMAX, const(6)), step=ScaleStep.GGML_UE4M3, byte_range=(0x00, 0x7E), on_zero=0x00),
            scaled=exact.div(X, SF),
            dequantize=if_equal(Q, ZERO, ZERO, _NVFP4_PRODUCT),
            element=_search(_NVFP4_PRODUCT),
        ),
        amax_nan=AmaxNan.SKIP,
        dtypes=("float32",),
    ),
)
