"""FP8 in groups of 128, in whole rows and tensors, as libraries quantize it: a floor, a division, and elements under the scale.

They differ in what is floored (the maximum, or the scale) and where, in whether 448 divides or its reciprocal multiplies, in
whether elements are divided by the scale or multiplied by its reciprocal, and in what a NaN does. Code of torch computes
`tensor / 448` on a GPU as a product with the reciprocal, so that one line has two results, and `448 / tensor` everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
    bf16,
    ceil_pow2,
    clamp,
    const,
    exact,
    f16,
    f32,
    fmax,
    fmin,
    if_equal,
    if_inf,
    if_nan,
    maximum,
    rcp_approx,
)  # fmt: skip
from mxspec.formats import FLOAT32
from mxspec.profiles.schema import AmaxNan, ElementRule, Evidence, Kind, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Overflow

#: Codes of float32 scales.
_LEAST_NORMAL, _INFINITY = 0x00800000, 0x7F800000
#: float32 of 1e-4, of 1e-10, of 1e-12, of 1 / (448 * 512) and of 1 / 448.
_FLOOR_4, _FLOOR_10, _FLOOR_12 = Const(0x38D1B717), Const(0x2EDBE6FF), Const(0x2B8CBCCC)
_LEAST_SCALE, _RECIPROCAL = Const(0x36924925), Const(0x3B124925)
_DIVIDE, _MULTIPLY = f32.div(X, SF), f32.mul(X, f32.div(ONE, SF))
#: 0 * Inf on x86 is a negative NaN; under a scale that is NaN every lane is that scale's.
_X86 = ElementRule(under_nan_scale=0x7F, invalid_sign=1)
_CHIP = "Triton 3.6.0 and torch 2.11.0+cu130, an NVIDIA H100"
_TORCH = "torch 2.13.0+cpu, Linux x86-64"


def _quotient(floor: Expr) -> Expr:
    """A maximum that is not below a floor, divided by the largest value."""
    return f32.div(maximum(AMAX, floor), M)


@dataclass(frozen=True, slots=True)
class _Group:
    """One library's rule for float32 scales, or for powers of two."""

    id: str
    summary: str
    source: str
    #: The scale before it is stored.
    value: Expr
    scaled: Expr
    witness: str = ""
    element: ElementRule = field(default_factory=ElementRule)
    formats: tuple[str, ...] = ("fp8_e4m3-128-f32",)
    amax_nan: AmaxNan = AmaxNan.PROPAGATE
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    unspecified: tuple[str, ...] = ()
    #: How a power of two is made; None: the scale is a float32.
    power: ScaleRule | None = None
    #: The profile of which it is the path for 16-bit inputs.
    variant_of: str | None = None
    #: Whether the sign of NaN codes under a NaN scale hangs on the shape of the call: torch's maxima have NaN of either sign.
    nan_signs_open: bool = False

    def as_profile(self) -> Profile:
        """The profile."""
        stored = ScaleRule(value=self.value, step=ScaleStep.ENCODE, byte_range=(0, _INFINITY))
        return Profile(
            id=self.id, kind=Kind.DESCRIPTIVE, formats=self.formats, summary=self.summary, source=self.source, witness=self.witness,
            evidence=Evidence.MEASURED if self.witness else Evidence.READ, amax_nan=self.amax_nan,
            dtypes=self.dtypes, variant_of=self.variant_of,
            unspecified=self.unspecified, unspecified_nan_block_codes=self.nan_signs_open,
            one_level=QuantizationSteps(
                scale=self.power or stored, scaled=self.scaled, dequantize=f32.mul(Q, SF), element=self.element
            ),
        )  # fmt: skip


