"""What a profile says, as inequalities between exact numbers.

A float32 is an integer of 277 bits in units of 2^-149; a quotient by a power of two shifts it, one by a constant changes the unit. A code is the
number of thresholds that the exact value has passed; the thresholds are rationals, found from the format and from the rule's definition, and no
rounding happens anywhere. Nothing here is shared with the arrays or with the C header but the profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from mxspec import reals
from mxspec.expressions import Domain, Op, Test, evaluate
from mxspec.formats import FLOAT32, BlockFormat, ElementFormat, power_of_two
from mxspec.profiles.schema import ExponentUnderflow, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import MAGNITUDE_RULES, MagnitudeRule, NanPolicy, Rounding, ZeroPolicy
from mxspec_lab.smt import terms
from mxspec_lab.smt.terms import FALSE, Term, binary, both, const, either, extract, ite, negate, zero_extend


class UndefinedError(ValueError):
    """A rule that this form does not state. The message says which part."""


@dataclass(frozen=True, slots=True)
class Exact:
    """A number: count * unit where it is finite. A power of two has its exponent's byte instead: 2^(byte - 127)."""

    sign: Term
    nan: Term
    infinite: Term
    count: Term | None
    unit: Fraction
    power: Term | None = None
    constant: Fraction | None = None

    @property
    def zero(self) -> Term:
        """Whether it is zero."""
        assert self.count is not None
        return binary("=", self.count, const(0, self.count.width))


_SMALLEST = Fraction(1, 1 << 149)


def exact_float32(bits: Term) -> Exact:
    """The number with these float32 bits."""
    field, part = extract(bits, 30, 23), extract(bits, 22, 0)
    subnormal = binary("=", field, const(0, 8))
    significand = terms.concat(ite(subnormal, const(0, 1), const(1, 1)), part)
    by = ite(subnormal, const(0, 8), binary("bvsub", field, const(1, 8)))
    count = terms.shift("bvshl", zero_extend(significand, 277), zero_extend(by, 277))
    last, whole = binary("=", field, const(255, 8)), binary("=", part, const(0, 23))
    return Exact(binary("=", extract(bits, 31, 31), const(1, 1)), both(last, negate(whole)), both(last, whole), count, _SMALLEST)


def exact_e8m0(byte: Term) -> Exact:
    """The power of two of a scale byte."""
    return Exact(FALSE, binary("=", byte, const(255, 8)), FALSE, None, Fraction(1), byte)


class Definition:
    """`expressions.Arithmetic` over exact numbers: the operations that the MX rules have."""

    def constant(self, bits: int) -> Exact:
        """The float32 with these bits."""
        value = reals.decode_real(bits, FLOAT32).value
        return Exact(const(value < 0, 0), FALSE, FALSE, None, Fraction(1), constant=abs(value))

    def apply(self, op: Op, domain: Domain, args: tuple[Exact, ...]) -> Exact:
        """A quotient by a power of two or by a constant; raises UndefinedError for anything else."""
        if op is not Op.DIV or domain is not Domain.EXACT:
            raise UndefinedError(f"{op.value} in the domain {domain.value}")
        a, b = args
        if a.count is None:
            raise UndefinedError("a quotient of a constant")
        if b.constant is not None:
            return Exact(a.sign, a.nan, a.infinite, a.count, a.unit / b.constant)
        if b.power is None:
            raise UndefinedError("a quotient of two numbers")
        width = a.count.width + 254
        by = zero_extend(binary("bvsub", const(254, 8), b.power), width)
        count = terms.shift("bvshl", zero_extend(a.count, width), by)
        return Exact(a.sign, either(a.nan, b.nan), a.infinite, count, a.unit / power_of_two(127))

    def choose(self, left: Exact, test: Test, right: Exact, then: Exact, otherwise: Exact) -> Exact:
        """Not among the MX rules: raises UndefinedError."""
        raise UndefinedError(f"a choice by {test.value}")


def passes(x: Exact, threshold: Fraction, *, strictly: bool) -> Term:
    """|x| >= threshold, or > it; x is finite."""
    assert x.count is not None
    units = threshold / x.unit
    least = floor(units) + 1 if strictly else ceil(units)
    if least >= 1 << x.count.width:
        return FALSE
    return negate(binary("bvult", x.count, const(least, x.count.width)))


def count_passed(x: Exact, thresholds: list[tuple[Fraction, bool]], first: int, width: int) -> Term:
    """`first`, and one more for each rising threshold that |x| has passed."""
    result = const(first, width)
    for i, (threshold, strictly) in enumerate(thresholds, 1):
        result = ite(passes(x, threshold, strictly=strictly), const(first + i, width), result)
    return result


