"""Profiles as C++: the `Rules` of one profile and format, generated from the profile's own expressions.

No rule is written by hand for the GPU: every operation of `scale.value`, `scaled` and `dequantize` becomes one call of
platform.cuh, in the same order and domain. What is added here is only how a block's elements share a factor: `scaled` is
split into x times one float32, where that gives the same bits. (Rules are written by hand a second time only where an
independent implementation is wanted: the mutants' reference, tests/independent, the examples.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import elements, reals
from mxspec.arrays import ARRAYS
from mxspec.expressions import (
    AMAX,
    ONE,
    SF,
    Apply,
    Choose,
    Const,
    Domain,
    Expr,
    Leaf,
    M,
    Op,
    Q,
    Test,
    X,
    evaluate,
    exact,
    f32,
    leaves,
    walk,
)
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import (
    TENSOR_LEAF,
    AmaxNan,
    Arithmetic,
    ElementRule,
    LowEnd,
    Profile,
    ScaleRule,
    ScaleStep,
    TensorScaleKind,
)
from mxspec.rounding import Overflow, Rounding, ZeroPolicy
from mxspec.scales import encode_scale


class UnsupportedProfileError(ValueError):
    """A profile whose arithmetic the kernels do not have. The message says which part."""


_CALLS = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv"}
_SELECTIONS = {Op.MIN: "minimum", Op.MAX: "maximum", Op.FMIN: "fmin_number", Op.FMAX: "fmax_number", Op.ABS: "fabs_"}
_AMAX_NAN = {AmaxNan.PROPAGATE: 0, AmaxNan.SKIP: 1, AmaxNan.SKIP_UNLESS_ALL: 2, AmaxNan.SKIP_UNLESS_ODD: 3}
#: Leaves of the tensor scale, all members of the generated `Tensor`.
_TENSOR_LEAVES = ("S", "g", "tmax")
_RECIPROCAL = f32.div(ONE, SF)


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

    @property
    def digest(self) -> str:
        """Of the text."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()


def _refuse(profile: Profile, what: str) -> UnsupportedProfileError:
    return UnsupportedProfileError(
        f"profile {profile.id} {what}, which the kernels do not have; use mxspec.quantize (NumPy), or another profile: "
        "mx-floor, mx-rceil, mx-even, mx-ceil, nvfp4-te, nvfp4-paper, vllm-0.33/nvfp4/kernel, torchao-0.18/nvfp4/eager"
    )


def _body(profile: Profile, expr: Expr, fmt: BlockFormat) -> str:
    """Statements that end in `return`; one for each operation, operands first."""
    largest, powers = float(fmt.element.max_value), fmt.scale.mantissa_bits == 0
    names: dict[Expr, str] = {}
    lines: list[str] = []
    for node in walk(expr):
        if isinstance(node, Leaf):
            if node == M:
                names[node] = _constant(int(np.float32(largest).view(np.uint32)))
            else:
                names[node] = f"t.{node.name}" if node.name in _TENSOR_LEAVES else node.name
            continue
        if isinstance(node, Const):
            names[node] = _constant(node.bits)
            continue
        names[node] = f"v{len(lines)}"
        lines.append(f"    const float {names[node]} = {_operation(profile, node, names, powers=powers)};")
    return "\n".join([*lines, f"    return {names[expr]};"])


def _constant(bits: int) -> str:
    return f"float_of(0x{bits:08X}u)"


def _operation(profile: Profile, node: Apply | Choose, names: dict[Expr, str], *, powers: bool) -> str:
    if powers and node == _RECIPROCAL:
        return "reciprocal_of_power(sf)"
    if isinstance(node, Choose):
        left, right, then, otherwise = (names[e] for e in (node.left, node.right, node.then, node.otherwise))
        condition = {
            Test.EQUAL: f"{left} == {right}",
            Test.LESS: f"{left} < {right}",
            Test.IS_NAN: f"is_nan({left})",
            Test.IS_INF: f"is_inf({left})",
        }[node.test]
        return f"{condition} ? {then} : {otherwise}"
    args = ", ".join(names[a] for a in node.args)
    if node.op in _SELECTIONS:
        return f"{_SELECTIONS[node.op]}({args})"
    if node.op is Op.RCP and node.domain is Domain.RCP_APPROX:
        return f"rcp_approx_ftz({args})"
    if node.op is Op.DIV and node.domain is Domain.F32 and node.args[0] == ONE:
        return f"frcp({names[node.args[1]]})"
    if node.op in _CALLS and node.domain is Domain.F32:
        return f"{_CALLS[node.op]}({args})"
    raise _refuse(profile, f"computes {node.op.value} in the domain {node.domain.value}")