_DEEPGEMM = _Group(
    "deepgemm-2.6/fp8-128/float32",
    "a maximum below 1e-4 counts as 1e-4; amax / 448 in float32; elements times 1 / scale",
    "deepseek-ai/DeepGEMM@54e22612:deep_gemm/utils/math.py per_token_cast_to_fp8, per_channel_cast_to_fp8, ceil_to_ue8m0",
    _quotient(_FLOOR_4), _MULTIPLY, element=_X86,
    witness=f"deep_gemm/utils/math.py at 54e22612 on {_TORCH}: reports/peers/deepgemm.json",
)  # fmt: skip
_ON_GPU = f32.mul(maximum(AMAX, _FLOOR_4), _RECIPROCAL)
_DEEPGEMM_GPU = replace(
    _DEEPGEMM,
    id="deepgemm-2.6/fp8-128/float32-cuda",
    summary="a maximum below 1e-4 counts as 1e-4; amax times float32(1 / 448); elements times 1 / scale",
    value=_ON_GPU,
    element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
    witness=f"deep_gemm/utils/math.py at 54e22612 on {_CHIP}: reports/gpu/deepgemm-cuda.json",
)
_NATIVE = _Group(
    "vllm-0.33/fp8-128/native",
    "amax / 448 in float32, not below 1 / (448 * 512); elements divided by the scale and clamped",
    "vllm 0.33.0 wheel: vllm/model_executor/layers/quantization/input_quant_fp8.py QuantFP8._quantize_group_native",
    maximum(f32.div(AMAX, M), _LEAST_SCALE), _DIVIDE, element=ElementRule(invalid_sign=1),
    witness=f"vllm 0.33.0 on {_TORCH}: reports/peers/vllm-emulation.json",
)  # fmt: skip


#: Triton's x / y of float32 on the chip: x times an approximate reciprocal. A clamp by arguments of the kernel makes -448 of a
#: NaN, one by constants 448.
_APPROXIMATE = f32.mul(X, rcp_approx(SF))
_SGLANG = _Group(
    "sglang-0.5/fp8-128/triton",
    "the largest of 1e-10 and what is no NaN, times float32(1 / 448); elements times the approximate 1 / scale; NaN becomes -448",
    "sglang 0.5.23 wheel: sglang/kernels/ops/quantization/fp8_kernel.py _per_token_group_quant_8bit, _per_token_group_quant_8bit_colmajor",
    f32.mul(maximum(AMAX, _FLOOR_10), _RECIPROCAL), fmin(fmax(_APPROXIMATE, const(-448)), const(448)), amax_nan=AmaxNan.SKIP,
    witness=f"sglang 0.5.23 on {_CHIP}: reports/gpu/sglang-fp8-cuda.json",
)  # fmt: skip
_TRITON = replace(
    _SGLANG,
    id="vllm-0.33/fp8-128/triton",
    summary=_SGLANG.summary.replace("-448", "448"),
    source="vllm 0.33.0 wheel: vllm/model_executor/layers/quantization/utils/fp8_utils.py _per_token_group_quant_fp8",
    scaled=fmax(fmin(_APPROXIMATE, const(448)), const(-448)),
    witness=f"vllm 0.33.0 on {_CHIP}: reports/gpu/vllm-fp8-triton-cuda.json",
)
#: Fused with SiLU times up.
_SWIGLU = replace(
    _SGLANG,
    id="sglang-0.5/fp8-128/swiglu",
    summary="the largest of what is no NaN, times float32(1 / 448), not below 1e-12; elements divided by the scale; NaN becomes -448",
    source="sglang 0.5.23 wheel: sglang/kernels/ops/diffusion/quantization/swiglu_fp8_rowwise_triton.py; a scale for each row",
    value=maximum(f32.mul(AMAX, _RECIPROCAL), _FLOOR_12), scaled=fmin(fmax(_DIVIDE, const(-448)), const(448)), witness="",
)  # fmt: skip
_TRITON_POWERS = replace(
    _TRITON,
    id="vllm-0.33/fp8-128/triton-ue8m0",
    summary="the largest of 1e-10 and what is no NaN, times float32(1 / 448), its float32 log2 rounded up; elements divided by the scale; NaN becomes 448",
    source="vllm 0.33.0: vllm/model_executor/layers/quantization/utils/fp8_utils.py _silu_mul_per_token_group_quant_fp8_colmajor, use_ue8m0",
    power=ScaleRule(value=_TRITON.value, step=ScaleStep.LOG2F_CEIL, byte_range=(_LEAST_NORMAL, FLOAT32.max_code), on_inf=_INFINITY),
    scaled=fmax(fmin(_DIVIDE, const(448)), const(-448)), witness="",
)  # fmt: skip


