"""The questions about causes, in the order in which they are asked, and what each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum, auto

from mxspec.profiles.schema import Profile
from mxspec.rounding import Rounding
from mxspec_conformance.judge.causes import divisor, inputs, maximum, order, quotient, stored_scale
from mxspec_conformance.judge.causes.calls import (
    CALL_ALONE,
    are_right_alone,
    find_chance,
    find_nan_state,
    find_other_blocks,
    find_own_tensor_scale,
    find_tiles,
)
from mxspec_conformance.judge.causes.inputs import flush_inputs
from mxspec_conformance.judge.causes.known import OF_ELEMENTS, OF_SCALE, Found, KnownCause
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_conformance.judge.explanation import ROUNDING_TEXT
from mxspec_conformance.judge.invariance.answered import Answered
from mxspec_conformance.observations.format import Observations


class Need(Enum):
    """What a question is about; where there is no such thing, it is not asked."""

    #: Cases of quantize that were answered, in any dtype and shape.
    CASES = auto()
    #: Ordinary blocks of the first dtype that were answered.
    ROWS = auto()
    #: The same where a quotient decides the codes.
    QUOTIENTS = auto()
    #: Scales of block maxima.
    MAXIMA = auto()
    #: Blocks under a tensor scale.
    TENSOR_SCALES = auto()
    #: Inputs in float32 and in another dtype.
    OTHER_DTYPES = auto()
    #: A format with E8M0 scales.
    MX = auto()
    #: A sign bit next to a magnitude.
    SIGNS = auto()
    #: Elements below the smallest normal one.
    SUBNORMALS = auto()


#: Whether there is what a need names.
MET: Mapping[Need, Callable[[Seen], bool]] = {
    Need.CASES: lambda seen: bool(seen.answered),
    Need.ROWS: lambda seen: bool(seen.rows),
    Need.QUOTIENTS: lambda seen: bool(seen.divided),
    Need.MAXIMA: lambda seen: bool(seen.scales),
    Need.TENSOR_SCALES: lambda seen: any(r.tensor is not None for r in seen.rows),
    Need.OTHER_DTYPES: lambda seen: "float32" in seen.dtypes and len(seen.dtypes) > 1,
    Need.MX: lambda seen: seen.fmt.is_mx,
    Need.SIGNS: lambda seen: not seen.fmt.element.twos_complement,
    Need.SUBNORMALS: lambda seen: bool(seen.fmt.element.mantissa_bits),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one cause, or about two that exclude each other."""

    ask: Callable[[Seen], Found | None]
    needs: tuple[Need, ...]


#: In the order in which causes are reported: what explains most first.
QUESTIONS = (
    Question(order.misread_layout, (Need.ROWS,)),
    Question(order.transposed_scales, (Need.CASES,)),
    Question(inputs.flushed_subnormals, (Need.ROWS,)),
    Question(inputs.narrow_inputs, (Need.ROWS,)),
    Question(inputs.misread_tensor_scale, (Need.ROWS, Need.TENSOR_SCALES)),
    Question(maximum.range_as_maximum, (Need.ROWS,)),
    Question(stored_scale.constant_scale, (Need.MAXIMA,)),
    Question(stored_scale.moved_scales, (Need.MAXIMA, Need.MX)),
    Question(stored_scale.wrapped_scales, (Need.MAXIMA, Need.MX)),
    Question(stored_scale.nearest_log2, (Need.MAXIMA, Need.MX)),
    Question(stored_scale.flushed_scales, (Need.MAXIMA,)),
    Question(stored_scale.other_rule, (Need.MAXIMA,)),
    Question(divisor.misread_scale, (Need.QUOTIENTS,)),
    Question(divisor.missing_tensor_scale, (Need.QUOTIENTS, Need.TENSOR_SCALES)),
    Question(divisor.narrow_tensor_scale, (Need.QUOTIENTS, Need.TENSOR_SCALES)),
    Question(divisor.uncaught_zero, (Need.ROWS, Need.SIGNS)),
    Question(divisor.unclamped_scale, (Need.QUOTIENTS, Need.MX)),
    Question(quotient.whole_numbers, (Need.QUOTIENTS,)),
    Question(quotient.lost_sticky_bit, (Need.QUOTIENTS, Need.SIGNS, Need.SUBNORMALS)),
    Question(quotient.own_overflow, (Need.QUOTIENTS,)),
    Question(quotient.reserved_exponent, (Need.QUOTIENTS, Need.SIGNS, Need.SUBNORMALS)),
    Question(quotient.half_added, (Need.QUOTIENTS,)),
    Question(quotient.other_quotient, (Need.QUOTIENTS,)),
    Question(quotient.narrow_quotient, (Need.QUOTIENTS,)),
    Question(divisor.narrow_reciprocal, (Need.QUOTIENTS,)),
    Question(divisor.unrounded_scale, (Need.ROWS,)),
    Question(maximum.narrow_maximum, (Need.MAXIMA,)),
    Question(quotient.inexact_reciprocal, (Need.ROWS, Need.SIGNS)),
    Question(maximum.signed_maximum, (Need.ROWS,)),
    Question(maximum.lanes_looked_at, (Need.ROWS,)),
    Question(inputs.wrong_dtypes, (Need.CASES, Need.OTHER_DTYPES)),
)
#: Cause -> others that explain every block, of which it is then a consequence, and no cause of its own.
_COVERED_BY: Mapping[KnownCause, Set[KnownCause]] = {
    KnownCause.RECIPROCAL: OF_ELEMENTS,
    KnownCause.SCALE_RULE: {KnownCause.SCALE_NEAREST_LOG2, KnownCause.SCALE_OFFSET, KnownCause.SCALE_BIAS, KnownCause.RANGE_AS_MAXIMUM},
    KnownCause.NARROW_MAXIMUM: {KnownCause.NARROW_INPUT, KnownCause.SCALE_NEAREST_LOG2},
    KnownCause.NARROW_QUOTIENT: {KnownCause.NARROW_INPUT},
    KnownCause.SCALE_OFFSET: {KnownCause.RANGE_AS_MAXIMUM},
    KnownCause.SCALE_BIAS: {KnownCause.RANGE_AS_MAXIMUM},
}


