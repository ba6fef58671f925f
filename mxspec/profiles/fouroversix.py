"""Descriptive profiles of fouroversix 0.1.0: its PyTorch reference, which computes every step in bfloat16."""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import (
    AMAX,
    ONE,
    SF,
    TMAX,
    ZERO,
    Expr,
    G,
    Q,
    X,
    absolute,
    bf16,
    ceil_pow2,
    const,
    f32,
    if_equal,
    if_less,
    maximum,
    minimum,
)  # fmt: skip
from mxspec.profiles.schema import (
    Alternative,
    ElementRule,
    ErrorNorm,
    ErrorOrder,
    Evidence,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
)  # fmt: skip
from mxspec.rounding import Rounding

_SOURCE = "fouroversix 0.1.0 wheel: fouroversix/quantize/reference.py"
_RAN = "fouroversix 0.1.0, torch 2.13.0 CPU, x86-64: 0 of 0.4 million blocks of all its profiles differ"
_TWO_TO_MINUS_127 = const(Fraction(1, 1 << 127))
_TWO_TO_MINUS_126 = const(Fraction(1, 1 << 126))

#: NaN has the bfloat16 bits FFFF in torch's vectorized code, whose fields give 0B.
_ELEMENT = ElementRule(unbounded_fields=True)
_NAN_SIGN = "the sign of a NaN: torch's vectorized float32 to bfloat16 makes every NaN FFFF (code 0B, NVFP4 scale byte FF)"
_TORCH = "torch before 2.13 casts finite values above 448 to NaN, not to 448; the wheel asks for torch 2.9"


def _zero_is_plus(scaled: Expr, of: Expr) -> Expr:
    """Elements are multiplied by torch.sign(`of`): zeros become positive, underflow keeps its sign."""
    return if_equal(of, ZERO, ZERO, scaled)


def _e8m0_value() -> Expr:
    # torch's cast of a float to e8m0: nearest, ties up, but everything between 2^-127 and 2^-126 goes up.
    value = minimum(bf16.div(AMAX, const(6)), const(1 << 127))
    return if_less(_TWO_TO_MINUS_127, value, maximum(value, _TWO_TO_MINUS_126), value)


def _e8m0_element() -> Expr:
    # Codes are decoded through e8m0, which has no zero and no halves: 0 is 2^-127, 1.5 is 2, 3 is 4, 6 is 8.
    magnitude = f32.round(ceil_pow2(absolute(Q)))
    decoded = if_equal(Q, ZERO, _TWO_TO_MINUS_127, magnitude)
    product = f32.mul(decoded, SF)
    return if_less(f32.div(ONE, Q), ZERO, f32.mul(product, const(-1)), product)


def _nv_scale(divisor: int) -> ScaleRule:
    return ScaleRule(value=bf16.div(AMAX, const(divisor)), step=ScaleStep.ENCODE, byte_range=(0x08, 0x7E))


_SCALED = bf16.div(X, SF)
_DIFFERENCE = bf16.sub(bf16.mul(Q, SF), X)
_ERRORS: dict[ErrorNorm, Expr] = {
    ErrorNorm.SQUARED: bf16.mul(_DIFFERENCE, _DIFFERENCE),
    ErrorNorm.ABSOLUTE: absolute(_DIFFERENCE),
    ErrorNorm.MAXIMUM: absolute(_DIFFERENCE),
}


def _nvfp4(rule: str, summary: str, divisor: int, norm: ErrorNorm | None) -> Profile:
    alternative = (
        None
        if norm is None
        else Alternative(scale=_nv_scale(4), norm=norm, error=_ERRORS[norm], order=ErrorOrder.HALVES, total=bf16.domain)
    )
    return Profile(
        id=f"fouroversix-0.1/nvfp4/{rule}",
        formats=("nvfp4",),
        summary=f"bfloat16 throughout: x / g, scale amax / 6 not below 2^-6, elements divided by it; {summary}",
        source=f"{_SOURCE} quantize_to_fp4, AdaptiveBlockScalingRule.{rule.replace('-', '_')}",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        two_level=QuantizationSteps(
            normalize=bf16.div(X, bf16.round(G)),
            scale=_nv_scale(6),
            scaled=_zero_is_plus(_SCALED, _SCALED if alternative is None else X),
            dequantize=f32.mul(f32.mul(Q, SF), G),
            element=_ELEMENT,
            alternative=alternative,
        ),
        tensor=TensorRule(native=TensorScaleKind.DECODE, from_amax=bf16.div(TMAX, const(divisor))),
        dtypes=("bfloat16",),
        unspecified=(_NAN_SIGN, _TORCH),
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = (
    Profile(
        id="fouroversix-0.1/mxfp4",
        formats=("mxfp4",),
        summary="amax / 6 cast to the nearest power of two, elements in bfloat16 without a clamp (7 to 9 "
        "become -0); decoded as powers of two",
        source=f"{_SOURCE} quantize_to_fp4, dequantize_from_fp4",
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=_e8m0_value(), step=ScaleStep.ENCODE, rounding=Rounding.RNA),
            scaled=_zero_is_plus(_SCALED, _SCALED),
            dequantize=_e8m0_element(),
            element=_ELEMENT,
        ),
        dtypes=("bfloat16",),
        unspecified=(_NAN_SIGN,),
        unspecified_nan_block_codes=True,
    ),
    _nvfp4("always-6", "the one scale", 2688, None),
    _nvfp4("mse", "of the scales amax / 4 and amax / 6 that with the smaller squared error", 1536, ErrorNorm.SQUARED),
    _nvfp4("l1-norm", "of the scales amax / 4 and amax / 6 that with the smaller absolute error", 1536, ErrorNorm.ABSOLUTE),
    _nvfp4("abs-max", "of the scales amax / 4 and amax / 6 that with the smaller largest error", 1536, ErrorNorm.MAXIMUM),
)
