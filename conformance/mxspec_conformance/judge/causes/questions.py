"""The questions about causes, in the order in which they are asked, and what each needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import Enum, auto

from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.causes import divisor, inputs, maximum, order, quotient, stored_scale
from mxspec_conformance.judge.causes.calls import (
    CALL_ALONE,
    are_right_alone,
    find_chance,
    find_nan_state,
    find_own_tensor_scale,
    find_tiles,
)
from mxspec_conformance.judge.causes.known import OF_ELEMENTS, Found, KnownCause
from mxspec_conformance.judge.causes.seen import Seen
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
    Question(maximum.range_as_maximum, (Need.ROWS,)),
    Question(stored_scale.moved_scales, (Need.MAXIMA, Need.MX)),
    Question(stored_scale.wrapped_scales, (Need.MAXIMA, Need.MX)),
    Question(stored_scale.nearest_log2, (Need.MAXIMA, Need.MX)),
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
    KnownCause.SCALE_OFFSET: {KnownCause.RANGE_AS_MAXIMUM},
    KnownCause.SCALE_BIAS: {KnownCause.RANGE_AS_MAXIMUM},
}


def find_causes(observations: Observations, profile: Profile, again: Answered | None) -> list[Found]:
    """The causes that are known of a quantizer that fails something; the one that explains most first.

    Args:
        observations: What the target returned. Its session is asked again.
        profile: The profile that it is judged by.
        again: Blocks that it has answered in one call, for the same call to be made again; None asks for nothing twice.

    Returns:
        Nothing, or one cause that makes all others doubtful (chance, the call, an order, what a NaN leaves), or all that explain what was returned; a floor or
        ceiling of the scale comes last, as it says nothing of the blocks between.
    """
    session = observations.session
    changing = None if again is None else find_chance(session, again)
    if changing or (changing := find_own_tensor_scale(session, observations.fmt)):
        return [changing]
    seen = Seen.of(observations, profile)
    in_calls = None if again is None else find_nan_state(session, seen, again) or find_tiles(session, seen, again)
    if in_calls:
        return [in_calls]
    asked = [question.ask(seen) for question in QUESTIONS if all(MET[need](seen) for need in question.needs)]
    found = [one for one in asked if one is not None]
    names = {one.cause for one in found}
    causes = [one for one in found if not names & _COVERED_BY.get(one.cause, set())]
    if not causes and are_right_alone(session, seen):
        return [CALL_ALONE]
    return [*causes, Found(KnownCause.SCALE_BOUNDED, seen.bounds.text)] if seen.bounds.text else causes