#: Kernels in CUDA, and HIP, of groups of 16-bit numbers. A clamp makes -448 of a NaN.
_VLLM_GROUPS = "vllm-project/vllm@0f5257e2:csrc/quantization/w8a8/fp8/per_token_group_quant.cu {}"
_CUDA = _Group(
    "vllm-0.33/fp8-128/cuda",
    "the largest of 1e-10 and what is no NaN, / 448 in float32; elements divided by the scale, clamped so that NaN becomes -448",
    _VLLM_GROUPS.format("ComputeGroupScale, QuantizeGroup"),
    f32.div(maximum(AMAX, _FLOOR_10), M), fmin(fmax(_DIVIDE, const(-448)), const(448)), amax_nan=AmaxNan.SKIP,
)  # fmt: skip
_UP = maximum(f32.div(maximum(AMAX, _FLOOR_10), M), _FLOOR_10)
_CUDA_POWERS = replace(
    _CUDA,
    id="vllm-0.33/fp8-128/cuda-ue8m0",
    summary="the largest of 1e-10 and what is no NaN, / 448 in float32, not below 1e-10, up to a power of two; elements times 1 / scale; NaN becomes -448",
    source=_VLLM_GROUPS.format("per_token_group_quant_8bit_register_kernel; its clamp, log2f and exp2f elsewhere"),
    value=_UP,
    power=ScaleRule(value=_UP, step=ScaleStep.CEIL, byte_range=(_LEAST_NORMAL, FLOAT32.max_code), on_inf=_INFINITY),
    scaled=fmin(fmax(_MULTIPLY, const(-448)), const(448)),
    dtypes=("float16", "bfloat16"),
)
_PACKED = replace(
    _CUDA_POWERS,
    id="vllm-0.33/fp8-128/packed-ue8m0",
    source=_VLLM_GROUPS.format("per_token_group_quant_8bit_packed_register_kernel"),
    formats=("fp8_e4m3-128",),
    power=ScaleRule(value=_UP, step=ScaleStep.CEIL, byte_range=(0x01, 0xFE), on_inf=0xFF),
    scaled=fmin(fmax(if_inf(AMAX, f32.mul(X, ZERO), _MULTIPLY), const(-448)), const(448)),
)
#: What a shift by the negative of 128 makes of the reciprocal of a scale that is infinite.
_MINUS_INFINITY = Const(0xFF800000)
_INVERSE_10 = f32.mul(maximum(AMAX, _FLOOR_10), _RECIPROCAL)
_SGLANG_BYTES = replace(
    _PACKED,
    id="sglang-0.5/fp8-128/cuda-ue8m0",
    summary="the largest of 1e-10 and what is no NaN, times float32(1 / 448), up to a power of two; elements times 1 / scale; NaN becomes -448",
    source="sgl-project/sglang@037cd6ea:sgl-kernel/csrc/gemm/per_token_group_quant_8bit_v2.cu, column-major scales; also with silu and mul",
    value=_INVERSE_10,
    power=ScaleRule(value=_INVERSE_10, step=ScaleStep.CEIL, byte_range=(0x01, 0xFE), on_inf=0xFF),
    scaled=fmin(fmax(if_inf(AMAX, f32.mul(X, _MINUS_INFINITY), _MULTIPLY), const(-448)), const(448)),
)
_BY_RATIO = fmin(fmax(f32.mul(X, f32.div(M, maximum(AMAX, _FLOOR_10))), const(-448)), const(448))
_SGLANG_CUDA = replace(
    _SGLANG_BYTES,
    id="sglang-0.5/fp8-128/cuda",
    summary="the largest of 1e-10 and what is no NaN, times float32(1 / 448); elements times 448 / that maximum; NaN becomes -448",
    source="sgl-project/sglang@037cd6ea:sgl-kernel/csrc/gemm/per_token_group_quant_8bit_v2.cu; also with silu and mul",
    scaled=_BY_RATIO,
    formats=("fp8_e4m3-128-f32",),
    power=None,
)
_SGLANG_ROWS = replace(
    _SGLANG_CUDA,
    id="sglang-0.5/fp8-128/cuda-ue8m0-rows",
    summary=_SGLANG_CUDA.summary.replace("; elements", ", up to a power of two; elements"),
    source="sgl-project/sglang@037cd6ea:sgl-kernel/csrc/gemm/per_token_group_quant_8bit_v2.cu, scale_ue8m0 with row-major scales",
    power=ScaleRule(value=_INVERSE_10, step=ScaleStep.CEIL, byte_range=(_LEAST_NORMAL, FLOAT32.max_code), on_inf=_INFINITY),
)


def _te_scale(rounded: Expr) -> Expr:
    """What Transformer Engine multiplies by, whose reciprocal it stores; rounded: 448 / amax, as it is rounded."""
    return if_nan(AMAX, ONE, if_inf(AMAX, ONE, if_equal(AMAX, ZERO, ONE, rounded)))