def _ask(seen: Seen, questions: Iterable[Question]) -> list[Found]:
    asked = (question.ask(seen) for question in questions if all(MET[need](seen) for need in question.needs))
    return [one for one in asked if one is not None]


def _round_elements(profile: Profile, rounding: Rounding) -> Profile:
    forms = {name: form for name in ("one_level", "two_level") if (form := getattr(profile, name)) is not None}
    return replace(profile, **{name: replace(form, element=form.element.with_rounding(rounding)) for name, form in forms.items()})


def _ask_beside(seen: Seen, rounding: Rounding | None) -> list[Found]:
    """Causes of wrong elements that show where another mistake is taken into account: a rounding, or subnormals that count as zeros."""
    others, flushed = {}, flush_inputs(seen)
    if any((r.x != other.x).any() for r, other in zip(seen.rows, flushed.rows, strict=True)):
        others = {"float32 subnormals of the input count as zeros (flush to zero)": flushed}
    if rounding is not None and rounding is not Rounding.RNE:
        others = {
            f"elements are rounded {ROUNDING_TEXT[rounding]}": replace(seen, profile=_round_elements(seen.profile, rounding)),
            **others,
        }
    for words, other in others.items():
        asked = (q for q in QUESTIONS if Need.QUOTIENTS in q.needs or q.ask is inputs.flushed_subnormals)
        if any(other.wrong_codes) and (found := _ask(other, asked)):
            return [Found(one.cause, f"{one.text}; besides, {words}") for one in found]
    return []


def find_causes(observations: Observations, profile: Profile, again: Answered | None, rounding: Rounding | None = None) -> list[Found]:
    """The causes that are known of a quantizer that fails something; the one that explains most first.

    Args:
        observations: What the target returned. Its session is asked again.
        profile: The profile that it is judged by.
        again: Blocks that it has answered in one call, for the same call to be made again; None asks for nothing twice.
        rounding: What explains every ordinary element, if one rounding does.

    Returns:
        Nothing, or one cause that makes all others doubtful (chance, the call, an order, what a NaN leaves), or all that explain what was returned; a floor or
        ceiling of the scale comes last, as it says nothing of the blocks between.
    """
    session = observations.session
    changing = None if again is None else find_chance(session, again)
    if changing or (changing := find_own_tensor_scale(session, observations.fmt)):
        return [changing]
    seen = Seen.of(observations, profile)
    in_calls = None
    if again is not None:
        in_calls = find_nan_state(session, seen, again) or find_tiles(session, seen, again) or find_other_blocks(session, seen)
    if in_calls:
        return [in_calls]
    found = _ask(seen, QUESTIONS)
    names = {one.cause for one in found}
    if names <= OF_SCALE and any(seen.wrong_codes):
        found += _ask_beside(seen, rounding)
    causes = [one for one in found if not names & _COVERED_BY.get(one.cause, set())]
    if not causes and are_right_alone(session, seen):
        return [CALL_ALONE]
    return [*causes, Found(KnownCause.SCALE_BOUNDED, seen.bounds.text)] if seen.bounds.text else causes
