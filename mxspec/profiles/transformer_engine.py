"""Descriptive profiles of NVIDIA Transformer Engine: its CUDA kernels, by release, and its Python reference.

The kernels pass over NaN when they look for a maximum (fmaxf, max.xorsign.abs) and turn a NaN lane into the
largest code; the reference lets NaN spread. Kernels need compute capability 10.0 and were not run on a chip: their
source was built by g++ and run on a CPU, those fused with a Hadamard transform excepted. The 16 x 16 form takes the
tile's maximum; a row-scaled tensor is one tensor for each row.
"""

from __future__ import annotations

from mxspec.expressions import (
    AMAX,
    FLT_MAX,
    ONE,
    ONE_SIXTH,
    SF,
    TMAX,
    ZERO,
    Const,
    Expr,
    Leaf,
    M,
    Q,
    S,
    X,
    absolute,
    bf16,
    const,
    f32,
    fmin,
    if_equal,
    minimum,
    rcp_approx,
    substitute,
)  # fmt: skip
from mxspec.profiles.schema import (
    Alternative,
    AmaxNan,
    ElementRule,
    ErrorNorm,
    Evidence,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
    Transform,
    TransformKind,
)  # fmt: skip
from mxspec.rounding import NanPolicy, Rounding, ZeroPolicy

_REPO = "NVIDIA/TransformerEngine@d0067d0d:transformer_engine"
_V210 = "NVIDIA/TransformerEngine@769ed778 (v2.10):transformer_engine"
_REFERENCE = f"{_REPO}/pytorch/custom_recipes/reference_nvfp4.py NVFP4QuantizerRef._quantize_blockwise_reference"
_REFERENCE_2025 = f"{_V210}/pytorch/custom_recipes/quantization_nvfp4.py NVFP4QuantizerRef._quantize_blockwise_reference"
_WITNESS = "on torch 2.13.0+cpu, Linux x86-64 (AVX-512)"
#: A whole kernel's source, with instructions of the chip computed otherwise: reports/vendor/device.json.
_COMPILED = "the kernel of {} built by g++ 12 for x86-64: {:,} blocks, every byte"
_NAN_BYTE = "the sign bit of a NaN scale byte: FF in the vector body of torch.min, 7F in its scalar tail"

_SIX = const(6)
_BF16_MAX = Const(0x7F7F0000)
#: float32(1 / 2688) and float32(1 / 1536)
_RECIPROCAL = {448: Const(0x39C30C31), 256: Const(0x3A2AAAAB)}

_KERNEL_ELEMENT = ElementRule()
#: The reference compares: -0 and NaN match no negative class and stay 0; what rounds to zero from below is 8.
_REFERENCE_ELEMENT = ElementRule(nan=NanPolicy.ZERO, zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW)


def _one_if_zero(value: Expr) -> Expr:
    return if_equal(value, ZERO, ONE, value)


def _encode_scale(largest: int, *, kernel: bool) -> Expr:
    """S from tmax. The reference has no case for tmax = 0: S is FLT_MAX there."""
    quotient = f32.div(const(6 * largest), TMAX)
    if kernel:
        return if_equal(TMAX, ZERO, ONE, _one_if_zero(fmin(quotient, FLT_MAX)))
    return _one_if_zero(minimum(quotient, FLT_MAX))


def _tensor(*, kernel: bool, largest: int = 448) -> TensorRule:
    return TensorRule(
        native=TensorScaleKind.AMAX,
        from_amax=TMAX,
        derived=((S, _encode_scale(largest, kernel=kernel)),),
        amax_nan=AmaxNan.SKIP if kernel else AmaxNan.PROPAGATE,
    )


_BY_MULTIPLYING = f32.mul(AMAX, f32.mul(S, ONE_SIXTH))
_BY_DIVIDING = f32.mul(f32.div(AMAX, _SIX), S)


def _scale(value: Expr, *, kernel: bool) -> ScaleRule:
    low = fmin(value, FLT_MAX) if kernel else minimum(value, FLT_MAX)
    return ScaleRule(value=low, step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E))


