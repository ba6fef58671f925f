"""Descriptive profiles of LightX2V's kernels for sm_120.

They are compiled without fast-math flags; reciprocals are approximate and flush. An e8m0 byte 00 is read back
as 2^-127, which is not zero, and its flushed reciprocal is Inf: the zeros of such a block become NaN. The
kernels were not run whole: their functions were compiled for sm_90, and built by g++.
"""

from __future__ import annotations

from mxspec.expressions import AMAX, ONE_SIXTH, SF, TMAX, ZERO, Expr, Q, S, X, const, f32, if_equal, rcp_approx
from mxspec.profiles.schema import (
    AmaxNan,
    ElementRule,
    Evidence,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
)  # fmt: skip
from mxspec.rounding import NanPolicy, Rounding

_SOURCE = "ModelTC/LightX2V@f8aee98b:lightx2v_kernel/csrc/gemm/"
_DTYPES = ("float16", "bfloat16")
_WITNESS = "the function compiled for sm_90{}, on an H200: {} blocks, every byte"
#: Instructions of the chip were computed otherwise: reports/vendor/device.json.
_COMPILED = "built by g++ 12 for x86-64: {:,} blocks, every byte; "
_SOFTWARE = ", its element conversion in software"
_TABLE = "the approximate reciprocal on Blackwell: the table is sm_90's"


def _mx(fmt: str, value: Expr, file: str, blocks: int) -> Profile:
    return Profile(
        id=f"lightx2v-0.0.1/{fmt}",
        formats=(fmt,),
        summary="the ratio rounded up to a power of two; a block of byte 00, one of zeros included, gets NaN "
        "for its zeros "
        "and the largest codes for the rest",
        source=_SOURCE + file,
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format(blocks) + _WITNESS.format("" if fmt == "mxfp8_e4m3" else _SOFTWARE, "49,152"),
        one_level=QuantizationSteps(
            scale=ScaleRule(value=value, step=ScaleStep.ENCODE, rounding=Rounding.RTP),
            scaled=f32.mul(X, rcp_approx(SF)),
            dequantize=f32.mul(Q, SF),
            element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
        ),
        amax_nan=AmaxNan.SKIP_UNLESS_ALL,
        dtypes=_DTYPES,
        unspecified=(_TABLE,),
    )


PROFILES: tuple[Profile, ...] = (
    Profile(
        id="lightx2v-0.0.1/nvfp4",
        formats=("nvfp4",),
        summary="scale S * (amax * fl(1/6)), elements times S * rcp(sf), zero where the scale's byte is 00",
        source=_SOURCE + "nvfp4_quant_kernels_sm120.cu cvt_warp_fp16_to_fp4",
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format(32_992) + _WITNESS.format(_SOFTWARE, "311,296"),
        two_level=QuantizationSteps(
            scale=ScaleRule(value=f32.mul(S, f32.mul(AMAX, ONE_SIXTH)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, if_equal(SF, ZERO, ZERO, f32.mul(S, rcp_approx(SF)))),
            dequantize=f32.mul(Q, f32.div(SF, S)),
        ),
        tensor=TensorRule(native=TensorScaleKind.ENCODE, from_amax=f32.div(const(2688), TMAX)),
        amax_nan=AmaxNan.SKIP_UNLESS_ALL,
        dtypes=_DTYPES,
        unspecified=(_TABLE,),
    ),
    _mx("mxfp4", f32.mul(AMAX, ONE_SIXTH), "mxfp4_quant_kernels_sm120.cu cvt_warp_fp16_to_fp4", 22_508),
    _mx("mxfp6_e3m2", f32.div(AMAX, const(28)), "mxfp6_quant_kernels_sm120.cu cvt_warp_fp16_to_fp6", 22_496),
    _mx("mxfp8_e4m3", f32.div(AMAX, const(448)), "mxfp8_quant_kernels_sm120.cu cvt_warp_fp16_to_fp8", 22_522),
)