_TE_RATIO = f32.div(M, AMAX)
#: Infinity becomes the largest float32.
_TE_FINITE = if_inf(_TE_RATIO, Const(FLOAT32.max_code), _TE_RATIO)
#: Its significand is cut off.
_TE_POWER = f32.round(if_equal(ceil_pow2(_TE_FINITE), _TE_FINITE, _TE_FINITE, exact.mul(ceil_pow2(_TE_FINITE), const(0.5))))
_TE = _Group(
    "te-2.20/fp8-128/float32",
    "448 / amax in float32, the largest float32 for infinity, 1 for a maximum of zero, infinity or NaN; stored is its reciprocal; elements times it",
    "NVIDIA/TransformerEngine@01c24fe0:transformer_engine/common/recipe/recipe_common.cuh compute_scale_from_amax",
    f32.div(ONE, _te_scale(_TE_FINITE)), f32.mul(X, _te_scale(_TE_FINITE)), dtypes=("float32",),
)  # fmt: skip
_TE_POWERS = replace(
    _TE,
    id="te-2.20/fp8-128/power-of-two",
    summary="448 / amax in float32, down to a power of two, 1 for a maximum of zero, infinity or NaN; stored is its reciprocal; elements times it",
    value=f32.div(ONE, _te_scale(_TE_POWER)),
    scaled=f32.mul(X, _te_scale(_TE_POWER)),
)
_TRANSFORMERS_SCALE = if_nan(AMAX, ONE, if_equal(AMAX, ZERO, ONE, f32.mul(M, f32.div(ONE, AMAX))))
_TRANSFORMERS = _Group(
    "transformers-5.23/fp8-128/float32",
    "448 * (1 / amax) in float32, 1 for a maximum of zero or NaN; stored is its reciprocal; elements times it",
    "transformers 5.23.0 wheel: transformers/integrations/finegrained_fp8.py Fp8Quantize._quantize_one",
    f32.div(ONE, _TRANSFORMERS_SCALE), f32.mul(X, _TRANSFORMERS_SCALE), element=ElementRule(invalid_sign=1),
)  # fmt: skip


_ROW = ("fp8_e4m3-row-f32",)
_TORCHAO = _Group(
    "torchao-0.18/fp8-row/torch",
    "amax / 448 in float32, 0 for zeros; elements divided by the scale and clamped, so that a row of zeros becomes NaN",
    "torchao 0.18.0 wheel: torchao/quantization/quant_primitives.py _choose_scale_float8, _quantize_affine_float8; rows and tensors",
    f32.div(AMAX, M), _DIVIDE, element=ElementRule(invalid_sign=1), formats=_ROW, dtypes=("float32",), nan_signs_open=True,
    witness=f"torchao 0.18.0 on {_TORCH}: reports/peers/torchao.json",
)  # fmt: skip
_WHOLE_NATIVE = replace(
    _NATIVE, id="vllm-0.33/fp8-row/native", scaled=_MULTIPLY, formats=_ROW, nan_signs_open=True,
    summary="amax / 448 in float32, not below 1 / (448 * 512); elements times 1 / scale, clamped",
    source="vllm 0.33.0 wheel: vllm/model_executor/layers/quantization/input_quant_fp8.py QuantFP8.forward_native; tokens and tensors",
)  # fmt: skip


def _in_16_bits(group: _Group) -> tuple[_Group, ...]:
    """And its paths for 16-bit inputs: torch divides in the input's dtype."""
    return (group, *(
        replace(
            group, id=f"{group.id}/{dtype}", summary=group.summary.replace("float32", dtype), value=domain.div(AMAX, M), dtypes=(dtype,),
            variant_of=group.id,
        )
        for dtype, domain in (("float16", f16), ("bfloat16", bf16))
    ))  # fmt: skip