def _scaled(*, kernel: bool) -> Expr:
    reciprocal = f32.div(ONE, f32.mul(SF, f32.div(ONE, S)))
    return f32.mul(X, fmin(reciprocal, FLT_MAX) if kernel else minimum(reciprocal, FLT_MAX))


def _dequantize(largest: int = 448) -> Expr:
    return f32.mul(Q, f32.mul(f32.mul(SF, TMAX), _RECIPROCAL[largest]))


def _without_tensor_scale(steps: QuantizationSteps) -> QuantizationSteps:
    """The kernel called without a maximum: S is 1."""
    one: dict[Leaf, Expr] = {S: ONE}
    return QuantizationSteps(
        scale=ScaleRule(value=substitute(steps.scale.value, one), step=steps.scale.step, byte_range=steps.scale.byte_range),
        scaled=substitute(steps.scaled, one),
        dequantize=f32.mul(Q, SF),
        element=steps.element,
    )


def _nvfp4(
    name: str,
    summary: str,
    source: str,
    two_level: QuantizationSteps,
    *,
    kernel: bool,
    largest: int = 448,
    witness: str = "",
    evidence: Evidence = Evidence.MEASURED,
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16"),
    one_level: QuantizationSteps | None = None,
    unspecified: tuple[str, ...] = (),
) -> Profile:
    return Profile(
        id=name,
        formats=("nvfp4",),
        summary=summary,
        source=source,
        evidence=evidence,
        witness=witness,
        one_level=one_level,
        two_level=two_level,
        tensor=_tensor(kernel=kernel, largest=largest),
        amax_nan=AmaxNan.SKIP if kernel else AmaxNan.PROPAGATE,
        dtypes=dtypes,
        unspecified=unspecified if kernel else (_NAN_BYTE, *unspecified),
        unspecified_scale_sign_bit=not kernel,
    )


def _plain(value: Expr, *, kernel: bool) -> QuantizationSteps:
    return QuantizationSteps(
        scale=_scale(value, kernel=kernel),
        scaled=_scaled(kernel=kernel),
        dequantize=_dequantize(),
        element=_KERNEL_ELEMENT if kernel else _REFERENCE_ELEMENT,
    )


def _fast_math() -> QuantizationSteps:
    """The tuned 1D kernel: bf16(min(S / sf, BF16_MAX)), and fma(x, that, +0), which turns -0 into +0."""
    coefficient = bf16.round(fmin(f32.div(S, SF), _BF16_MAX))
    return QuantizationSteps(
        scale=_scale(_BY_MULTIPLYING, kernel=True),
        scaled=if_equal(X, ZERO, ZERO, f32.mul(X, coefficient)),
        dequantize=_dequantize(),
        element=_KERNEL_ELEMENT,
    )


