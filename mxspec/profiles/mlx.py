"""Descriptive profiles of MLX on its CPU backend.

Without a GPU, `mx.quantize` is a graph of array operations, each rounded to the dtype of the input: float32,
float16 and bfloat16 inputs are three profiles.
"""

from __future__ import annotations

from mxspec.expressions import (
    AMAX,
    ONE,
    SCALED,
    SF,
    TMAX,
    ZERO,
    Const,
    Domained,
    Expr,
    G,
    M,
    Q,
    S,
    X,
    absolute,
    bf16,
    ceil_pow2,
    const,
    exact,
    f16,
    f32,
    if_equal,
    if_inf,
    if_nan,
)
from mxspec.profiles.schema import (
    ElementRule,
    Evidence,
    ExponentUnderflow,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
)
from mxspec.rounding import NanPolicy

_INF = Const(0x7F800000)
_SOURCE = "mlx 0.32.4 wheel: the graphs of mx.quantize and mx.dequantize; ml-explore/mlx@846d176:mlx/ops.cpp"
_WITNESS = "mlx 0.32.4 (CPU) on Linux x86-64: "
_CAST = (
    "a block whose scale is below 2**-127: a negative float cast to uint8, undefined in C++; x86-64 wraps",
    "Inf or NaN in a block: a float Inf or NaN cast to an integer, undefined in C++; the byte is x86-64's",
)
_NAN_SIGN = "0 / 0 and 0 * Inf: the sign of the NaN, which mxfp8 codes keep, is the machine's; set on x86-64"
_ZERO_TENSOR = (
    "2688 / tmax is Inf and the block's amax / 6 is 0 (as in a tensor of zeros), or tmax is Inf and the "
    "block holds Inf: 0 * Inf makes the byte 7E with the machine's NaN sign, FE on x86-64"
)


def _multiplier(domain: Domained) -> tuple[Expr, Expr]:
    """The ratio amax / M, and the power of two that divides elements (ratio 0: 1; Inf and NaN: 0)."""
    ratio = domain.div(AMAX, M)
    power = domain.round(ceil_pow2(ratio))
    return ratio, if_equal(ratio, ZERO, ONE, if_nan(ratio, ZERO, if_inf(ratio, ZERO, power)))


def _mx(fmt: str, path: str, domain: Domained, dtype: str, special: int, element: ElementRule, count: str) -> Profile:
    ratio, power = _multiplier(domain)
    return Profile(
        id=f"mlx-0.32/{fmt}/cpu{path}",
        formats=(fmt,),
        summary="amax / M rounded up to a power of two; bytes wrap, elements use the unwrapped power; "
        + ("nearest code by search, ties toward zero, no -0" if fmt == "mxfp4" else "Inf and NaN saturate"),
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_WITNESS + count,
        one_level=QuantizationSteps(
            scale=ScaleRule(
                value=ratio, step=ScaleStep.CEIL, underflow=ExponentUnderflow.WRAP, on_zero=0x7F, on_inf=special, on_nan=special
            ),
            scaled=domain.div(X, power),
            # Byte FF is 2**128, an infinity.
            dequantize=f32.mul(Q, if_nan(SF, _INF, SF)),
            element=element,
        ),
        dtypes=(dtype,),
        variant_of=f"mlx-0.32/{fmt}/cpu" if path else None,
        unspecified=_CAST if fmt == "mxfp4" else (*_CAST, _NAN_SIGN),
    )


def _nvfp4(path: str, domain: Domained, dtype: str, count: str) -> Profile:
    ratio = domain.div(AMAX, const(6))
    quotient = domain.div(X, SF)
    element = ElementRule(error=absolute(f32.sub(SCALED, Q)))

    def scale(value: Expr) -> ScaleRule:
        return ScaleRule(value=value, step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E), on_nan=0x7E)

    return Profile(
        id=f"mlx-0.32/nvfp4/cpu{path}",
        formats=("nvfp4",),
        summary="scale (amax / 6) * S, elements (x / sf) * S, code by float32 search: ties to zero, no -0; "
        "code 0 where x / sf is Inf or NaN",
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_WITNESS + count,
        one_level=QuantizationSteps(scale=scale(ratio), scaled=quotient, dequantize=exact.mul(Q, SF), element=element),
        two_level=QuantizationSteps(
            scale=scale(f32.mul(ratio, S)), scaled=f32.mul(quotient, S), dequantize=f32.mul(Q, f32.mul(SF, G)), element=element
        ),
        tensor=TensorRule(
            native=TensorScaleKind.AMAX, from_amax=TMAX, derived=((S, f32.div(const(2688), TMAX)), (G, f32.div(TMAX, const(2688))))
        ),
        dtypes=(dtype,),
        variant_of="mlx-0.32/nvfp4/cpu" if path else None,
        unspecified=(_ZERO_TENSOR,),
        unspecified_scale_sign_bit=True,
    )


def _profiles(path: str, domain: Domained, dtype: str) -> tuple[Profile, ...]:
    search = ElementRule(error=absolute(domain.sub(SCALED, Q)))
    narrow = dtype != "float32"
    # bfloat16 conversion gives every NaN a positive sign.
    fp8 = ElementRule(nan_own=NanPolicy.MAX_POSITIVE) if dtype == "bfloat16" else ElementRule(nan_own=NanPolicy.MAX_SIGNED, invalid_sign=1)
    special = 0x00 if narrow else 0x80
    mx = "115,567 blocks" if narrow else "256,699 blocks"
    nv = "392,935 blocks, 12 tensor maxima and none" if narrow else "872,779 blocks, 12 tensor maxima and none"
    return (
        _mx("mxfp4", path, domain, dtype, special, search, mx),
        _mx("mxfp8_e4m3", path, domain, dtype, special, fp8, mx),
        _nvfp4(path, domain, dtype, nv),
    )


PROFILES: tuple[Profile, ...] = (
    *_profiles("", f32, "float32"),
    *_profiles("/float16", f16, "float16"),
    *_profiles("/bfloat16", bf16, "bfloat16"),
)