_VLLM_CUDA = (
    "vllm-project/vllm@094be773:csrc/libtorch_stable/quantization/w8a8/fp8/common.cu {}, @0f5257e2:csrc/quantization/w8a8/fp8/common.cuh"
)
_TOKEN_CUDA = _Group(
    "vllm-0.33/fp8-row/cuda",
    "the largest of what is no NaN, / 448 in float32, not below 1 / (448 * 512); elements divided by the scale, clamped so that NaN becomes 448",
    _VLLM_CUDA.format("dynamic_per_token_scaled_fp8_quant_kernel_strided"),
    maximum(f32.div(AMAX, M), _LEAST_SCALE), fmax(fmin(_DIVIDE, const(448)), const(-448)), formats=_ROW, amax_nan=AmaxNan.SKIP,
)  # fmt: skip
_TENSOR_CUDA = replace(
    _TOKEN_CUDA, id="vllm-0.33/fp8-tensor/cuda", formats=("fp8_e4m3-tensor-f32",),
    summary="the largest of what is no NaN, / 448 in float32; elements times 1 / scale, clamped so that NaN, and a tensor of zeros, becomes 448",
    source=_VLLM_CUDA.format("segmented_max_reduction_strided, scaled_fp8_quant_kernel_strided_dynamic"),
    value=f32.div(AMAX, M), scaled=fmax(fmin(_MULTIPLY, const(448)), const(-448)),
)  # fmt: skip
_SGLANG_TORCH = _Group(
    "sglang-0.5/fp8-row/torch",
    "a maximum below 1e-12 counts as 1e-12; amax / 448 in float32; elements divided by the scale and clamped",
    "sglang 0.5.23 wheel: sglang/kernels/ops/quantization/fp8_kernel.py _native_dynamic_per_token_quant_fp8, and per_tensor; ROCm without AITER",
    _quotient(_FLOOR_12), _DIVIDE, formats=_ROW, dtypes=("float32",),
)  # fmt: skip
#: What multiplies is stored as its reciprocal: 448 over the maximum, or, as torch has `448 / tensor`, times its reciprocal.
_INVERSES = tuple(
    _Group(
        name, f"{words} in float32, a maximum below 1e-12 as 1e-12; stored is its reciprocal; elements times it", source,
        f32.div(ONE, times), f32.mul(X, times), formats=_ROW, element=ElementRule(invalid_sign=1), dtypes=("float32",),
    )
    for name, words, times, source in (
        ("torchao-0.18/fp8-row/triton", "448 / amax", f32.div(M, maximum(AMAX, _FLOOR_12)),
         "torchao 0.18.0 wheel: torchao/prototype/moe_training/kernels/float8_rowwise.py; its products take the reciprocal"),
        ("fbgemm-gemm/fp8-row/torch", "448 * (1 / amax)", f32.mul(M, f32.div(ONE, maximum(AMAX, _FLOOR_12))),
         "pytorch/FBGEMM@58046582:fbgemm_gpu/experimental/gemm/triton_gemm/fp8_gemm.py quantize_fp8_row without Triton"),
    )
)  # fmt: skip
_TE_CURRENT = replace(
    _TE,
    id="te-2.20/fp8-tensor/current",
    summary=_TE.summary.replace("zero, infinity or NaN", "zero or infinity; NaN is passed over"),
    source=f"{_TE.source}; @0064fbd6:transformer_engine/common/recipe/current_scaling.cu amax_kernel",
    formats=("fp8_e4m3-tensor-f32",),
    amax_nan=AmaxNan.SKIP,
)


#: torch divides by a number on a GPU so (measured for DeepGEMM).
_INVERSE = f32.mul(AMAX, _RECIPROCAL)


def _on_gpu(group: _Group, value: Expr, ending: str = "-cuda") -> _Group:
    """torch's code on a GPU."""
    words = group.summary.replace("/ 448 in float32", "times float32(1 / 448)")
    return replace(
        group, id=f"{group.id}{ending}", summary=words, source=f"{group.source}; on a GPU", value=value, witness="",
        element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
    )  # fmt: skip


def _of(group: _Group, what: str) -> _Group:
    """The same rule for a scale of the tensor, or of 128."""
    return replace(group, id=group.id.replace("-row", f"-{what}"), formats=tuple(f.replace("-row", f"-{what}") for f in group.formats))


#: The largest values of other elements.
_TOPS = {"e5m2": "57344", "e4m3fnuz": "240", "e5m2fnuz": "57344"}


def _in(group: _Group, element: str, top: str) -> _Group:
    return replace(
        group, id=f"{group.id}/{element}", summary=group.summary.replace("448", top),
        formats=tuple(f.replace("e4m3", element) for f in group.formats),
    )  # fmt: skip


