"""Where two explanations of one block part."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mxspec.enums import StrEnum
from mxspec.explain.records import BlockExplanation, LaneExplanation
from mxspec.explain.text import code_text, number_text, plain_text
from mxspec.explain.words import lane_words, place_words, scale_words, scaled_label
from mxspec.expressions import Const


class Stage(StrEnum):
    """The steps at which two explanations can part, in order."""

    AMAX = "amax"
    TENSOR_SCALE = "tensor scale"
    SCALE_VALUE = "scale value"
    EXPONENT = "exponent"
    SCALE_CODE = "scale code"
    QUOTIENT = "quotient"
    NEIGHBOUR = "neighbour"
    CODE = "code"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first step at which two explanations part."""

    stage: Stage
    #: The lane, from `QUOTIENT` on.
    lane: int | None
    #: Whether stored bits or dequantized values differ because of it.
    visible: bool
    words: str


def compare_blocks(a: BlockExplanation, b: BlockExplanation) -> Divergence | None:
    """The first step where two explanations of the same block part; None where they do not.

    A step counts when it moves bits. What differs on the way to equal bits is examined only if all bits are
    equal, and is then reported with `visible` false.

    Raises ValueError for explanations of different formats or inputs.
    """
    if a.format != b.format:
        raise ValueError(f"explanations of {a.format.name} and of {b.format.name} have no step in common")
    if [lane.bits for lane in a.lanes] != [lane.bits for lane in b.lanes]:
        raise ValueError("the explanations are of different inputs; explain the same block twice")
    if a.scale.code != b.scale.code:
        return _part_scales(a, b)
    pairs = list(zip(a.lanes, b.lanes, strict=True))
    for la, lb in pairs:
        if la.code != lb.code:
            return _part_lanes(a, b, la, lb)
    for la, lb in pairs:
        if la.value_bits != lb.value_bits:
            return Divergence(Stage.VALUE, la.lane, True, _value_words(a, b, la, lb))
    return _part_unseen(a, b)


def _part_scales(a: BlockExplanation, b: BlockExplanation) -> Divergence:
    fmt = a.format.scale
    codes = f"{code_text(a.scale.code, fmt)} against {code_text(b.scale.code, fmt)}"
    start = f"the scale code differs: {codes}, because "
    found = _part_before_scale(a, b)
    if found is not None and found[0] in (Stage.AMAX, Stage.TENSOR_SCALE):
        return Divergence(found[0], None, True, start + found[1])
    if a.candidates or b.candidates:
        stage = Stage.SCALE_CODE
    elif found is not None:
        stage = found[0]
    else:
        stage = Stage.EXPONENT if _exponents_part(a, b) else Stage.SCALE_CODE
    return Divergence(stage, None, True, f"{start}{candidate_words(a)}; against {candidate_words(b)}")


def _part_before_scale(a: BlockExplanation, b: BlockExplanation) -> tuple[Stage, str] | None:
    """The first of amax, tensor scale and scale value that two explanations do not share.

    Scale values are compared where both are encoded by the same rule; else they mean different things.
    """
    if a.amax != b.amax:
        reason = ""
        if a.amax.nan != b.amax.nan:
            reason = ": one passes NaN lanes over"
        elif a.profile.flush_inputs != b.profile.flush_inputs:
            reason = ": one counts subnormals as zeros"
        return Stage.AMAX, f"amax is {number_text(a.amax)} against {number_text(b.amax)}{reason}"
    if a.scale.rule.value == b.scale.rule.value:
        other = dict(b.leaves)
        for name, value in a.leaves:
            if name in other and other[name] != value:
                return (Stage.TENSOR_SCALE, f"{name} is {number_text(value)} against {number_text(other[name])}")
    same_rule = replace(a.scale.rule, value=Const(0)) == replace(b.scale.rule, value=Const(0))
    if same_rule and a.scale.value != b.scale.value:
        words = f"the scale value is {number_text(a.scale.value)} against {number_text(b.scale.value)}"
        return Stage.SCALE_VALUE, words
    return None


def _exponents_part(a: BlockExplanation, b: BlockExplanation) -> bool:
    exponents = a.scale.exponent, b.scale.exponent
    return None not in exponents and exponents[0] != exponents[1]


def candidate_words(e: BlockExplanation) -> str:
    """How the scale code came about; of two candidates, their errors."""
    if not e.candidates:
        return scale_words(e)
    fmt = e.format.scale
    tried = [f"{code_text(c.scale_code, fmt)} (error {number_text(c.error)})" for c in e.candidates]
    return f"the profile tries {' and '.join(tried)} and keeps {code_text(e.scale.code, fmt)}"


def _part_lanes(a: BlockExplanation, b: BlockExplanation, la: LaneExplanation, lb: LaneExplanation) -> Divergence:
    element = a.format.element
    codes = f"{code_text(la.code, element)} against {code_text(lb.code, element)}"
    start = f"the code of lane {la.lane} differs: {codes}, because "
    near_a, near_b = (la.place.lower, la.place.upper), (lb.place.lower, lb.place.upper)
    same_side = la.place.where == lb.place.where and near_a == near_b
    if la.scaled != lb.scaled and not same_side:
        words = (
            f"{_scaled_words(a, la)} {place_words(la.place, element)}; "
            f"against {_scaled_words(b, lb)}, which {place_words(lb.place, element)}"
        )
        return Divergence(Stage.QUOTIENT, la.lane, True, start + words)
    if near_a != near_b:
        words = f"{lane_words(a, la)}; against {lane_words(b, lb)}"
        return Divergence(Stage.NEIGHBOUR, la.lane, True, start + words)
    words = f"{scaled_label(a.quantization)} = {number_text(la.scaled)} {place_words(la.place, element)}"
    return Divergence(Stage.CODE, la.lane, True, f"{start}{words}: {la.rule}; against {lb.rule}")


def _scaled_words(e: BlockExplanation, lane: LaneExplanation) -> str:
    return f"{_brief(plain_text(e.quantization.scaled), 'scaled x')} = {number_text(lane.scaled)}"


def _brief(text: str, otherwise: str) -> str:
    """An expression's text if it is short enough for a sentence."""
    return text if len(text) <= 40 else otherwise


def _value_words(a: BlockExplanation, b: BlockExplanation, la: LaneExplanation, lb: LaneExplanation) -> str:
    ways = [_brief(plain_text(e.quantization.dequantize), "longer arithmetic") for e in (a, b)]
    return (
        f"scale and codes are equal; lane {la.lane} comes back as {number_text(la.value)} ({ways[0]}) "
        f"against {number_text(lb.value)} ({ways[1]})"
    )


def _part_unseen(a: BlockExplanation, b: BlockExplanation) -> Divergence | None:
    equal = "all bits are equal, though "
    found = _part_before_scale(a, b)
    if found is not None:
        return Divergence(found[0], None, False, equal + found[1])
    if _exponents_part(a, b):
        words = f"the exponent before the clamp is {a.scale.exponent} against {b.scale.exponent}"
        return Divergence(Stage.EXPONENT, None, False, equal + words)
    for la, lb in zip(a.lanes, b.lanes, strict=True):
        if la.scaled != lb.scaled:
            words = f"lane {la.lane} is scaled to {number_text(la.scaled)} against {number_text(lb.scaled)}"
            return Divergence(Stage.QUOTIENT, la.lane, False, equal + words)
    return None
