"""Judging one block format: the nearest profile, every stage, verdicts, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

import mxspec
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.counterexample.failure import ask_alone, first_failure, pick_smallest
from mxspec_conformance.counterexample.items import ItemFailure, show_smallest_item
from mxspec_conformance.counterexample.shrink import CallFailure, show_among_vectors, show_smallest_call
from mxspec_conformance.judge.behaviour import find_rounding
from mxspec_conformance.judge.choosing import find_claim, list_candidates
from mxspec_conformance.judge.departures import describe_departures
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.impact import Data, measure_impact
from mxspec_conformance.judge.made import gives_made
from mxspec_conformance.judge.nearest import count_asked, count_declined, find_identical, rank_profiles
from mxspec_conformance.judge.quantize import OWN_SCALE, fails_topic
from mxspec_conformance.judge.scale import count_wrong_scales, weigh_wrong_scales
from mxspec_conformance.judge.scale_search import Search, find_search
from mxspec_conformance.judge.stages import BLOCK_STAGES, OF_LANES, BlockRun, Failures
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.judge.wanted import Wanted
from mxspec_conformance.observations.answers import is_legal, matching_profiles
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.quantize import Observed
from mxspec_conformance.results.report import Failure, FormatResult, Report, Requirement, Verdict
from mxspec_conformance.targets.sessions import TargetSession

#: Topics that fail where the scale is another one; their elements are judged under it.
SCALE_TOPICS = (*OWN_SCALE, "scale-boundary", "scale-tie")


def check_format(session: TargetSession, fmt: str, asked: str | None, report: Report, wanted: Wanted, data: Sequence[Data]) -> None:
    """Judge a block format and enter its requirements and its result.

    asked: the profile to judge by; None: the one that the target claims, else the nearest normative one. data: numbers on which
    to measure what differences mean.
    """
    profile = asked or find_claim(session, fmt)
    observations = Observations(session, fmt)
    block, profiles = observations.fmt, mxspec.list_profiles(fmt)
    candidates = list_candidates(fmt)
    normative = tuple(p.id for p in candidates)
    if profile is not None and profile not in normative:
        candidates.append(mxspec.get_profile(profile, fmt))
    standings = rank_profiles(observations, candidates)
    standing = next(s for s in standings if profile in (None, s.profile.id))
    tied = [s for s in standings if s.identical and s.failing + s.silent == standing.failing + standing.silent]
    if profile is None and len(tied) > 1:  # few vectors are numbers of float16: the blocks that are made say more
        standing = next((s for s in tied if gives_made(session, block, s.profile, observations.answered)), standing)
    judged = standing.profile
    identical = find_identical(observations, profiles)

    run = BlockRun(observations, judged, profiles, pinned=profile is not None)
    done = _run_stages(run, wanted)
    excusable = profile is None and not identical
    if excusable and wanted.only is not None:
        # Whether scales are searched hangs on all requirements.
        excusable = any(t.failing and t.topic in SCALE_TOPICS and wanted.fits(t.id) for t in done.tallies)
        done = _run_stages(run, replace(wanted, only=None)) if excusable else done
    tallies, drawn = done.tallies, done.first
    # A profile whose scale rule is further from the target's than the judged one explains failures by chance.
    weight = weigh_wrong_scales(observations.scales, judged.id)
    by_chance = {p.id for p in profiles if weigh_wrong_scales(observations.scales, p.id) > weight}
    explanation = common_explanation(
        done.of_vectors, _rank_explanations(observations, identical), lambda e: e.cause is Cause.PROFILE and e.name in by_chance
    )

    @cache
    def list_wrong() -> list[Observed]:
        return [s for s in observations.answered if s.case.is_row and not is_legal(s, block, judged.id)]

    def in_vectors(tally: Tally | None) -> Failure | None:
        """The smallest failing case of a requirement, or of any, if it is right alone: in the smallest call in which it is not."""
        one = pick_smallest(list_wrong(), [s.label for s in list_wrong()] if tally is None else tally.failing)
        alone = None if one is None else ask_alone(session, one, block)
        if one is None or alone is None or not is_legal(alone, block, judged.id):
            return None
        return show_among_vectors(session, observations.answered, one, block, judged)

    def first(tally: Tally, *, guess: bool) -> Failure | None:
        is_block = tally.operation == "quantize"
        case = None
        if is_block and tally.failing:
            if wrong_in_call := in_vectors(tally):
                return _add_step(wrong_in_call, drawn.get(tally.id))
            fails = partial(fails_topic, topic=tally.topic, fmt=block, profile=judged)
            # A case of the vectors rather than a block that was made.
            drawn_of = (
                first_failure(session, seen, block, judged, tally.failing, fails, guess=guess)
                for seen in (observations.answered, observations.made)
            )
            case = next(filter(None, drawn_of), None)
        failure = case or drawn.get(tally.id) or (None if tally.show is None else tally.show())
        if isinstance(failure, ItemFailure):
            failure = show_smallest_item(session, failure)
        if isinstance(failure, CallFailure):
            # What is expected in a call is what came back in that of the vectors, where a block may have been the wrong one.
            small = show_smallest_call(session, failure, block, judged) or in_vectors(None)
            failure = failure.as_seen if small is None else _add_step(small, failure)
        return failure

    later: list[Tally] = []

    def put_off(tally: Tally) -> None:
        later.append(tally)

    def reason(tally: Tally) -> Explanation | None:
        """What explains the format, or else the tensor scale, a decoder or random words alone, which have arithmetic of their own."""
        if tally.operation not in ("tensor_scale", "dequantize", "stochastic") or all(explanation in e for e in tally.equals.values()):
            return explanation
        return common_explanation([tally], lambda _: (), lambda e: e.cause is not Cause.CONVERSION_MISTAKE) or explanation

    described = run.described
    # What answers nothing at all refuses nothing in particular.
    refuses = bool(observations.answered) and not described
    requirements = [judge_tally(t, reason(t), put_off, described=described, may_refuse=refuses) for t in tallies]
    chosen = "asked" if asked else "claimed" if profile else "nearest"
    search = _excuse_search(observations, judged, requirements) if excusable else None
    report.requirements += requirements
    distances = {s.profile.id: s.failing for s in standings}
    if not profile and not identical and any(r.verdict in (Verdict.FAIL, Verdict.DEVIATION) for r in requirements):
        closest = rank_profiles(observations, profiles)[0]
        distances[closest.profile.id] = closest.failing + closest.silent
        normative = tuple(dict.fromkeys((*normative, closest.profile.id)))
    result = FormatResult(
        format=fmt,
        judged_against=judged.id,
        chosen=chosen,
        provisional=judged.provisional,
        distance=standing.failing,
        cases=count_asked(observations),
        declined=count_declined(observations, judged),
        distances={name: distances[name] for name in normative},
        operations=[
            name
            for name, found in (("quantize", observations.answered), ("scale", observations.scales), ("dequantize", observations.tables))
            if found
        ],
        identical_to=identical,
        open_cases=_count_open(observations, judged, tallies, requirements),
    )
    describe_departures(session, observations, judged, tallies, requirements, search, result)
    of_id = {r.id: r for r in requirements}
    for tally in later:  # where all blocks have a cause, one block's guess may contradict it
        of_id[tally.id].first = first(tally, guess=not result.causes) if wanted.fits(tally.id) else None
    if observations.answered:
        result.impact = measure_impact(session, block, judged, data)
    report.formats.append(result)


def _add_step(small: Failure, large: Failure | None) -> Failure:
    """The smallest call, with what a larger one shows of the mistake: that says more than one block."""
    return (
        small
        if large is None
        else replace(small, steps=[*small.steps, *(f"in a larger call: {step}" for step in large.steps if step not in small.steps)])
    )


def _excuse_search(observations: Observations, profile: Profile, requirements: Sequence[Requirement]) -> Search | None:
    """Where scales were searched, requirements about a rule of the scale are open; only if nothing else is wrong, but for a rounding
    that explains every element."""
    wrong = [r for r in requirements if r.operation in ("quantize", "scale") and r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    bad = [r for r in wrong if r.topic in SCALE_TOPICS]
    if not bad or any(r.topic not in OF_LANES for r in wrong if r not in bad):
        return None
    others = [p for p in mxspec.list_profiles(observations.fmt) if p.kind is Kind.NORMATIVE and p is not profile]
    # Its candidates may lie about the scale of another rule than the nearest one, and its quotients may be those of another profile.
    roundings = (
        (p, find_rounding(observations.answered, observations.fmt, p) if len(bad) < len(wrong) else None) for p in (profile, *others)
    )
    searches = (find_search(observations, p, r) for p, r in roundings if r is not None or len(bad) == len(wrong))
    search = next(filter(None, searches), None)
    if search is not None:
        for requirement in bad:
            requirement.verdict, requirement.note, requirement.explained_by = Verdict.OPEN, search.text, ""
    return search


def _count_open(observations: Observations, judged: Profile, tallies: Sequence[Tally], requirements: Sequence[Requirement]) -> int:
    """Of the cases that differ from the profile, those that fail nothing but what is open."""
    is_open = {r.id for r in requirements if r.verdict is Verdict.OPEN}
    accused: set[str] = set()
    for tally in tallies:
        if tally.operation in ("quantize", "scale") and tally.id not in is_open:
            accused.update(tally.failing, (c for c, n in tally.no_answers.items() if not n.is_unsupported))
    count = 0
    for seen in observations.answered:
        if seen.label not in accused:
            found = matching_profiles(seen, observations.fmt, signs=seen.case.topic == "zero-sign")
            count += any(name == judged.id and not matches for name, matches in found)
    for item in observations.unanswered:
        count += not item.reason.is_unsupported and judged.id in item.case.answers and item.label not in accused
    for scale in observations.scales:
        expected = scale.case.answers.get(judged.id)
        if expected is not None and not isinstance(scale.returned, NoAnswer):
            wrong = np.flatnonzero(scale.returned != expected).tolist()
            count += sum(scale.case.label(i) not in accused for i in wrong)
    return count


@dataclass(frozen=True, slots=True)
class _Done:
    """What the stages of a format came to."""

    tallies: list[Tally]
    #: As they stood before anything was asked again: what they have in common explains the failures.
    of_vectors: list[Tally]
    #: The first failing call of each requirement.
    first: Failures


def _run_stages(run: BlockRun, wanted: Wanted) -> _Done:
    """The stages of which a requirement is wanted, or explains one that is."""
    scorecards: dict[str, Scorecard] = {}
    of_vectors: dict[str, Tally] = {}
    first: Failures = {}
    offered, name = run.session.capabilities, run.fmt.name
    every = [stage for function, stages in BLOCK_STAGES.items() if offered.has(function) for stage in stages]
    explains = any(stage.explains and wanted.any_of(stage.operation, name, stage.topics) for stage in every)
    for stage in every:
        if stage.is_of_calls and not wanted.calls:
            continue
        if not ((stage.explains and explains) or wanted.any_of(stage.operation, name, stage.topics)):
            continue
        card = scorecards.setdefault(stage.operation, Scorecard(stage.operation, name, wanted))
        first |= stage.judge(run, card)
        if stage.explains:
            of_vectors |= {t.id: replace(t, failing=dict(t.failing), equals=dict(t.equals)) for t in card.tallies.values()}
    return _Done([t for card in scorecards.values() for t in card.tallies.values()], list(of_vectors.values()), first)


def _rank_explanations(observations: Observations, identical: Sequence[str]) -> Callable[[Explanation], tuple[int, ...]]:
    """Among what explains equally much: a profile that agrees everywhere, then the one whose scales are nearest, then others."""
    order = {p.id: i for i, p in enumerate(mxspec.list_profiles(observations.fmt))}

    def key(explanation: Explanation) -> tuple[int, ...]:
        if explanation.cause is not Cause.PROFILE:
            return (2, 0, 0)
        name = explanation.name
        return name not in identical, count_wrong_scales(observations.scales, name), order.get(name, len(order))

    return key