def _to_224(group: _Group) -> _Group:
    """On an MI300, whose largest value is 240, of which vLLM uses 224."""
    value = maximum(f32.div(AMAX, const(224)), f32.div(ONE, const(224 * 512)))
    scaled = clamp(group.scaled, const(-224), const(224))
    if group is _CUDA:
        value, scaled = f32.div(maximum(AMAX, _FLOOR_10), const(224)), fmin(fmax(_DIVIDE, const(-224)), const(224))
    return replace(
        _in(group, "e4m3fnuz", "224"), value=value, scaled=scaled,
        element=ElementRule(), witness="", source=f"{group.source}; utils/quant_utils.py get_fp8_min_max",
        unspecified=(),
    )  # fmt: skip


_GROUPS = (
    replace(
        _DEEPGEMM,
        id="deepgemm-2.6/fp8-128/ue8m0",
        summary="a maximum below 1e-4 counts as 1e-4; amax / 448 in float32, up to a power of two within bytes 01 to FE; elements times 1 / scale",
        formats=("fp8_e4m3-128",),
        power=ScaleRule(value=_DEEPGEMM.value, step=ScaleStep.CEIL, byte_range=(0x01, 0xFE), on_nan=0xFE),
        element=ElementRule(),
        unspecified=("an infinity, which torch 2.13 casts to 448 and torch 2.11 to NaN",),
    ),
    replace(
        _DEEPGEMM_GPU,
        id="deepgemm-2.6/fp8-128/ue8m0-cuda",
        summary="a maximum below 1e-4 counts as 1e-4; amax times float32(1 / 448), up to a power of two within bytes 01 to FE; elements times 1 / scale",
        formats=("fp8_e4m3-128",),
        power=ScaleRule(value=_ON_GPU, step=ScaleStep.CEIL, byte_range=(0x01, 0xFE), on_nan=0xFE),
        element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE, overflow=Overflow.OWN),
    ),
    _DEEPGEMM,
    _DEEPGEMM_GPU,
    _NATIVE,
    replace(
        _NATIVE,
        id="vllm-0.33/fp8-128/native-ue8m0",
        summary="amax / 448 in float32, not below 1 / (448 * 512), its float32 log2 rounded up; elements divided by the scale and clamped",
        power=ScaleRule(
            value=_NATIVE.value, step=ScaleStep.LOG2F_CEIL, byte_range=(_LEAST_NORMAL, FLOAT32.max_code), on_inf=_INFINITY
        ),
    ),
    _CUDA,
    _CUDA_POWERS,
    _PACKED,
    _SGLANG_BYTES,
    _SGLANG_CUDA,
    _SGLANG_ROWS,
    _TRITON,
    _TRITON_POWERS,
    _SGLANG,
    _SWIGLU,
    _TE,
    _TE_POWERS,
    _TRANSFORMERS,
    replace(
        _TRANSFORMERS,
        id="transformers-5.23/fp8-128/ue8m0",
        summary="1 / (448 * (1 / amax)) in float32, 1 for a maximum of zero or NaN, its float32 log2 rounded up; elements times 1 / scale",
        formats=("fp8_e4m3-128",),
        power=ScaleRule(value=_TRANSFORMERS.value, step=ScaleStep.LOG2F_CEIL, byte_range=(0x01, 0xFE)),
        scaled=_MULTIPLY,
    ),
    _in(_TE, "e5m2", _TOPS["e5m2"]),
    _in(_TE_POWERS, "e5m2", _TOPS["e5m2"]),
    *(
        made
        for group in (_TORCHAO, *(_in(_TORCHAO, element, top) for element, top in _TOPS.items())) for what in ("row", "tensor", "128")
        for made in _in_16_bits(_of(group, what))
    ),
    _WHOLE_NATIVE,
    _of(_WHOLE_NATIVE, "tensor"),
    _TOKEN_CUDA,
    _TENSOR_CUDA,
    *(
        _of(group, what)
        for group in (
            _on_gpu(_TORCHAO, _INVERSE), _on_gpu(_WHOLE_NATIVE, maximum(_INVERSE, _LEAST_SCALE)), _SGLANG_TORCH,
            _on_gpu(_SGLANG_TORCH, f32.mul(maximum(AMAX, _FLOOR_12), _RECIPROCAL), "-rocm"),
        )
        for what in ("row", "tensor")
    ),
    *_INVERSES,
    _TE_CURRENT,
    _in(_TE_CURRENT, "e5m2", _TOPS["e5m2"]),
    *map(_to_224, (_CUDA, _NATIVE, _WHOLE_NATIVE, _of(_WHOLE_NATIVE, "tensor"))),
)  # fmt: skip

PROFILES = tuple(group.as_profile() for group in _GROUPS)
