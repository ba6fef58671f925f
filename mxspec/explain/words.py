"""Explanations in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mxspec import reals
from mxspec.explain.records import BlockExplanation, LaneExplanation, RuleText, ScalarExplanation, ScaleExplanation
from mxspec.explain.text import code_text, number_text, plain_text, power_text, value_text
from mxspec.explain.trace import Neighbour, Place, Where
from mxspec.expressions import Choose, Expr, Leaf, children
from mxspec.formats import ElementFormat, ScalarFormat, power_of_two
from mxspec.profiles.schema import ElementRule, ExponentUnderflow, QuantizationSteps, ScaleStep
from mxspec.reals import Real
from mxspec.rounding import MAGNITUDE_RULES, MagnitudeRule, Overflow, Rounding


def overflow_words(overflow: Overflow, *, infinite: bool) -> RuleText:
    """What happens beyond the largest value, in a few words."""
    if overflow is Overflow.SATURATE or (overflow is Overflow.SATURATE_FINITE and not infinite):
        return RuleText("beyond the largest: saturates", "saturation")
    return RuleText("beyond the largest: own Inf or NaN", "the format's own Inf or NaN")


_TIES = {
    MagnitudeRule.EVEN: RuleText("tie to even", "to even"),
    MagnitudeRule.TIES_AWAY: RuleText("tie away from zero", "away from zero"),
    MagnitudeRule.TIES_TO_ZERO: RuleText("tie toward zero", "toward zero"),
}


def rounding_words(rule: MagnitudeRule, place: Place) -> RuleText:
    """What a rounding rule does at a place, in a few words."""
    if place.where is Where.EXACT:
        return RuleText("exact", is_exact=True)
    if place.where is Where.UNDER:
        return RuleText("below the smallest value", "clamping")
    if rule is MagnitudeRule.DOWN:
        return RuleText("toward zero")
    if rule is MagnitudeRule.UP:
        return RuleText("away from zero")
    if place.where is not Where.TIE:
        return RuleText("nearest", "the nearer")
    return _TIES[rule]


def element_rule_words(rule: ElementRule, element: ElementFormat, scaled: Real, place: Place, code: int, *, scale_is_nan: bool) -> RuleText:
    """What decided the code, in a few words."""
    if scale_is_nan and rule.under_nan_scale is not None:
        return RuleText("NaN scale: fixed code")
    if rule.error is not None:
        return RuleText("least error, first of equals")
    if rule.unbounded_fields:
        return RuleText("bfloat16 fields, two codes ORed to a byte")
    if place.where is Where.NAN:
        return RuleText(f"NaN: {(rule.nan if element.nan_code is None else rule.nan_own).value}")
    if place.where in (Where.BEYOND, Where.INFINITE):
        return overflow_words(rule.overflow, infinite=place.where is Where.INFINITE)
    if rule.add_half_floor_f32:
        back = place.where is Where.TIE and rule.rounding is Rounding.RNE
        text = RuleText(f"floor(steps + 1/2), sum in {rule.half_floor_domain.value}" + (", odd ties back by one" if back else ""))
    elif rule.binade_log2f:
        text = RuleText("toward zero in the binade of a float32 log2")
    else:
        text = rounding_words(MAGNITUDE_RULES[rule.rounding][scaled.sign], place)
    if not element.twos_complement:
        sign, magnitude_code = element.split(code)
        if magnitude_code == 0 and sign != scaled.sign:
            return replace(text, note="zero made negative" if sign else "zero loses its sign")
    return text


def _value_label(scale: ScaleExplanation) -> str:
    """What the scale rule encodes, by name, with its value."""
    expr = scale.rule.value
    simple = not any(isinstance(e, Choose) for e in _all_nodes(expr))
    label = plain_text(expr)
    if not simple or len(label) > 40:
        label = "the scale value"
    bits = scale.value_bits
    named = f"{label} {bits:#010x}" if isinstance(expr, Leaf) and bits is not None else label
    return f"{named} = {number_text(scale.value, 13)}"


def _all_nodes(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from _all_nodes(child)


def scale_words(e: BlockExplanation) -> str:
    """How the scale code follows from the largest magnitude, in one sentence."""
    scale, rule = e.scale, e.scale.rule
    label = _value_label(scale)
    code = code_text(scale.code, scale.format)
    value = reals.absolute(scale.value)
    if not value.is_finite or value.is_zero:
        if value.nan:
            kind, byte, usual = "NaN", rule.on_nan, "the NaN code"
        elif value.is_zero:
            kind, byte, usual = "zero", rule.on_zero, "the lowest code"
        else:
            kind, byte, usual = "Inf", rule.on_inf, "the highest code"
        return f"{label}: {kind} is stored as {code}" + (f", {usual}" if byte is None else "")
    if scale.place is not None:
        return f"{_encoder_words(scale, label)}{_clamp_words(scale)}"
    return f"{_exponent_words(scale, label)}{_offset_words(e)}{_clamp_words(scale)}, code {code}"


def _encoder_words(scale: ScaleExplanation, label: str) -> str:
    """How an encoder chooses between the neighbours of the value."""
    place, rule = scale.place, scale.rule
    assert place is not None
    assert scale.unclamped is not None
    fmt = scale.format
    code = code_text(scale.unclamped, fmt)
    if place.where is Where.EXACT and rule.step is ScaleStep.ENCODE:
        return f"{label} is a value of {fmt.name}, code {code}"
    if rule.step is ScaleStep.GGML_UE4M3:
        how = "ggml's half up"
    elif place.where is Where.BEYOND:
        how = "saturation"
    else:
        how = rounding_words(MAGNITUDE_RULES[rule.rounding][0], place).in_sentence
    return f"{label} {place_words(place, fmt)}; {how} gives {code}"


def _exponent_words(scale: ScaleExplanation, label: str) -> str:
    """What an exponent rule finds, before emax, offset and clamp."""
    step, floor, magnitude = scale.rule.step, scale.floor_log2, scale.value.magnitude
    assert floor is not None
    assert magnitude is not None
    if step is ScaleStep.FLOOR:
        return f"{label} has exponent {floor}"
    if step is ScaleStep.CEIL:
        if magnitude == power_of_two(floor):
            return f"{label} is 2^{floor}, exponent {floor}"
        return f"{label} lies above 2^{floor}, so its exponent rounds up to {floor + 1}"
    if step is ScaleStep.HALF_UP:
        raised = scale.raw_exponent != floor
        end = f"{'reaches' if raised else 'stays below'} 2^{floor + 1}, exponent {scale.raw_exponent}"
        return f"{label} rounded half up to the element's precision {end}"
    if scale.log2 is not None:
        name = "bfloat16" if step is ScaleStep.LOG2BF16_FLOOR else "float32"
        how = {ScaleStep.LOG2F_CEIL: "ceil", ScaleStep.LOG2F_ROUND: "round"}.get(step, "floor")
        off = ""
        if scale.log2.denominator == 1 and magnitude != power_of_two(int(scale.log2)):
            side = "less" if magnitude < power_of_two(int(scale.log2)) else "more"
            off = f" (exactly it is {side})"
        return f"log2 of {label} is {number_text(scale.log2)} in {name}{off}, {how} {scale.raw_exponent}"
    return f"{label}: {step.value} gives exponent {scale.raw_exponent}"


def _offset_words(e: BlockExplanation) -> str:
    rule, words = e.scale.rule, ""
    if rule.subtract_emax:
        words += f", minus emax {e.format.element.emax}"
    if rule.offset:
        words += f", {'plus' if rule.offset > 0 else 'minus'} {abs(rule.offset)}"
    return f"{words} gives {e.scale.exponent}" if words else ""


def _clamp_words(scale: ScaleExplanation) -> str:
    if scale.unclamped is None or scale.unclamped == scale.code:
        return ""
    if scale.rule.underflow is ExponentUnderflow.WRAP and scale.unclamped < scale.rule.byte_range[0]:
        words = f"; byte {scale.unclamped} wraps modulo 256"
    elif scale.unclamped < scale.code:
        words = "; below the lowest code, clamped"
    else:
        words = "; beyond the highest code, clamped"
    return words + (f" to {code_text(scale.code, scale.format)}" if scale.place is not None else "")


def _neighbour_text(n: Neighbour, fmt: ScalarFormat) -> str:
    code = "beyond the largest" if n.code is None else f"code {code_text(n.code, fmt)}"
    return f"{value_text(n.value, fmt)} ({code})"


def distance_text(place: Place) -> str:
    """How far a number lies from the midpoint: `2^-25 below`."""
    assert place.distance is not None
    if place.distance == 0:
        return "0"
    distance = abs(place.distance)
    text = power_text(distance) if "2^" in power_text(distance) else number_text(distance, 11)
    return f"{text} {'above' if place.distance > 0 else 'below'}"


def place_words(place: Place, fmt: ScalarFormat) -> str:
    """Where a number lies, as a verb phrase."""
    lower = "" if place.lower is None else _neighbour_text(place.lower, fmt)
    upper = "" if place.upper is None else _neighbour_text(place.upper, fmt)
    if place.where is Where.EXACT:
        return f"is {lower}"
    if place.where is Where.NAN:
        return "is NaN"
    if place.where is Where.UNDER:
        return f"lies below the smallest value {upper}"
    if place.where in (Where.BEYOND, Where.INFINITE):
        return f"lies beyond the largest value {lower}"
    if place.where is Where.TIE:
        return f"lies midway between {lower} and {upper}"
    return f"lies between {lower} and {upper}, {distance_text(place)} the midpoint"


def scaled_label(quantization: QuantizationSteps) -> str:
    """What the element encoder is given, by name."""
    text = plain_text(quantization.scaled)
    return "x / scale" if text == "x / sf" else "scaled x"


def scalar_words(e: ScalarExplanation) -> str:
    """How a number's code follows from its neighbours, in one sentence without an end."""
    label, code = number_text(e.x, 13), code_text(e.code, e.format)
    if e.place.where in (Where.NAN, Where.INFINITE):
        return f"{label}: {e.rule.in_sentence} gives {code}"
    if e.place.where is Where.EXACT:
        return f"{label} is a value of {e.format.name}, code {code}"
    return f"{label} {place_words(e.place, e.format)}; {e.rule.in_sentence} gives {code}"


def lane_words(e: BlockExplanation, lane: LaneExplanation) -> str:
    """How a lane's code follows from its scaled value, in one sentence without an end."""
    element = e.format.element
    code = code_text(lane.code, element)
    if e.scale.decoded.nan and e.quantization.element.under_nan_scale is not None:
        return f"the scale is NaN; every lane gets code {code}"
    label = f"{scaled_label(e.quantization)} = {number_text(lane.scaled, 13)}"
    if lane.place.where in (Where.NAN, Where.INFINITE):
        return f"{label}; {lane.rule} gives {code}"
    if lane.place.where is Where.EXACT:
        remark = lane.rule.note if lane.rule.is_exact else str(lane.rule)
        how = f"{remark}, " if remark else ""
        return f"{label} is a value of the format, {how}code {code}"
    return f"{label} {place_words(lane.place, element)}; {lane.rule.in_sentence} gives {code}"