def _after_hadamard(*, fast: bool) -> QuantizationSteps:
    """The fused kernel on its transformed values; NaN spreads here."""
    product = f32.mul(SF, f32.div(ONE, S))
    reciprocal = rcp_approx(product) if fast else f32.div(ONE, product)
    return QuantizationSteps(
        scale=ScaleRule(value=_BY_MULTIPLYING, step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
        scaled=f32.mul(X, minimum(reciprocal, FLT_MAX)),
        dequantize=_dequantize(),
        element=_KERNEL_ELEMENT,
    )


def _hadamard(*, fast: bool) -> Profile:
    path = "rht-fastmath" if fast else "rht"
    return Profile(
        id=f"te-2.14/nvfp4/kernel-{path}",
        formats=("nvfp4",),
        summary="the columnwise kernel fused with the Hadamard transform, from the transformed values on"
        + ("; approximate reciprocal, values not rounded to bfloat16" if fast else "; values rounded to bfloat16; NaN spreads"),
        source=f"{_REPO}/common/hadamard_transform/hadamard_transform_cast_fusion.cu",
        evidence=Evidence.READ,
        two_level=_after_hadamard(fast=fast),
        tensor=TensorRule(
            native=TensorScaleKind.AMAX,
            from_amax=TMAX,
            derived=((S, if_equal(TMAX, ZERO, ONE, _one_if_zero(minimum(f32.div(const(2688), TMAX), FLT_MAX)))),),
            amax_nan=AmaxNan.SKIP,
        ),
        dtypes=("float32",) if fast else ("bfloat16",),
        transform=Transform(kind=TransformKind.RANDOM_HADAMARD, size=16, columnwise=True),
        unspecified=(
            "the transform itself: 16 products are summed in an order that the tensor core chooses",
            *(("the approximate reciprocal on Blackwell: the table is sm_90's",) if fast else ()),
        ),
    )


def _four_over_six(*, kernel: bool, squared: bool, scaled_domain: bool, largest: int) -> Profile:
    """Candidates 1.5 * base (map to 4) and base (map to 6), base = (amax / 6) * S; a tie keeps 6."""
    base = _BY_DIVIDING

    def rule(value: Expr) -> ScaleRule:
        low = fmin(value, const(448)) if kernel else minimum(value, const(448))
        return ScaleRule(value=low, step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E))

    difference = (
        f32.sub(f32.mul(Q, SF), f32.mul(X, S)) if scaled_domain else f32.sub(f32.div(f32.mul(f32.mul(Q, SF), TMAX), const(6 * largest)), X)
    )
    error = f32.mul(difference, difference) if squared else absolute(difference)
    norm = ErrorNorm.SQUARED if squared else ErrorNorm.ABSOLUTE
    path = "-".join(["mse" if squared else "mae", *(["fp16-error"] if scaled_domain else []), *(["256"] if largest == 256 else [])])
    who = "kernel" if kernel else "reference"
    steps = QuantizationSteps(
        scale=rule(base),
        scaled=_scaled(kernel=kernel),
        dequantize=_dequantize(largest),
        element=_KERNEL_ELEMENT if kernel else _REFERENCE_ELEMENT,
        alternative=Alternative(scale=rule(f32.mul(base, const(1.5))), norm=norm, error=error),
    )
    return _nvfp4(
        f"te-2.17/nvfp4/4over6-{who}/{path}",
        f"Four-over-Six, error {'squared' if squared else 'absolute'}, "
        + ("in the E4M3-scaled domain" if scaled_domain else "in the input's domain")
        + f", tensor scale {6 * largest} / tmax",
        f"{_REPO}/common/cast/nvfp4/quantize_4over6_nvfp4.cuh" if kernel else _REFERENCE,
        steps,
        kernel=kernel,
        largest=largest,
        evidence=Evidence.COMPILED if kernel else Evidence.MEASURED,
        witness=_COMPILED.format("d0067d0d", 49_488 if largest == 448 else 49_056)
        if kernel
        else f"Transformer Engine's reference at d0067d0d {_WITNESS}: 19,308 blocks, every byte",
        unspecified=("16 x 16 tiles: the errors of 16 rows are summed in a tree before the choice; refused",),
    )


def _mxfp8(path: str, summary: str, source: str, dtypes: tuple[str, ...], *, zero: Expr | None, blocks: int) -> Profile:
    product = f32.mul(X, f32.div(ONE, SF))
    return Profile(
        id=f"te-2.19/mxfp8/{path}",
        formats=("mxfp8_e4m3", "mxfp8_e5m2"),
        summary=f"amax * fl(1/M) rounded up to a power of two, elements times 2^(127 - byte); {summary}",
        source=f"{_REPO}/common/cast/mxfp8/{source}",
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format("d0067d0d", blocks),
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.mul(AMAX, f32.div(ONE, M)), step=ScaleStep.ENCODE, rounding=Rounding.RTP),
            scaled=product if zero is None else if_equal(X, ZERO, zero, product),
            dequantize=f32.mul(SF, Q),
            element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
        ),
        amax_nan=AmaxNan.SKIP,
        dtypes=dtypes,
    )