def _function(profile: Profile, name: str, parameters: str, expr: Expr, fmt: BlockFormat) -> str:
    return f"  static MX_HD float {name}({parameters}, const Tensor& t) {{\n{_body(profile, expr, fmt)}\n  }}"


def _is_power(values: npt.NDArray[Any]) -> bool:
    """Whether all are powers of two whose reciprocals float32 holds, infinities or NaN."""
    finite = values[np.isfinite(values)]
    fraction, exponent = np.frexp(finite)
    return bool(((fraction == 0.5) & (exponent >= -126) & (exponent <= 128)).all())


def _split_scaled(profile: Profile, fmt: BlockFormat, level: Arithmetic) -> tuple[Expr, Expr, bool]:
    """`scaled` as the kernels evaluate it, the factor of x that gives the same bits where all is finite, and whether
    every factor is a power of two."""
    powers = fmt.scale.mantissa_bits == 0
    if level.scaled == exact.div(X, SF) and powers:
        # A power of two: the float32 quotient is exact but where it underflows, far below the smallest element.
        return f32.div(X, SF), _RECIPROCAL, True
    scaled = level.scaled
    if isinstance(scaled, Apply) and scaled.domain is Domain.F32 and scaled.op in (Op.MUL, Op.DIV):
        left, right = scaled.args
        if scaled.op is Op.MUL and right == X:
            left, right = right, left
        if left == X and "x" not in leaves(right):
            power = leaves(right) <= {"sf"} and powers and _is_power(_on_every_scale(right, fmt))
            if scaled.op is Op.MUL:
                return scaled, right, power
            if power:
                return scaled, f32.div(ONE, right), True
    raise _refuse(profile, f"scales elements by {level.scaled}")


def _on_every_scale(expr: Expr, fmt: BlockFormat) -> npt.NDArray[Any]:
    return np.asarray(evaluate(expr, {"sf": elements.decode_table(fmt.scale)}, ARRAYS))


def _scale_value(profile: Profile, fmt: BlockFormat, rule: ScaleRule) -> tuple[str, Expr, dict[str, int]]:
    """Step, float32 expression and bytes for zero, infinity and NaN."""
    low, high = rule.byte_range
    assert fmt.scale.nan_code is not None
    special = {
        "kOnZero": low if rule.on_zero is None else rule.on_zero,
        "kOnInf": high if rule.on_inf is None else rule.on_inf,
        "kOnNan": fmt.scale.nan_code if rule.on_nan is None else rule.on_nan,
    }
    value = rule.value
    if isinstance(value, Choose) and (value.left, value.test, value.otherwise) == (AMAX, Test.IS_INF, AMAX):
        # Infinity counts as a number: its byte is that number's.
        number = np.atleast_1d(np.asarray(evaluate(value.then, {}, ARRAYS), np.float64))
        special["kOnInf"] = int(encode_scale(number, rule, fmt.scale, fmt.element)[0])
        value = AMAX
    if rule.low is not LowEnd.CLAMP:
        raise _refuse(profile, "lets scale bytes wrap")
    steps = {ScaleStep.FLOOR: "STEP_FLOOR", ScaleStep.CEIL: "STEP_CEIL", ScaleStep.HALF_UP: "STEP_HALF_UP"}
    if rule.step in steps:
        return steps[rule.step], value, special
    if rule.step is ScaleStep.ENCODE and rule.rounding is Rounding.RTP and fmt.scale.name == "e8m0":
        if value == exact.div(AMAX, M):
            return "STEP_RATIO_UP", AMAX, special
        return "STEP_ENCODE_UP", value, special
    if rule.step is ScaleStep.ENCODE and rule.rounding is Rounding.RNE and fmt.scale.name == "ue4m3":
        return "STEP_ENCODE_RNE", value, special
    raise _refuse(profile, f"finds scales by {rule.step.value} rounded {rule.rounding.value}")


def _dequantize(level: Arithmetic) -> Expr:
    """`dequantize` as the kernels evaluate it, in float32."""
    if level.dequantize == exact.mul(Q, SF):
        return f32.mul(Q, SF)  # exact, but for what float32 has no room for (Inf)
    return level.dequantize


