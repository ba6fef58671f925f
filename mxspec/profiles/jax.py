"""Descriptive profiles of JAX: the block quantizer of `jax.nn.scaled_dot_general`, called eagerly and under `jax.jit`.

XLA's CPU backend runs with subnormal operands and results flushed to zero, and multiplies by the reciprocal where a scale is
broadcast over what it divides. Eagerly each operation is a program of its own, so that 2^-127, the scale of byte 00, is zero
when it divides. Under jit LLVM sees the constant and multiplies by 2^127. In bfloat16 and float16 each operation of MXFP8 is
rounded to that dtype, under jit too; NVFP4 turns into float32 when it is divided by its tensor scale.
"""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import (
    AMAX,
    ONE,
    SF,
    TMAX,
    ZERO,
    Const,
    Domained,
    Expr,
    G,
    M,
    Q,
    X,
    bf16,
    const,
    exact,
    f16,
    f32,
    ftz,
    if_equal,
    if_nan,
    minimum,
)
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep, TensorRule, TensorScaleKind
from mxspec.rounding import NanPolicy, Rounding

_SOURCE = "jax 0.10.2 wheel: jax/_src/cudnn/scaled_matmul_stablehlo.py quantize, cast_to_e8m0_with_rounding_up, e8m0_to_dtype"
_RAN = "jax 0.10.2 with jaxlib 0.10.2 on the CPU, Linux x86-64: reports/peers/jax.json"
_LOST = (
    "a NaN in a tensor of 4096 elements or more: XLA takes another kernel for maxima there, in which a NaN is lost, or "
    "takes other lanes with it, by its place in the block"
)
_INFINITY = Const(0x7F800000)
_BYTE_0 = const(Fraction(1, 1 << 127))

#: The dtypes that JAX computes in, and what rounds to them; float32 needs nothing.
_DTYPES: dict[str, Domained | None] = {"float32": None, "bfloat16": bf16, "float16": f16}


def _in(dtype: str, value: Expr) -> Expr:
    """What an operation in float32 gives in the dtype."""
    domain = _DTYPES[dtype]
    return value if domain is None else domain.round(value)


def _mxfp8(path: str, dtype: str) -> Profile:
    #: Byte FF << 23 is an infinity. In float16 the smallest scale is 2^-15.
    shifted = if_nan(SF, _INFINITY, SF)
    if dtype == "float16":
        smallest = ftz.mul(X, const(1 << 15))
    else:
        smallest = ftz.div(X, ZERO) if path == "eager" else ftz.mul(X, const(1 << 127))
    main = f"jax-0.10/mxfp8_e4m3/{path}"
    return Profile(
        id=main if dtype == "float32" else f"{main}/{dtype}",
        formats=("mxfp8_e4m3",),
        summary="amax / 448 rounded up to a power of two; a NaN in the block gives byte 00, an Inf FF; byte 00 "
        + (
            "divides by 2^-15, and 1 / scale overflows below 2^-16"
            if dtype == "float16"
            else "divides by zero"
            if path == "eager"
            else "multiplies by 2^127"
        ),
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=_in(dtype, ftz.div(AMAX, M)), step=ScaleStep.ENCODE, rounding=Rounding.RTP, on_inf=0xFF, on_nan=0x00),
            scaled=_in(dtype, if_equal(SF, _BYTE_0, smallest, ftz.mul(X, _in(dtype, ftz.div(ONE, shifted))))),
            dequantize=exact.mul(Q, SF),
            element=ElementRule(invalid_sign=1),
        ),
        dtypes=(dtype,),
        variant_of=None if dtype == "float32" else main,
        unspecified=(_LOST,),
        unspecified_nan_block_codes=True,
    )


def _nvfp4() -> Profile:
    def divided(value: Expr, by: Expr) -> Expr:
        return ftz.mul(value, ftz.div(ONE, by))

    def steps(divisor: Expr, back: Expr) -> QuantizationSteps:
        return QuantizationSteps(
            scale=ScaleRule(value=minimum(divided(AMAX, const(6)), const(448)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=divided(X, SF),
            dequantize=back,
            element=ElementRule(nan=NanPolicy.ZERO_NEGATIVE),
            normalize=divided(X, divisor),
        )

    return Profile(
        id="jax-0.10/nvfp4",
        formats=("nvfp4",),
        summary="x times 1 / g first; scale e4m3(amax * fl(1/6)), elements times 1 / sf; a block of zeros becomes -0",
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=steps(ONE, exact.mul(Q, SF)),
        two_level=steps(G, exact.mul(exact.mul(Q, SF), G)),
        tensor=TensorRule(native=TensorScaleKind.DECODE, from_amax=f32.div(TMAX, const(2688))),
        unspecified=(_LOST, "JAX has no function that takes the tensor scale from a tensor"),
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = (*(_mxfp8(path, dtype) for path in ("eager", "jit") for dtype in _DTYPES), _nvfp4())
