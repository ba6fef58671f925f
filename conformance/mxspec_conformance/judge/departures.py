"""How a target parts from the profile that it is judged by: traits, open choices, and causes."""

from __future__ import annotations

from collections.abc import Sequence

import mxspec
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.behaviour import Trait, TraitName, describe, find_rounding, list_deviations, list_open_choices
from mxspec_conformance.judge.causes import CALL_ALONE, OF_ELEMENTS, OF_SCALE, KnownCause, find_causes, find_no_answer, find_no_numbers
from mxspec_conformance.judge.invariance.answered import answered_blocks
from mxspec_conformance.judge.scale_search import Search
from mxspec_conformance.judge.tally import Tally
from mxspec_conformance.judge.tensor_kind import find_mixed_kinds
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.selection import EVERYTHING, selects, use_selection
from mxspec_conformance.results.report import GOOD, FormatResult, Requirement, Verdict
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import Level

#: Topics of whose cases some have the maxima at which zeros may be lost.
_LOSES_ZEROS = ("tensor-scale",)


def describe_departures(
    session: TargetSession, observations: Observations, judged: Profile, tallies: Sequence[Tally], requirements: Sequence[Requirement],
    search: Search | None, result: FormatResult,
) -> None:  # fmt: skip
    """Enter how the target behaves, how that departs from the judged profile, what it chooses where OCP leaves that open, and
    what causes explain failures."""
    block, profiles = observations.fmt, mxspec.list_profiles(observations.fmt)
    traits: list[Trait] = []
    if observations.answered:
        traits = describe(observations.answered, observations.unanswered, observations.scales, block, judged)
        result.behaviour = {trait.name.value: trait.text for trait in traits}
        result.deviations = list_deviations(traits, judged)
        result.open_choices = list_open_choices(traits, judged)
    if judged.lost_zeros and any(t.failing and t.topic in _LOSES_ZEROS for t in tallies):
        result.open_choices.append(f"by {judged.id} {judged.lost_zeros}")
    traits_of_scale = [t.deviation for t in traits if t.name is TraitName.SCALE]
    mixed_up = []
    # A selection may have no failing case of that topic.
    anywhere = selects() and block.has_tensor_scale
    if any(t.failing and (anywhere or t.topic == "tensor-scale") for t in tallies):
        with use_selection(EVERYTHING):
            mixed_up = find_mixed_kinds(session, block, profiles)
        result.behaviour |= {f"tensor scale of {one.function}": one.kind for one in mixed_up}
        # What else departs from the profile follows from that.
        kept = [] if any(one.function == "quantize" for one in mixed_up) else result.deviations
        result.deviations = [one.words(session.capabilities.tensor_scale) for one in mixed_up] + kept
    accused = [r for r in requirements if r.operation in ("quantize", "scale") and r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    by_calls = {r.topic for r in accused} <= {"call-size", "memory", "state"}
    # Where every block is another profile's, that explains what deviates.
    asks = by_calls or not result.identical_to or any(r.verdict is Verdict.FAIL for r in accused)
    if accused and asks and not any(one.function == "quantize" for one in mixed_up):
        rounding = find_rounding(observations.answered, block, judged)
        causes = find_causes(observations, judged, answered_blocks(session, block, observations.answered), rounding)
        if not causes and by_calls:
            causes = [CALL_ALONE]
        # What a cause explains wholly, the traits describe badly; one of the scale says nothing of elements, nor the reverse, a floor nothing of the rest.
        named = {c.cause for c in causes} - {KnownCause.SCALE_BOUNDED}
        kept = [d for d in result.deviations if not named or named <= (OF_ELEMENTS if d in traits_of_scale else OF_SCALE)]
        result.deviations = [c.text for c in causes] + kept
        result.causes = [c.cause.value for c in causes]
    broken = [r for r in requirements if r.topic == "nan" and r.level != Level.OPEN and r.verdict not in GOOD]
    if any(r.operation == "quantize" for r in broken):  # in FP8 elements NaN is not left open; nor is whether a call ends, in any
        lost = [t.deviation for t in traits if t.name is TraitName.NAN and t.deviation in result.open_choices]
        result.open_choices = [c for c in result.open_choices if c not in lost]
        result.deviations += lost
    if search is not None:
        result.open_choices.append(f"scale: {search.text}")
        result.deviations = [d for d in result.deviations if d not in traits_of_scale]
        result.causes.append(KnownCause.SCALE_SEARCH.value)
    if odd := find_no_numbers(observations) if session.capabilities.may_stray(block.name) else None:
        found, alone = odd
        if KnownCause.OTHER_BLOCKS.value not in result.causes:  # which explains the numbers that the format does not have
            result.deviations = [found.text, *([] if alone else result.deviations)]
            result.causes = [found.cause.value, *([] if alone else result.causes)]
    if none := find_no_answer(observations) if session.capabilities.has("quantize") else None:
        result.deviations, result.causes = [none.text], [none.cause.value]
    if mixed_up:
        result.causes.insert(0, KnownCause.TENSOR_SCALE_KIND.value)
