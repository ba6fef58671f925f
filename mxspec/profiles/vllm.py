"""Descriptive profiles of vLLM: its NVFP4 and MXFP4 kernels, and its torch code that runs on a CPU.

The kernels are compiled without fast-math flags; only their reciprocals are approximate. Whole kernels
were not run; their functions were compiled for sm_90, and built by g++.
"""

from __future__ import annotations

from dataclasses import replace
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
    G,
    M,
    Q,
    S,
    X,
    bf16,
    clamp,
    const,
    f32,
    if_equal,
    if_nan,
    maximum,
    rcp_approx,
)  # fmt: skip
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
from mxspec.rounding import NanPolicy, ZeroPolicy

_SOURCE = "vllm 0.33.0 sdist: "
_SIX = const(6)
_MIN_NORMAL = const(Fraction(1, 1 << 126))
_TWO_TO_MINUS_127 = const(Fraction(1, 1 << 127))
#: float32(1e8)
_HUNDRED_MILLION = Const(0x4CBEBC20)
_WITNESS = "vllm 0.33.0 on torch 2.13.0+cpu, Linux x86-64 (AVX-512)"
_KERNEL_WITNESS = "the function compiled for sm_90, its e2m1 conversion in software, on an H200: {} blocks, every byte"
#: Instructions of the chip were computed otherwise: reports/vendor/device.json.
_COMPILED = "built by g++ 12 for x86-64: {:,} blocks, every byte; "
_TABLE = "the approximate reciprocal on Blackwell: the table is sm_90's"

#: The caller computes the encode scale; vLLM's own calibration takes 448 * 6 / tmax.
_TENSOR = TensorRule(native=TensorScaleKind.ENCODE, from_amax=f32.div(const(2688), TMAX))


def _reciprocal(value: Expr) -> Expr:
    """`get_reciprocal` of a tensor: 1 / (v + (v == 0) * 1e8)."""
    return f32.div(ONE, f32.add(value, if_equal(value, ZERO, _HUNDRED_MILLION, ZERO)))


#: The emulation's arithmetic.
_EMULATED = QuantizationSteps(
    scale=ScaleRule(
        value=clamp(f32.mul(S, f32.mul(AMAX, ONE_SIXTH)), const(-448), const(448)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)
    ),
    scaled=f32.mul(X, _reciprocal(f32.mul(SF, _reciprocal(S)))),
    dequantize=f32.mul(Q, f32.div(SF, S)),
    element=ElementRule(zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW, nan=NanPolicy.ZERO),
)

PROFILES: tuple[Profile, ...] = (
    Profile(
        id="vllm-0.33/nvfp4/kernel",
        formats=("nvfp4",),
        summary="scale S * (amax * rcp(6)), elements times rcp(sf * rcp(S)), zero where the scale's byte is 00",
        source=_SOURCE + "csrc/quantization/fp4/nvfp4_utils.cuh cvt_warp_fp16_to_fp4",
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format(32_992) + _KERNEL_WITNESS.format("622,592"),
        two_level=QuantizationSteps(
            scale=ScaleRule(value=f32.mul(S, f32.mul(AMAX, rcp_approx(_SIX))), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, if_equal(SF, ZERO, ZERO, rcp_approx(f32.mul(SF, rcp_approx(S))))),
            dequantize=f32.mul(Q, f32.div(SF, S)),
        ),
        tensor=_TENSOR,
        amax_nan=AmaxNan.SKIP_UNLESS_ALL,
        dtypes=("float16", "bfloat16"),
        unspecified=(_TABLE,),
    ),
    Profile(
        id="vllm-0.33/mxfp4/experts",
        formats=("mxfp4",),
        summary="amax rounded half up to the element's precision, then floor; a block of byte 00 is quantized to zeros",
        source=_SOURCE + "csrc/quantization/fp4/nvfp4_utils.cuh cvt_warp_fp16_to_fp4 with UE8M0_SF, mxfp4_experts_quant.cu",
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format(22_504) + _KERNEL_WITNESS.format("49,152"),
        one_level=QuantizationSteps(
            scale=ScaleRule(value=AMAX, step=ScaleStep.HALF_UP, subtract_emax=True, on_inf=0xFD, on_nan=0x00),
            scaled=f32.mul(X, if_equal(SF, _TWO_TO_MINUS_127, ZERO, f32.div(ONE, SF))),
            dequantize=f32.mul(Q, SF),
        ),
        amax_nan=AmaxNan.SKIP_UNLESS_ALL,
        dtypes=("float16", "bfloat16"),
    ),
    Profile(
        id="vllm-0.33/nvfp4/emulation",
        formats=("nvfp4",),
        summary="scale S * (amax * fl(1/6)); reciprocals are exact, that of a zero is 1e-8; -0 becomes +0",
        source=_SOURCE + "vllm/model_executor/layers/quantization/utils/nvfp4_emulation_utils.py ref_nvfp4_quant",
        evidence=Evidence.MEASURED,
        witness=f"{_WITNESS}: 518,980 blocks",
        two_level=_EMULATED,
        tensor=_TENSOR,
        unspecified=(
            "a NaN lane, and every lane under a NaN scale: the emulation returns NaN, which has no code",
            "the sign bit of a NaN scale byte",
        ),
        unspecified_nan_block_codes=True,
    ),
    Profile(
        id="vllm-0.33/nvfp4/dequantize",
        formats=("nvfp4",),
        summary="dequantize_to_dtype: code * (sf * g); its quantizer is the emulation with S = 1 / g",
        source=_SOURCE + "vllm/model_executor/layers/quantization/utils/nvfp4_emulation_utils.py dequantize_to_dtype",
        evidence=Evidence.MEASURED,
        witness=f"{_WITNESS}: every code under every byte, 19 scales",
        two_level=replace(_EMULATED, dequantize=f32.mul(Q, f32.mul(SF, G))),
        tensor=TensorRule(native=TensorScaleKind.DECODE, from_amax=f32.div(TMAX, const(2688)), derived=((S, f32.div(ONE, G)),)),
        unspecified=("quantizing with a decode scale: vLLM has no such call",),
        unspecified_nan_block_codes=True,
    ),
    Profile(
        id="vllm-0.33/mxfp8/torch",
        formats=("mxfp8_e4m3",),
        summary="float32 log2 of max(amax, 2^-126) / 448 rounded up; elements x / 2^e; a NaN in the block gives byte 00 over codes 7F",
        source=_SOURCE + "vllm/model_executor/layers/quantization/utils/mxfp8_utils.py _mxfp8_e4m3_quantize_torch",
        evidence=Evidence.MEASURED,
        witness=f"{_WITNESS}: 768,777 blocks, every byte and value",
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(maximum(AMAX, _MIN_NORMAL), M), step=ScaleStep.LOG2F_CEIL, on_nan=0x00),
            scaled=f32.div(X, if_nan(AMAX, AMAX, SF)),
            # Byte FF is 2**128, which is Inf; values come back as bfloat16.
            dequantize=bf16.mul(Q, if_nan(SF, Const(0x7F800000), SF)),
        ),
        unspecified=(
            "the scale where amax / 448 lies a few ulps above a power of two: torch's log2 there",
            "an infinity: torch 2.13 casts it to 448 (7E)",
            "the byte 00 of a block with NaN: a float NaN is cast to uint8, which C++ leaves undefined; x86-64's answer",
        ),
    ),
)
