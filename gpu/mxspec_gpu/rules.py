"""Profiles as C++: the `Rules` of one profile and format, generated from the profile's own expressions.

No rule is written by hand for the GPU: every operation of `scale.value`, `scaled` and `dequantize` becomes one call of
platform.cuh, in the same order and domain. What is added here is only how a block's elements share a factor: `scaled` is
split into x times, or over, one float32, where that gives the same codes. (Rules are written by hand a second time only where an
independent implementation is wanted: the mutants' reference, tests/corpora/independent, the examples.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mxspec import elements
from mxspec.arrays import ARRAYS
from mxspec.expressions import AMAX, ONE, SF, TMAX, Apply, Choose, Domain, Expr, G, M, Op, Q, S, Test, X, evaluate, exact, f32, leaves
from mxspec.formats import BlockFormat, get_block
from mxspec.lowering import Language, UnsupportedProfileError as UnsupportedProfileError, list_departures, lost_codes, special_bytes
from mxspec.profiles import get_profile
from mxspec.profiles.schema import (
    TENSOR_LEAF,
    AmaxNan,
    ExponentUnderflow,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorScaleKind,
)
from mxspec.rounding import Rounding
from mxspec.scales import encode_scale

_RECIPROCAL = f32.div(ONE, SF)
#: Calls of platform.cuh; leaves of the tensor scale are members of the generated `Tensor`.
_CUDA = Language(
    constant="float_of(0x{:08X}u)",
    result="v{}",
    tests={Test.EQUAL: "{} == {}", Test.LESS: "{} < {}", Test.IS_NAN: "is_nan({})", Test.IS_INF: "is_inf({})"},
    operations={
        (Op.ADD, Domain.F32): "fadd({}, {})", (Op.SUB, Domain.F32): "fsub({}, {})", (Op.MUL, Domain.F32): "fmul({}, {})",
        (Op.DIV, Domain.F32): "fdiv({}, {})", (Op.RCP, Domain.F32): "frcp({1})", (Op.RCP, Domain.RCP_APPROX): "rcp_approx_ftz({})",
        (Op.MIN, Domain.EXACT): "minimum({}, {})", (Op.MAX, Domain.EXACT): "maximum({}, {})", (Op.ABS, Domain.EXACT): "fabs_({})",
        (Op.FMIN, Domain.EXACT): "fmin_number({}, {})", (Op.FMAX, Domain.EXACT): "fmax_number({}, {})",
    },
    special={S: "t.S", G: "t.g", TMAX: "t.tmax"},
    inlines_constants=True,
)  # fmt: skip
#: Fields of an element rule that the kernels know the default of alone, and what a profile does that has another.
_PLAIN = (
    (("rounding",), "rounds elements {rounding}"),
    (("zero",), "writes zeros {zero}"),
    (("error", "unbounded_fields", "add_half_floor_f32", "binade_log2f"), "finds elements by other means than rounding"),
    (("int8_lowest",), "writes the int8 code 80"),
)
#: How a scale format's own encoder rounds, and the step of the kernels.
_ENCODERS = {("e8m0", Rounding.RTP): "STEP_ENCODE_UP", ("ue4m3", Rounding.RNE): "STEP_ENCODE_RNE", ("f32", Rounding.RNE): "STEP_STORE"}
#: Bounds, and the sign of the largest value at which they are the encoder's saturation for all but NaN.
_BOUNDS = {Op.MIN: 1, Op.FMIN: 1, Op.MAX: -1, Op.FMAX: -1}


@dataclass(frozen=True, slots=True)
class KernelRules:
    """One profile, format and level as C++."""

    profile: Profile
    fmt: BlockFormat
    #: Whether a tensor scale is given.
    two_level: bool
    #: The header's text.
    text: str
    #: The kind of tensor scale that the kernel reads.
    native: TensorScaleKind | None


def _body(expr: Expr, fmt: BlockFormat) -> str:
    """Statements that end in `return`; one for each operation, operands first."""
    special: dict[Expr, str] = {M: _CUDA.constant.format(int(np.float32(float(fmt.element.max_value)).view(np.uint32)))}
    if fmt.scale.mantissa_bits == 0:
        special[_RECIPROCAL] = "reciprocal_of_power(sf)"
    statements, whole = replace(_CUDA, special={**_CUDA.special, **special}).lower(expr)
    return "\n".join([*(f"    const float {n} = {text};" for n, text in statements.items()), f"    return {whole};"])


def _function(name: str, parameters: str, expr: Expr, fmt: BlockFormat) -> str:
    return f"  static MX_HD float {name}({parameters}, const Tensor& t) {{\n{_body(expr, fmt)}\n  }}"


def _is_power(factor: Expr, fmt: BlockFormat) -> bool:
    """Whether a factor is a power of two whose reciprocal float32 holds, infinity or NaN, whatever the scale."""
    values = np.asarray(evaluate(factor, {"sf": elements.decode_table(fmt.scale)}, ARRAYS))
    fraction, exponent = np.frexp(values[np.isfinite(values)])
    return bool(((fraction == 0.5) & (exponent >= -126) & (exponent <= 128)).all())


def _split_scaled(scaled: Expr, fmt: BlockFormat) -> tuple[Expr, Expr, str, bool]:
    """`scaled` as the kernels evaluate it, the factor of x and how it is applied (`fmul`, `fdiv`) for the same codes where all is
    finite, and whether every factor is a power of two."""
    powers = fmt.scale.mantissa_bits == 0
    if scaled == exact.div(X, SF) and powers:
        # A power of two: the float32 quotient is exact but where it underflows, far below the smallest element.
        scaled = f32.div(X, SF)
    inner, top = scaled, float(fmt.element.max_value)
    while isinstance(inner, Apply) and inner.op in _BOUNDS and not leaves(inner.args[1]):
        if evaluate(inner.args[1], {}, ARRAYS) != _BOUNDS[inner.op] * top:
            break
        inner = inner.args[0]
    if isinstance(inner, Apply) and inner.domain is Domain.F32 and inner.op in (Op.MUL, Op.DIV):
        left, right = inner.args
        if inner.op is Op.MUL and right == X:
            left, right = right, left
        if left == X and "x" not in leaves(right):
            power = leaves(right) <= {"sf"} and powers and _is_power(right, fmt)
            if inner.op is Op.DIV and power:
                return scaled, f32.div(ONE, right), "fmul", True
            return scaled, right, "fmul" if inner.op is Op.MUL else "fdiv", power
    raise UnsupportedProfileError(f"scales elements by {scaled}")


def _scale_value(fmt: BlockFormat, rule: ScaleRule) -> tuple[str, Expr, dict[str, int]]:
    """Step, float32 expression and bytes for zero, infinity and NaN."""
    special = dict(zip(("kOnZero", "kOnInf", "kOnNan"), special_bytes(rule, fmt.scale), strict=True))
    value = rule.value
    if isinstance(value, Choose) and (value.left, value.test, value.otherwise) == (AMAX, Test.IS_INF, AMAX):
        # Infinity counts as a number: its byte is that number's.
        number = np.atleast_1d(np.asarray(evaluate(value.then, {}, ARRAYS), np.float64))
        special["kOnInf"] = int(encode_scale(number, rule, fmt.scale, fmt.element)[0])
        value = AMAX
    if rule.underflow is not ExponentUnderflow.CLAMP:
        raise UnsupportedProfileError("lets scale bytes wrap")
    if rule.step in (ScaleStep.FLOOR, ScaleStep.CEIL, ScaleStep.HALF_UP) and fmt.scale.mantissa_bits == 0:
        return f"STEP_{rule.step.name}", value, special
    encoder = _ENCODERS.get((fmt.scale.name, rule.rounding)) if rule.step is ScaleStep.ENCODE else None
    if encoder == "STEP_ENCODE_UP" and value == exact.div(AMAX, M):
        return "STEP_RATIO_UP", AMAX, special
    if encoder is not None:
        return encoder, value, special
    raise UnsupportedProfileError(f"finds scales by {rule.step.value} rounded {rule.rounding.value}")


@lru_cache(maxsize=256)
def generate_rules(profile: str | Profile | None, fmt: str | BlockFormat, *, two_level: bool) -> KernelRules:
    """The rules of a profile as C++.

    Raises UnsupportedProfileError where the kernels lack a part of it, and ValueError for a level it does not have.
    """
    block = get_block(fmt)
    rules = get_profile(profile, block.name)
    level = rules.two_level if two_level else rules.one_level
    if level is None:
        need = "has no tensor scale; pass tensor_scale=None" if two_level else "needs a tensor scale; pass one, or 'auto'"
        raise ValueError(f"profile {rules.id} {need}")
    tensor = rules.tensor if two_level else None
    try:
        text = _write_rules(rules, block, level, two_level=two_level)
    except UnsupportedProfileError as lack:
        raise UnsupportedProfileError(
            f"profile {rules.id} {lack}, which the kernels do not have; use mxspec.quantize (NumPy), or another profile: "
            "mx-floor, mx-rceil, mx-even, mx-ceil, nvfp4-te, nvfp4-paper, vllm-0.33/nvfp4/kernel, torchao-0.18/nvfp4/eager, "
            "deepgemm-2.6/fp8-128/float32-cuda"
        ) from None
    return KernelRules(rules, block, two_level, text, None if tensor is None else tensor.native)


def _write_rules(rules: Profile, block: BlockFormat, level: QuantizationSteps, *, two_level: bool) -> str:
    if level.alternative is not None or level.normalize is not None or rules.flush_inputs:
        raise UnsupportedProfileError("searches for scales, divides the tensor first or flushes inputs")
    rule = level.element
    for names, what in _PLAIN:
        if list_departures(rule).keys() & set(names):
            raise UnsupportedProfileError(what.format(rounding=rule.rounding, zero=rule.zero))
    scaled, factor, apply, power = _split_scaled(level.scaled, block)
    step, value, special = _scale_value(block, level.scale)
    # In float32: exact, but for what float32 has no room for (Inf).
    dequantize = f32.mul(Q, SF) if level.dequantize == exact.mul(Q, SF) else level.dequantize
    lost = lost_codes(rule, block.element)
    if lost is None:
        raise UnsupportedProfileError("refuses NaN")
    tensor = rules.tensor if two_level else None
    if tensor is not None and tensor.amax_nan not in (AmaxNan.PROPAGATE, AmaxNan.SKIP):
        raise UnsupportedProfileError(f"treats NaN in the tensor's largest magnitude as {tensor.amax_nan.value}")
    constants = {
        "kElement": block.element.name.upper(),
        "kScale": block.scale.name.upper(),
        "kBlock": block.k,
        "kScaleStep": step,
        "kSubtractEmax": level.scale.subtract_emax,
        "kOffset": level.scale.offset,
        "kByteLow": level.scale.byte_range[0],
        "kByteHigh": level.scale.byte_range[1],
        **special,
        "kOverflow": rule.overflow.name,
        "kAmaxNan": list(AmaxNan).index(rules.amax_nan),
        "kNanPositive": lost[0],
        "kNanNegative": lost[1],
        "kInvalidSign": rule.invalid_sign,
        "kUnderNanScale": -1 if rule.under_nan_scale is None else rule.under_nan_scale,
        "kPowerOfTwo": power,
        "kTwoLevel": two_level,
        "kTensorSkipsNan": tensor is not None and tensor.amax_nan is AmaxNan.SKIP,
    }
    words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in constants.items()}
    declared = "\n".join(f"  static constexpr int {name} = {text};" for name, text in words.items())
    native = "" if tensor is None else f"    t.{TENSOR_LEAF[tensor.native]} = native;"
    derived = () if tensor is None else tensor.derived
    derivations = "\n".join(f"    t.{leaf.name} = [&] {{\n{_body(expr, block)}\n    }}();" for leaf, expr in derived)
    return f"""// Generated from the profile {rules.id} for {block.name}{", with a tensor scale" if two_level else ""}.
//   scale    {level.scale.value}
//   scaled   {level.scaled}
//   value    {level.dequantize}
struct Tensor {{
  float S = 1.0f, g = 1.0f, tmax = 1.0f;
}};
struct Rules {{
{declared}
  static MX_HD Tensor derive_tensor(float native) {{
    Tensor t;
{native}
{derivations}
    return t;
  }}
{_function("scale_value", "float amax", value, block)}
{_function("factor", "float sf, float amax", factor, block)}
  static MX_HD float apply(float x, float factor) {{ return {apply}(x, factor); }}
{_function("scaled", "float x, float sf, float amax", scaled, block)}
{_function("value", "float q, float sf", dequantize, block)}
  static MX_HD float native_from_amax(float tmax) {{
    Tensor t;
    t.tmax = tmax;
{_body(tensor.from_amax, block) if tensor is not None else "    return tmax;"}
  }}
}};
"""
