"""Descriptive profiles of FlashInfer: its CUDA kernels (a copy of TensorRT-LLM's) and its CuTe DSL kernels.

The CUDA ones are compiled with -use_fast_math: products, divisions, comparisons, minima flush subnormals, `__fdiv_rn`
included (it becomes div.rn.ftz.f32). The DSL ones flush only in the approximate reciprocal. Inputs are float16 or
bfloat16. Whole kernels need compute capability 10.0; the CUDA functions were compiled for 9.0 and run with the e2m1
conversion done in software, and built by g++ as they stand.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from mxspec.expressions import (
    AMAX,
    FLT_MAX,
    ONE,
    ONE_SIXTH,
    SF,
    TMAX,
    ZERO,
    Expr,
    Q,
    S,
    X,
    const,
    f32,
    fmax,
    fmin,
    ftz,
    if_equal,
    if_nan,
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
from mxspec.rounding import NanPolicy, Rounding

_SOURCE = (
    "flashinfer-ai/flashinfer@fb28d724:csrc/nv_internal/tensorrt_llm/kernels/quantization_utils.cuh {}; "
    "flags: flashinfer/jit/core.py gen_jit_spec"
)
_DSL_SOURCE = "flashinfer-ai/flashinfer@fb28d724:flashinfer/quantization/quantization_cute_dsl_utils.py, cute_dsl/fp4_common.py"
_DTYPES = ("float16", "bfloat16")
_TABLE = "the approximate reciprocal on Blackwell: the table is sm_90's"
_WITNESS = "the function compiled for sm_90 with -use_fast_math{}, on an H200: {} blocks, every byte"
#: Instructions of the chip were computed otherwise: reports/vendor/device.json.
_COMPILED = "built by g++ 12 for x86-64: {:,} blocks, every byte; "
_SOFTWARE = ", its e2m1 conversion in software"
_TWO_TO_MINUS_127, _TWO_TO_127 = const(Fraction(1, 1 << 127)), const(1 << 127)


def _if_zero(value: Expr, then: Expr, otherwise: Expr) -> Expr:
    """A comparison with zero that counts subnormals as zeros."""
    return if_equal(ftz.round(value), ZERO, then, otherwise)


def _nvfp4(path: str, summary: str, value: Expr, multiplier: Expr, *unspecified: str) -> Profile:
    return Profile(
        id=f"flashinfer-0.6.18/nvfp4/{path}",
        formats=("nvfp4",),
        summary=summary,
        source=_SOURCE.format("cvt_warp_fp16_to_fp4"),
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format(32_992) + _WITNESS.format(_SOFTWARE, "311,296"),
        two_level=QuantizationSteps(
            scale=ScaleRule(value=value, step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=ftz.mul(X, _if_zero(AMAX, ZERO, multiplier)),
            dequantize=f32.mul(Q, f32.div(SF, S)),
        ),
        tensor=TensorRule(native=TensorScaleKind.ENCODE, from_amax=f32.div(const(2688), TMAX)),
        amax_nan=AmaxNan.SKIP_UNLESS_ODD,
        dtypes=_DTYPES,
        unspecified=unspecified,
    )


_MXFP4_VALUE = ftz.mul(AMAX, rcp_approx(const(6)))
# exp2f(127 - byte) is ex2.approx.ftz, exact for whole numbers; byte 00 gives 1, bytes FE and FF a flushed power.
_MXFP4_POWER = if_nan(SF, ZERO, if_equal(SF, _TWO_TO_MINUS_127, ONE, if_equal(SF, _TWO_TO_127, ZERO, f32.div(ONE, SF))))


def _dsl_nvfp4(path: str, summary: str, value: Expr, multiplier: Expr, *unspecified: str) -> Profile:
    cuda = _nvfp4(path, summary, value, multiplier, *unspecified)
    assert cuda.two_level is not None
    return replace(
        cuda,
        source=f"{_DSL_SOURCE} _nvfp4_standard_quant_from_amax",
        evidence=Evidence.READ,
        witness="",
        two_level=replace(cuda.two_level, scaled=f32.mul(X, multiplier)),
        amax_nan=AmaxNan.SKIP_UNLESS_ALL,
    )


#: 2^(127 - byte) by its exponent bits; bytes 00 and FE give 0.
_DSL_POWER = if_equal(SF, _TWO_TO_MINUS_127, ZERO, if_equal(SF, _TWO_TO_127, ZERO, f32.div(ONE, SF)))


def _dsl_mx(fmt: str, family: str, value: Expr, scaled: Expr, *unspecified: str) -> Profile:
    return Profile(
        id=f"flashinfer-0.6.18/{family}/cute-dsl",
        formats=(fmt,),
        summary=f"amax {'* rcp(6)' if fmt == 'mxfp4' else '* fl(1/448)'} rounded up to a power of two, NaN giving FE; "
        "blocks of bytes 00 and FE are multiplied by 0",
        source=f"{_DSL_SOURCE} float_to_ue8m0_fast, ue8m0_to_inv_scale_fast",
        evidence=Evidence.READ,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=value, step=ScaleStep.ENCODE, rounding=Rounding.RTP, on_nan=0xFE),
            scaled=scaled,
            dequantize=f32.mul(Q, SF),
            element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
        ),
        amax_nan=AmaxNan.SKIP_UNLESS_ALL,
        dtypes=_DTYPES,
        unspecified=unspecified,
    )


PROFILES: tuple[Profile, ...] = (
    _nvfp4(
        "default",
        "scale S * (amax * rcp(6)), elements times rcp(sf * rcp(S)) unless amax is 0; a scale of byte 00 turns zeros into 7",
        ftz.mul(S, ftz.mul(AMAX, rcp_approx(const(6)))),
        rcp_approx(ftz.mul(SF, rcp_approx(S))),
        _TABLE,
    ),
    _nvfp4(
        "exact",
        "FLASHINFER_DISABLE_FP4_QUANT_FAST_MATH=1: Transformer Engine's order with subnormals flushed",
        _if_zero(AMAX, ZERO, ftz.mul(AMAX, ftz.mul(S, ONE_SIXTH))),
        fmin(ftz.div(ONE, ftz.mul(SF, ftz.div(ONE, S))), FLT_MAX),
    ),
    Profile(
        id="flashinfer-0.6.18/mxfp4",
        formats=("mxfp4",),
        summary="amax * rcp(6) rounded up to a power of two; a block of byte 00 is multiplied by 1, one of byte FE by 0",
        source=_SOURCE.format("cvt_warp_fp16_to_fp4 with UE8M0_SF, exp2f_rcp"),
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format(22_488) + _WITNESS.format(_SOFTWARE, "49,152"),
        one_level=QuantizationSteps(
            scale=ScaleRule(value=_MXFP4_VALUE, step=ScaleStep.ENCODE, rounding=Rounding.RTP),
            scaled=ftz.mul(X, _if_zero(_MXFP4_VALUE, ZERO, _MXFP4_POWER)),
            dequantize=f32.mul(Q, SF),
        ),
        amax_nan=AmaxNan.SKIP_UNLESS_ODD,
        dtypes=_DTYPES,
    ),
    Profile(
        id="flashinfer-0.6.18/mxfp8",
        formats=("mxfp8_e4m3",),
        summary="amax * rcp(448) rounded up to a power of two; byte 00 counts as zero; NaN is clamped to 448 (7E)",
        source=_SOURCE.format("cvt_warp_fp16_to_mxfp8"),
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format(22_506) + _WITNESS.format("", "49,152"),
        one_level=QuantizationSteps(
            scale=ScaleRule(value=ftz.mul(AMAX, rcp_approx(const(448))), step=ScaleStep.ENCODE, rounding=Rounding.RTP),
            scaled=fmax(fmin(ftz.mul(X, _if_zero(SF, ZERO, rcp_approx(SF))), const(448)), const(-448)),
            dequantize=f32.mul(Q, SF),
            element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
        ),
        amax_nan=AmaxNan.SKIP_UNLESS_ODD,
        dtypes=_DTYPES,
        unspecified=(_TABLE,),
    ),
    _dsl_nvfp4(
        "cute-dsl",
        "the scale as `default` without flushing; elements times rcp(sf * rcp(S)), zero where the scale's byte is 00",
        f32.mul(S, f32.mul(AMAX, rcp_approx(const(6)))),
        if_equal(SF, ZERO, ZERO, rcp_approx(f32.mul(SF, rcp_approx(S)))),
        _TABLE,
    ),
    _dsl_nvfp4(
        "cute-dsl-exact",
        "FLASHINFER_DISABLE_FP4_QUANT_FAST_MATH=1: Transformer Engine's order, subnormals kept; zeros where amax is 0",
        if_equal(AMAX, ZERO, ZERO, f32.mul(AMAX, f32.mul(S, ONE_SIXTH))),
        if_equal(AMAX, ZERO, ZERO, fmin(f32.div(ONE, f32.mul(SF, f32.div(ONE, S))), FLT_MAX)),
    ),
    _dsl_mx("mxfp4", "mxfp4", f32.mul(AMAX, rcp_approx(const(6))), f32.mul(X, _DSL_POWER)),
    _dsl_mx("mxfp8_e4m3", "mxfp8", f32.mul(AMAX, f32.div(ONE, const(448))), fmax(fmin(f32.mul(X, _DSL_POWER), const(448)), const(-448))),
)