PROFILES: tuple[Profile, ...] = (
    _nvfp4(
        "te-2.14/nvfp4/kernel",
        "the CUDA kernels from 2.14 (March 2026) on: scale amax * (S * fl(1/6))",
        f"{_REPO}/common/cast/nvfp4/core_nvfp4.cuh, quantize_transpose_nvfp4.cuh, "
        "common/transpose/quantize_transpose_vector_blockwise_fp4.cu",
        _plain(_BY_MULTIPLYING, kernel=True),
        kernel=True,
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format("d0067d0d", 76_520),
        one_level=_without_tensor_scale(_plain(_BY_MULTIPLYING, kernel=True)),
    ),
    _nvfp4(
        "te-2.14/nvfp4/kernel-fastmath",
        "the tuned 1D kernel under NVTE_USE_FAST_MATH: elements times bf16(min(S / sf, BF16_MAX)) by fma, which drops -0",
        f"{_REPO}/common/cast/nvfp4/specialized/quantize_transpose_nvfp4_tuned_1D.cuh, common/util/ptx_arch_spec.cuh",
        _fast_math(),
        kernel=True,
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format("d0067d0d", 16_496),
        dtypes=("bfloat16",),
    ),
    _nvfp4(
        "te-2.8/nvfp4/kernel",
        "the CUDA kernels of 2.8 to 2.13: scale (amax / 6) * S",
        f"{_V210}/common/cast/nvfp4/core_nvfp4.cuh, common/transpose/quantize_transpose_vector_blockwise_fp4.cu",
        _plain(_BY_DIVIDING, kernel=True),
        kernel=True,
        evidence=Evidence.COMPILED,
        witness=_COMPILED.format("2.10", 76_520),
        one_level=_without_tensor_scale(_plain(_BY_DIVIDING, kernel=True)),
    ),
    _nvfp4(
        "te-2.14/nvfp4/reference",
        "the Python reference from 2.14 on: the kernel's order, NaN and a NaN tensor maximum spread, -0 and NaN become 0",
        _REFERENCE,
        _plain(_BY_MULTIPLYING, kernel=False),
        kernel=False,
        witness=f"Transformer Engine's reference at d0067d0d {_WITNESS}: 588,315 blocks of 1 x 16, 268,800 in tiles of 16 x 16",
    ),
    _nvfp4(
        "te-2.8/nvfp4/reference",
        "the Python reference of 2.8 to 2.13: scale (amax / 6) * S, otherwise as the later one",
        _REFERENCE_2025,
        _plain(_BY_DIVIDING, kernel=False),
        kernel=False,
        witness=f"Transformer Engine's reference of 2.10 {_WITNESS}: 588,315 blocks of 1 x 16, 268,800 in tiles of 16 x 16",
    ),
    _hadamard(fast=False),
    _hadamard(fast=True),
    *(
        _four_over_six(kernel=kernel, squared=squared, scaled_domain=scaled_domain, largest=largest)
        for kernel in (True, False)
        for squared in (False, True)
        for scaled_domain in (False, True)
        for largest in (448, 256)
    ),
    Profile(
        id="te-2.8/mxfp4/reference-pow2",
        formats=("mxfp4",),
        summary="the reference's option pow_2_scales: a float32 log2 of amax / 6 rounded up",
        source=f"{_REFERENCE}, cast_to_e8",
        evidence=Evidence.MEASURED,
        witness=f"Transformer Engine's reference at d0067d0d {_WITNESS}: 768,777 blocks",
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(AMAX, _SIX), step=ScaleStep.LOG2F_CEIL),
            scaled=f32.mul(X, f32.div(ONE, SF)),
            dequantize=f32.mul(Q, SF),
            element=_REFERENCE_ELEMENT,
        ),
        unspecified=("the scale where amax / 6 lies a few ulps above a power of two: torch's log2 there",),
    ),
    _mxfp8("kernel", "sign of zero kept", "quantize_mxfp8.cuh", ("float32", "float16", "bfloat16"), zero=None, blocks=67_203),
    _mxfp8(
        "kernel-specialized",
        "the kernel that is taken for whole rows of 128: an input -0 becomes +0 (fma with +0)",
        "specialized/quantize_mxfp8.cuh, common/util/ptx.cuh mul_cvt_4x",
        ("float16", "bfloat16"),
        zero=ZERO,
        blocks=44_802,
    ),
)
