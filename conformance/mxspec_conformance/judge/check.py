"""`check`: judge a target and report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import BLOCKS, get_block
from mxspec.profiles import find_profile
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.counterexample.failure import first_failure
from mxspec_conformance.judge import layouts as judge_layouts
from mxspec_conformance.judge.affine.stage import judge_affine
from mxspec_conformance.judge.behaviour import TraitName, describe, list_deviations, list_open_choices
from mxspec_conformance.judge.causes import CALL_ALONE, KnownCause, find_causes, find_silence
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.impact import Data, measure_impact, normal_data
from mxspec_conformance.judge.invariance.answered import answered_blocks
from mxspec_conformance.judge.nearest import count_asked, find_identical, rank_profiles
from mxspec_conformance.judge.products.judging import judge_product, list_products
from mxspec_conformance.judge.quantize import OWN_SCALE, fails_topic
from mxspec_conformance.judge.scale import count_wrong_scales, weigh_wrong_scales
from mxspec_conformance.judge.scale_search import Search, find_search
from mxspec_conformance.judge.shapes import fit_session
from mxspec_conformance.judge.sparse import judge_sparse, list_topics
from mxspec_conformance.judge.stages import BLOCK_STAGES, SCALAR_STAGES, BlockRun, Failures
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.judge.tensor_kind import find_mixed_kinds
from mxspec_conformance.judge.wanted import EVERYTHING, Wanted
from mxspec_conformance.observations.answers import matching_profiles
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.selection import (
    EVERYTHING as EVERY_CASE,
    Selection,
    quick_selection,
    selects,
    use_selection,
)
from mxspec_conformance.results.environment import describe_environment, describe_git
from mxspec_conformance.results.report import Failure, FormatResult, Report, Requirement, Verdict
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS, read_operand
from mxspec_conformance.targets.fitting import FittedSession
from mxspec_conformance.targets.interface import SPARSE_FUNCTIONS
from mxspec_conformance.targets.sessions import TOTAL_SECONDS, TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.files import FURTHER_OPERATIONS, NUMERIC_OPERATIONS, vector_digest

Progress = Callable[[str], None]


def check(
    target: Any,
    *,
    profile: str | None = None,
    formats: Sequence[str] | None = None,
    only: str | None = None,
    in_process: bool = False,
    timeout: float = 60.0,
    total_timeout: float = TOTAL_SECONDS,
    quick: bool = False,
    selection: Selection | None = None,
    data: Sequence[Data] | None = None,
    progress: Progress = lambda _: None,
    begun: Callable[[Report], None] = lambda _: None,
) -> Report:
    """Judge a target bit for bit by the golden vectors. This is `mxspec check`.

    Args:
        target: A path or name as on the command line (Python file, module, known library, shared library, "cmd:PROGRAM",
            results file), run in a process of its own; or a Python object with functions of the interface, run in this
            process; or an open session.
        profile: Judge against this profile; default: the one that the target claims, else the nearest normative one.
        formats: Block formats to judge; default: those that the target lists.
        only: A glob that requirement ids must match.
        in_process: Run a path or name in this process, too.
        timeout: Seconds that one call may take; not for targets in this process.
        total_timeout: Seconds that all calls together may take; what is not asked by then is a time-out.
        quick: Use only the cases of the quick set, which kill the same mutants.
        selection: Use only these cases; default: all, or the quick set.
        data: Numbers on which to measure what differences mean (`judge.impact`); default: those of N(0, 1). No verdict depends
            on it.
        progress: Called with a word about each step.
        begun: Called with the report that is about to be filled, format by format: what it holds at an interrupt was judged.

    Returns:
        Every requirement with its verdict, and for each format the profile, the behaviour and the deviations found.

    Raises:
        TargetError: The target does not load, or declares what the interface does not have.
        ValueError: An unknown profile or format, or a profile that covers no format of the target.
    """
    if only is not None and not isinstance(only, str):
        raise TypeError(f"only is a {type(only).__name__}; pass one pattern of requirements, such as 'quantize/*/nan'")
    if profile is not None:
        profile = find_profile(profile).id
    session = open_target(target, in_process=in_process, timeout=timeout, total=total_timeout)
    with use_selection(selection or (quick_selection() if quick else EVERY_CASE)):
        return _run(
            session, target, profile, formats, only, progress, begun, quick=quick, data=(normal_data(),) if data is None else data
        )


def _run(
    session: TargetSession, target: Any, profile: str | None, formats: Sequence[str] | None, only: str | None, progress: Progress,
    begun: Callable[[Report], None], *, quick: bool, data: Sequence[Data],
) -> Report:  # fmt: skip
    started = time.monotonic()
    try:
        report = Report(
            target={
                "name": session.capabilities.name,
                "version": session.capabilities.version,
                "transport": session.transport,
                "capabilities": session.capabilities.as_dict(),
            },
            vectors=vector_digest(operations=_name_operations(session)),
            environment=describe_environment() | describe_git(target) | getattr(session, "environment", {}),
        )
        if quick:
            report.details["level"] = "quick"
        begun(report)
        wanted = Wanted(only)
        chosen = _choose_formats(session, formats, profile)
        session = fit_session(session, chosen)
        if isinstance(session, FittedSession):
            report.details["shapes"] = session.describe_limits()
        for fmt in chosen:
            if any(wanted.any_of(stage.operation, fmt) for stages in BLOCK_STAGES.values() for stage in stages):
                progress(fmt)
                _check_format(session, fmt, profile, report, wanted, data)
        if profile is None or not chosen:
            _check_scalars(session, formats, report, progress, wanted)
        if profile is None and formats is None:
            _check_affine(session, report, progress, wanted)
            _check_layouts(session, report, progress, wanted)
            _check_sparse(session, report, progress, wanted)
        if profile is None:
            _check_products(session, formats, report, progress, wanted)
        report.requirements = [r for r in report.requirements if wanted.fits(r.id)]
        if only is not None:
            report.details["only"] = only
            for result in report.formats:
                result.partial = True
    finally:
        session.close()
    report.seconds = time.monotonic() - started
    return report


def _choose_formats(session: TargetSession, formats: Sequence[str] | None, profile: str | None) -> list[str]:
    offered = session.capabilities.formats
    for name in formats or ():
        get_block(name)
    chosen = [f for f in BLOCKS if f in offered and (formats is None or f in formats)]
    if profile is not None:
        known = {p.id: p for p in mxspec.list_profiles()}
        if profile not in known:
            close = get_close_matches(profile, known, n=3) or [p.id for p in known.values() if p.kind is Kind.NORMATIVE]
            raise ValueError(
                f"unknown profile {profile!r}; {len(known)} are known, {', '.join(close)} among them: see `mxspec profiles`"
            )
        chosen = [f for f in chosen if f in known[profile].formats]
        if not chosen:
            raise ValueError(
                f"profile {profile} covers {', '.join(known[profile].formats)}; the target offers {', '.join(offered) or 'none'}"
            )
    return chosen


def _find_claim(session: TargetSession, fmt: str) -> str | None:
    """The profile that the target claims for a format."""
    covering = {p.id for p in mxspec.list_profiles(fmt)}
    return next((name for name in session.capabilities.claimed_profiles if name in covering), None)


def _check_format(
    session: TargetSession, fmt: str, asked: str | None, report: Report, wanted: Wanted, data: Sequence[Data]
) -> None:
    profile = asked or _find_claim(session, fmt)
    observations = Observations(session, fmt)
    block, profiles = observations.fmt, mxspec.list_profiles(fmt)
    candidates = [p for p in profiles if p.kind is Kind.NORMATIVE]
    normative = tuple(p.id for p in candidates)
    if profile is not None and profile not in normative:
        candidates.append(mxspec.get_profile(profile, fmt))
    standings = rank_profiles(observations, candidates)
    standing = next(s for s in standings if profile in (None, s.profile.id))
    judged = standing.profile
    identical = find_identical(observations, profiles)

    run = BlockRun(observations, judged, profiles, pinned=profile is not None)
    done = _run_stages(run, wanted)
    excusable = profile is None and not identical
    if excusable and wanted != EVERYTHING:
        # Whether scales are searched hangs on all requirements.
        excusable = any(t.failing and t.topic in SCALE_TOPICS and wanted.fits(t.id) for t in done.tallies)
        done = _run_stages(run, EVERYTHING) if excusable else done
    tallies, drawn = done.tallies, done.first
    # A profile whose scale rule is further from the target's than the judged one explains failures by chance.
    weight = weigh_wrong_scales(observations.scales, judged.id)
    by_chance = {p.id for p in profiles if weigh_wrong_scales(observations.scales, p.id) > weight}
    explanation = common_explanation(
        done.of_vectors,
        _rank_explanations(observations, identical),
        lambda e: e.cause is Cause.PROFILE and e.name in by_chance,
    )

    def first(tally: Tally) -> Failure | None:
        is_block = tally.operation == "quantize"
        case = None
        if is_block and tally.failing:
            fails = partial(fails_topic, topic=tally.topic, fmt=block, profile=judged)
            case = first_failure(session, observations.answered, block, judged, tally.failing, fails)
        return case or drawn.get(tally.id) or (None if tally.show is None else tally.show())

    def silent(tally: Tally) -> Failure | None:
        return None

    described = judged.kind is not Kind.NORMATIVE
    # What answers nothing at all refuses nothing in particular.
    refuses = bool(observations.answered) and not described
    requirements = [
        judge_tally(t, explanation, first if wanted.fits(t.id) else silent, described=described, may_refuse=refuses) for t in tallies
    ]
    chosen = "asked" if asked else "claimed" if profile else "nearest"
    search = _excuse_search(observations, judged, requirements) if excusable else None
    report.requirements += requirements
    distances = {s.profile.id: s.failing for s in standings}
    result = FormatResult(
        format=fmt,
        judged_against=judged.id,
        chosen=chosen,
        provisional=judged.provisional,
        distance=standing.failing,
        cases=count_asked(observations),
        distances={name: distances[name] for name in normative},
        operations=[
            name
            for name, found in (
                ("quantize", observations.answered),
                ("scale", observations.scales),
                ("dequantize", observations.tables),
            )
            if found
        ],
        identical_to=identical,
        open_cases=_count_open(observations, judged, tallies, requirements),
    )
    _describe_departures(session, observations, judged, tallies, requirements, search, result)
    if observations.answered:
        result.impact = measure_impact(session, block, judged, data)
    report.formats.append(result)


def _describe_departures(
    session: TargetSession, observations: Observations, judged: Profile, tallies: Sequence[Tally], requirements: Sequence[Requirement],
    search: Search | None, result: FormatResult,
) -> None:  # fmt: skip
    """Enter how the target behaves, how that departs from the judged profile, what it chooses where OCP leaves that open, and
    what causes explain failures."""
    block, profiles = observations.fmt, mxspec.list_profiles(observations.fmt)
    traits_of_scale: list[str] = []
    if observations.answered:
        traits = describe(observations.answered, observations.unanswered, observations.scales, block, judged)
        result.behaviour = {trait.name.value: trait.text for trait in traits}
        result.deviations = list_deviations(traits, judged)
        traits_of_scale = [t.deviation for t in traits if t.name is TraitName.SCALE]
        result.open_choices = list_open_choices(traits, judged)
    mixed_up = []
    # A selection may have no failing case of that topic.
    anywhere = selects() and block.has_tensor_scale
    if any(t.failing and (anywhere or t.topic == "tensor-scale") for t in tallies):
        with use_selection(EVERY_CASE):
            mixed_up = find_mixed_kinds(session, block, profiles)
        result.behaviour |= {f"tensor scale of {one.function}": one.kind for one in mixed_up}
        # What else departs from the profile follows from that.
        kept = [] if any(one.function == "quantize" for one in mixed_up) else result.deviations
        result.deviations = [one.words(session.capabilities.tensor_scale) for one in mixed_up] + kept
    accused = [r for r in requirements if r.operation in ("quantize", "scale") and r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    by_calls = {r.topic for r in accused} <= {"call-size", "memory", "state"}
    if accused and (by_calls or not result.identical_to) and not any(one.function == "quantize" for one in mixed_up):
        causes = find_causes(observations, judged, answered_blocks(session, block, observations.answered))
        if not causes and by_calls:
            causes = [CALL_ALONE]
        # What a cause explains wholly, the traits describe badly.
        result.deviations = [c.text for c in causes] + ([] if causes else result.deviations)
        result.causes = [c.cause.value for c in causes]
    if search is not None:
        result.open_choices.append(f"scale: {search.text}")
        result.deviations = [d for d in result.deviations if d not in traits_of_scale]
        result.causes.append(KnownCause.SCALE_SEARCH.value)
    if silence := find_silence(observations) if session.capabilities.has("quantize") else None:
        result.deviations, result.causes = [silence.text], [silence.cause.value]
    if mixed_up:
        result.causes.insert(0, KnownCause.TENSOR_SCALE_KIND.value)


#: Topics that fail where the scale is another one; their elements are judged under it.
SCALE_TOPICS = (*OWN_SCALE, "scale-boundary", "scale-tie")


def _excuse_search(observations: Observations, profile: Profile, requirements: Sequence[Requirement]) -> Search | None:
    """Where scales were searched, requirements about a rule of the scale are open; only if nothing else is wrong."""
    bad = [r for r in requirements if r.operation in ("quantize", "scale") and r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    if not bad or any(r.topic not in SCALE_TOPICS for r in bad):
        return None
    others = [p for p in mxspec.list_profiles(observations.fmt) if p.kind is Kind.NORMATIVE and p is not profile]
    # Its candidates may lie about the scale of another rule than the nearest one.
    search = next(filter(None, (find_search(observations, p) for p in (profile, *others))), None)
    if search is not None:
        for requirement in bad:
            requirement.verdict, requirement.note, requirement.explained_by = Verdict.OPEN, search.text, ""
    return search


def _count_open(
    observations: Observations, judged: Profile, tallies: Sequence[Tally], requirements: Sequence[Requirement]
) -> int:
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
        if not ((stage.explains and explains) or wanted.any_of(stage.operation, name, stage.topics)):
            continue
        card = scorecards.setdefault(stage.operation, Scorecard(stage.operation, name, wanted))
        first |= stage.judge(run, card)
        if stage.explains:
            of_vectors |= {t.id: replace(t, failing=dict(t.failing), equals=dict(t.equals)) for t in card.tallies.values()}
    return _Done([t for card in scorecards.values() for t in card.tallies.values()], list(of_vectors.values()), first)


def _rank_explanations(
    observations: Observations, identical: Sequence[str]
) -> Callable[[Explanation], tuple[int, ...]]:
    """Among what explains equally much: a profile that agrees everywhere, then the one whose scales are nearest, then others."""
    order = {p.id: i for i, p in enumerate(mxspec.list_profiles(observations.fmt))}

    def key(explanation: Explanation) -> tuple[int, ...]:
        if explanation.cause is not Cause.PROFILE:
            return (2, 0, 0)
        name = explanation.name
        return name not in identical, count_wrong_scales(observations.scales, name), order.get(name, len(order))

    return key


def _check_scalars(
    session: TargetSession, formats: Sequence[str] | None, report: Report, progress: Progress, wanted: Wanted
) -> None:
    capabilities = session.capabilities
    elements = capabilities.elements
    if formats is not None:
        elements = tuple(e for e in elements if any(get_block(f).element.name == e for f in formats))
    for element in elements:
        progress(element)
        for function, stages in SCALAR_STAGES.items():
            if not capabilities.has(function) or (function == "encode_stochastic" and element not in mxspec.ELEMENTS):
                continue
            scorecard = Scorecard(stages[0].operation, element, wanted)
            drawn: Failures = {}
            for stage in stages:
                if wanted.any_of(stage.operation, element, stage.topics):
                    drawn |= stage.judge(session, element, scorecard)
            tallies = list(scorecard.tallies.values())
            explanation = common_explanation(tallies, lambda _: (0,))
            answers = any(len(t.no_answers) < len(t.cases) for t in scorecard.tallies.values())
            report.requirements += [
                judge_tally(t, explanation, partial(_no_block, drawn), may_refuse=answers) for t in tallies
            ]


def _check_affine(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    capabilities = session.capabilities
    claims = {"quantize_affine": capabilities.affine_profile, "dequantize_affine": capabilities.affine_contract}
    for function, claimed in claims.items():
        for name in capabilities.affine if capabilities.has(function) else ():
            fmt = read_operand(name).format.name
            if not wanted.any_of(function, fmt):
                continue
            progress(f"{function} {fmt}")
            found, standing = judge_affine(session, function, name, claimed)
            report.requirements += found
            if standing is not None:
                entry = {"judged_against": standing.profile, "failing": standing.failing, "cases": standing.cases}
                report.details.setdefault("affine", {}).setdefault(fmt, {})[function] = entry


def _name_operations(session: TargetSession) -> tuple[str, ...]:
    """The operations whose vectors a result speaks of."""
    # Products are judged by calls of the judge's own design.
    functions: dict[str, Collection[str]] = {"dot": (), "layout": judge_layouts.FUNCTIONS, "sparse": SPARSE_FUNCTIONS} | {f: (f,) for f in AFFINE_FUNCTIONS}
    return (*NUMERIC_OPERATIONS, *(o for o in FURTHER_OPERATIONS if any(map(session.capabilities.has, functions[o]))))


def _check_layouts(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    pairs = [
        (function, layout)
        for function in judge_layouts.FUNCTIONS
        if session.capabilities.has(function)
        for layout in judge_layouts.list_judged_layouts(session, function)
        if wanted.any_of(function, layout.name)
    ]
    found: dict[tuple[str, str], list[Requirement]] = {}
    # What is asked of a layout's functions is drawn once for all of them; they are reported function by function.
    for function, layout in sorted(pairs, key=lambda pair: pair[1].name):
        progress(f"{function} {layout.name}")
        found[function, layout.name] = judge_layouts.judge_layout(session, function, layout, wanted)
    for function, layout in pairs:
        report.requirements += found[function, layout.name]


def _check_products(
    session: TargetSession, formats: Sequence[str] | None, report: Report, progress: Progress, wanted: Wanted
) -> None:
    """Products; where formats are named, those with a side in one of them."""
    for name, product in list_products(session):
        named = formats is None or product.has_format(formats)
        if named and wanted.any_of("matmul", name):
            progress(name)
            requirements, result = judge_product(session, name, product)
            report.requirements += requirements
            report.formats.append(result)


def _check_sparse(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    for function in filter(session.capabilities.has, SPARSE_FUNCTIONS):
        progress(function)
        for fmt in session.capabilities.sparse_formats:
            if wanted.any_of(function, fmt, list_topics(function, fmt)):
                report.requirements += judge_sparse(session, function, fmt)


def _no_block(drawn: dict[str, Failure], tally: Tally) -> Failure | None:
    if tally.id in drawn:
        return drawn[tally.id]
    return None if tally.show is None else tally.show()
