"""What a profile says, as inequalities between exact numbers.

A float32 is an integer of 277 bits in units of 2^-149; a quotient by a power of two shifts it, one by a constant changes the unit. A code is the
number of thresholds that the exact value has passed; the thresholds are rationals, found from the format and from the rule's definition, and no
rounding happens anywhere. Nothing here is shared with the arrays or with the C header but the profile, and which bytes and codes it gives to what is
no number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from mxspec.expressions import AMAX, SF, M, X, exact
from mxspec.formats import BlockFormat, ElementFormat, ScaleFormat, power_of_two
from mxspec.lowering import UnsupportedProfileError, lost_codes, overflow_codes, special_bytes
from mxspec.profiles.schema import ExponentUnderflow, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import MAGNITUDE_RULES, MagnitudeRule, ZeroPolicy
from mxspec_lab.smt import terms
from mxspec_lab.smt.terms import FALSE, Term, binary, both, const, either, extract, ite, negate, zero_extend


@dataclass(frozen=True, slots=True)
class Exact:
    """A number: count * unit where it is finite."""

    sign: Term
    nan: Term
    infinite: Term
    count: Term
    unit: Fraction


def exact_float32(bits: Term) -> Exact:
    """The number with these float32 bits."""
    field, part = extract(bits, 30, 23), extract(bits, 22, 0)
    subnormal = binary("=", field, const(0, 8))
    significand = terms.concat(ite(subnormal, const(0, 1), const(1, 1)), part)
    by = ite(subnormal, const(0, 8), binary("bvsub", field, const(1, 8)))
    count = terms.shift("bvshl", zero_extend(significand, 277), zero_extend(by, 277))
    last, whole = binary("=", field, const(255, 8)), binary("=", part, const(0, 23))
    sign = binary("=", extract(bits, 31, 31), const(1, 1))
    return Exact(sign, both(last, negate(whole)), both(last, whole), count, Fraction(1, 1 << 149))


def divides_maximum(rule: ScaleRule) -> bool:
    """Whether a rule's value is amax / M, or amax. Raises UnsupportedProfileError for any other, which no MX rule has."""
    if rule.value not in (AMAX, exact.div(AMAX, M)):
        raise UnsupportedProfileError(f"finds scales of {rule.value}")
    return rule.value != AMAX


def check_scaled(steps: QuantizationSteps) -> None:
    """Raises UnsupportedProfileError unless elements are divided by their scale."""
    if steps.scaled != exact.div(X, SF):
        raise UnsupportedProfileError(f"scales elements by {steps.scaled}")


def passes(x: Exact, threshold: Fraction, *, strictly: bool) -> Term:
    """|x| >= threshold, or > it; x is finite."""
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
    raise UnsupportedProfileError(f"finds scales by {rule.step.value}")


def give_special_bytes(code: Term, tests: Iterable[Term], rule: ScaleRule, scale: ScaleFormat) -> Term:
    """A scale byte, replaced where the tests of zero, infinity and NaN hold."""
    if rule.underflow is not ExponentUnderflow.CLAMP:
        raise UnsupportedProfileError("lets scale bytes wrap")
    for test, byte in zip(tests, special_bytes(rule, scale), strict=True):
        code = ite(test, const(byte, 8), code)
    return code


def scale_byte(amax: Term, steps: QuantizationSteps, fmt: BlockFormat) -> Term:
    """The scale byte (8 bits) of a maximum's bits (32, of which the sign is not looked at)."""
    rule, element, scale = steps.scale, fmt.element, fmt.scale
    v = exact_float32(terms.concat(const(0, 1), extract(amax, 30, 0)))
    if divides_maximum(rule):
        v = replace(v, unit=v.unit / element.max_value)
    low, high = rule.byte_range
    thresholds = []
    for byte in range(low + 1, high + 1):
        if rule.step is ScaleStep.ENCODE:
            if MAGNITUDE_RULES[rule.rounding][0] is not MagnitudeRule.UP:
                raise UnsupportedProfileError(f"encodes scales by {rule.rounding.value}")
            thresholds.append((scale.magnitude(byte - 1), True))
        else:
            e = byte - scale.bias - rule.offset + (element.emax if rule.subtract_emax else 0)
            thresholds.append(_step_threshold(rule, element, e))
    zero = binary("=", v.count, const(0, v.count.width))
    return give_special_bytes(count_passed(v, thresholds, low, 8), (zero, v.infinite, v.nan), rule, scale)


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
    lost = lost_codes(rule, element)
    if not rule.has_table or rule.zero is not ZeroPolicy.SIGNED or rule.int8_lowest != -127 or lost is None:
        raise UnsupportedProfileError("finds codes by more than rounding")
    check_scaled(steps)
    number, under_nan = exact_float32(x), binary("=", byte, const(255, 8))
    width = number.count.width + 254
    count = terms.shift("bvshl", zero_extend(number.count, width), zero_extend(binary("bvsub", const(254, 8), byte), width))
    scaled = replace(number, nan=either(number.nan, under_nan), count=count, unit=number.unit / power_of_two(127))
    sides = []
    for sign in (0, 1):
        magnitude_rule = MAGNITUDE_RULES[rule.rounding][sign]
        if magnitude_rule is MagnitudeRule.DOWN:
            raise UnsupportedProfileError("rounds toward zero")
        over, infinity = overflow_codes(rule, element, sign)
        code = const(element.join(sign, 0), 8)
        for m, (threshold, strictly) in enumerate(element_thresholds(element, magnitude_rule), 1):
            value = over if m > element.max_code else element.join(sign, m)
            code = ite(passes(scaled, threshold, strictly=strictly), const(value, 8), code)
        sides.append(ite(scaled.infinite, const(infinity, 8), code))
    code = ite(scaled.sign, sides[1], sides[0])
    nan = ite(number.nan, ite(number.sign, const(lost[1], 8), const(lost[0], 8)), const(lost[0], 8))
    code = ite(scaled.nan, nan, code)
    return code if rule.under_nan_scale is None else ite(under_nan, const(rule.under_nan_scale, 8), code)