def _check_element(profile: Profile, rule: ElementRule) -> None:
    if rule.rounding is not Rounding.RNE or rule.overflow is not Overflow.SATURATE:
        raise _refuse(profile, f"rounds elements {rule.rounding.value}, overflow {rule.overflow.value}")
    if rule.zero is not ZeroPolicy.SIGNED:
        raise _refuse(profile, f"writes zeros {rule.zero.value}")
    if rule.error is not None or rule.unbounded_fields or rule.add_half_floor_f32 or rule.binade_log2f:
        raise _refuse(profile, "finds elements by other means than rounding")
    if rule.int8_lowest != -127:
        raise _refuse(profile, "writes the int8 code 80")


def choose_level(profile: Profile, *, two_level: bool) -> Arithmetic:
    """The level's arithmetic.

    Raises ValueError where the profile has none.
    """
    level = profile.two_level if two_level else profile.one_level
    if level is None:
        need = (
            "has no tensor scale; pass tensor_scale=None" if two_level else "needs a tensor scale; pass one, or 'auto'"
        )
        raise ValueError(f"profile {profile.id} {need}")
    return level


@lru_cache(maxsize=256)
def generate_rules(profile: str | Profile | None, fmt: str | BlockFormat, *, two_level: bool) -> KernelRules:
    """The rules of a profile as C++.

    Raises UnsupportedProfileError where the kernels lack a part of it, and ValueError for a level it does not have.
    """
    block = get_block(fmt)
    rules = get_profile(profile, block.name)
    level = choose_level(rules, two_level=two_level)
    if level.alternative is not None or level.normalize is not None or rules.flush_inputs:
        raise _refuse(rules, "searches for scales, divides the tensor first or flushes inputs")
    _check_element(rules, level.element)
    scaled, factor, power = _split_scaled(rules, block, level)
    step, value, special = _scale_value(rules, block, level.scale)
    dequantize = _dequantize(level)
    policy = level.element.nan if block.element.nan_code is None else level.element.nan_own
    positive, negative = reals.nan_codes(block.element, policy)
    tensor = rules.tensor if two_level else None
    if tensor is not None and tensor.amax_nan not in (AmaxNan.PROPAGATE, AmaxNan.SKIP):
        raise _refuse(rules, f"treats NaN in the tensor's largest magnitude as {tensor.amax_nan.value}")
    derived = () if tensor is None else tensor.derived
    native = "" if tensor is None else TENSOR_LEAF[tensor.native]
    under = level.element.under_nan_scale
    constants = {
        "kElement": block.element.name.upper(),
        "kScale": block.scale.name.upper(),
        "kBlock": block.k,
        "kScaleStep": step,
        "kSubtractEmax": str(level.scale.subtract_emax).lower(),
        "kOffset": level.scale.offset,
        "kByteLow": level.scale.byte_range[0],
        "kByteHigh": level.scale.byte_range[1],
        **special,
        "kAmaxNan": _AMAX_NAN[rules.amax_nan],
        "kNanPositive": positive,
        "kNanNegative": negative,
        "kInvalidSign": level.element.invalid_sign,
        "kUnderNanScale": -1 if under is None else under,
        "kPowerOfTwo": str(power).lower(),
        "kTwoLevel": str(two_level).lower(),
        "kTensorSkipsNan": str(tensor is not None and tensor.amax_nan is AmaxNan.SKIP).lower(),
    }
    declared = "\n".join(f"  static constexpr int {name} = {text};" for name, text in constants.items())
    derivations = "\n".join(
        f"    t.{leaf.name} = [&] {{\n{_body(rules, expr, block)}\n    }}();" for leaf, expr in derived
    )
    text = f"""// Generated from the profile {rules.id} for {block.name}{", with a tensor scale" if two_level else ""}.
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
{f"    t.{native} = native;" if native else ""}
{derivations}
    return t;
  }}
{_function(rules, "scale_value", "float amax", value, block)}
{_function(rules, "factor", "float sf, float amax", factor, block)}
{_function(rules, "scaled", "float x, float sf, float amax", scaled, block)}
{_function(rules, "value", "float q, float sf", dequantize, block)}
  static MX_HD float native_from_amax(float tmax) {{
    Tensor t;
    t.tmax = tmax;
{_body(rules, tensor.from_amax, block) if tensor is not None else "    return tmax;"}
  }}
}};
"""
    return KernelRules(rules, block, two_level, text, None if tensor is None else tensor.native)