def _step_threshold(rule: ScaleRule, element: ElementFormat, exponent: int) -> tuple[Fraction, bool]:
    """From which value on a rule's exponent is at least this one, before what is subtracted; whether the value itself is not."""
    power = power_of_two(exponent)
    if rule.step is ScaleStep.FLOOR:
        return power, False
    if rule.step is ScaleStep.CEIL:
        return power / 2, True
    if rule.step is ScaleStep.HALF_UP:  # v + 2^(exponent - 1) u/2 >= 2^exponent
        unit = (element.max_value - element.magnitude(element.max_code - 1)) / power_of_two(element.emax)
        return power - power / 2 * unit / 2, False
    raise UndefinedError(f"scales by {rule.step.value}")


def scale_byte(amax: Term, steps: QuantizationSteps, fmt: BlockFormat) -> Term:
    """The scale byte (8 bits) of a maximum's bits (32, of which the sign is not looked at)."""
    rule, element, scale = steps.scale, fmt.element, fmt.scale
    if rule.underflow is not ExponentUnderflow.CLAMP:
        raise UndefinedError("exponents that wrap")
    leaf = exact_float32(terms.concat(const(0, 1), extract(amax, 30, 0)))
    top = Exact(FALSE, FALSE, FALSE, None, Fraction(1), constant=element.max_value)
    v = evaluate(rule.value, {"amax": leaf, "M": top}, Definition())
    low, high = rule.byte_range
    thresholds = []
    for byte in range(low + 1, high + 1):
        if rule.step is ScaleStep.ENCODE:
            if MAGNITUDE_RULES[rule.rounding][0] is not MagnitudeRule.UP:
                raise UndefinedError(f"scales encoded by {rule.rounding.value}")
            thresholds.append((scale.magnitude(byte - 1), True))
        else:
            e = byte - scale.bias - rule.offset + (element.emax if rule.subtract_emax else 0)
            thresholds.append(_step_threshold(rule, element, e))
    code = count_passed(v, thresholds, low, 8)
    assert scale.nan_code is not None
    code = ite(v.zero, const(low if rule.on_zero is None else rule.on_zero, 8), code)
    code = ite(v.infinite, const(high if rule.on_inf is None else rule.on_inf, 8), code)
    return ite(v.nan, const(scale.nan_code if rule.on_nan is None else rule.on_nan, 8), code)


def element_thresholds(element: ElementFormat, rule: MagnitudeRule) -> list[tuple[Fraction, bool]]:
    """From which magnitude on the code is at least 1, 2, ... one past the largest; whether the magnitude itself is not."""
    found = []
    for m in range(1, element.max_code + 2):
        lower, upper = element.magnitude(m - 1), element.magnitude(m)
        if rule is MagnitudeRule.DOWN:
            found.append((upper, False))
        elif rule is MagnitudeRule.UP:
            found.append((lower, True))
        else:
            found.append(((lower + upper) / 2, not (rule is MagnitudeRule.TIES_AWAY or (rule is MagnitudeRule.EVEN and m % 2 == 0))))
    return found


def element_code(x: Term, byte: Term, steps: QuantizationSteps, fmt: BlockFormat) -> Term:
    """The code (8 bits) of an element's bits (32) under a scale byte (8)."""
    rule, element = steps.element, fmt.element
    if rule.error is not None or rule.add_half_floor_f32 or rule.binade_log2f or rule.unbounded_fields or rule.rounding is Rounding.SR:
        raise UndefinedError("codes that are not found by rounding alone")
    if rule.zero is not ZeroPolicy.SIGNED or rule.int8_lowest != -127 or rule.nan is NanPolicy.RAISE:
        raise UndefinedError("zeros without a sign, or -128")
    number, sf = exact_float32(x), exact_e8m0(byte)
    scaled = evaluate(steps.scaled, {"x": number, "sf": sf}, Definition())
    lost = reals.nan_codes(element, rule.nan if element.nan_code is None else rule.nan_own)
    sides = []
    for sign in (0, 1):
        magnitude_rule = MAGNITUDE_RULES[rule.rounding][sign]
        if magnitude_rule is MagnitudeRule.DOWN:
            raise UndefinedError("rounding toward zero")
        over = [reals.overflow_code(element, sign, rule.overflow, infinite=infinite, toward_zero=False) for infinite in (False, True)]
        code = const(element.join(sign, 0), 8)
        for m, (threshold, strictly) in enumerate(element_thresholds(element, magnitude_rule), 1):
            value = over[0] if m > element.max_code else element.join(sign, m)
            code = ite(passes(scaled, threshold, strictly=strictly), const(value, 8), code)
        sides.append(ite(scaled.infinite, const(over[1], 8), code))
    code = ite(scaled.sign, sides[1], sides[0])
    nan = ite(number.nan, ite(number.sign, const(lost[1], 8), const(lost[0], 8)), const(lost[0], 8))
    code = ite(scaled.nan, nan, code)
    return code if rule.under_nan_scale is None else ite(sf.nan, const(rule.under_nan_scale, 8), code)
