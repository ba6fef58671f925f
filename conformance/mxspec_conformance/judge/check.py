"""`check`: judge a target and report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import mxspec
from mxspec.formats import BLOCKS, get_block
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.counterexample.failure import first_failure
from mxspec_conformance.judge import (
    behaviour as leaf,
    dequantize as judge_dequantize,
    layouts as judge_layouts,
    quantize as judge_quantize,
    scalars as judge_scalars,
    scale as judge_scale,
)
from mxspec_conformance.judge.invariance import batch_shape as judge_shape, repeat as judge_calls
from mxspec_conformance.judge.quantize import Observed
from mxspec_conformance.judge.tally import Scorecard, Tally, common_profile, judge_tally
from mxspec_conformance.judge.tensor_kind import find_other_kind
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.selection import EVERYTHING, quick_selection, use_selection
from mxspec_conformance.results.environment import describe_git
from mxspec_conformance.results.report import Failure, FormatResult, Report, describe_environment
from mxspec_conformance.targets.sessions import TargetSession, open_target
from mxspec_vectors.files import NUMERIC_OPERATIONS, OPERATIONS, vector_digest

Progress = Callable[[str], None]


def check(
    target: Any,
    *,
    profile: str | None = None,
    formats: Sequence[str] | None = None,
    only: str | None = None,
    in_process: bool = False,
    timeout: float = 60.0,
    quick: bool = False,
    progress: Progress = lambda _: None,
) -> Report:
    """Judge a target: a file, a module, a known library's name (each run in a child process), or an object (run here).

    profile: judge against this one; by default against the nearest normative one.
    formats: block formats to judge; by default those that the target lists.
    only: a glob that requirement ids must match.
    timeout: seconds that one call may take in a child process.
    quick: only the cases of the quick level, which find the same mutants.

    Raises TargetError where the target does not load, ValueError for unknown profiles and formats.
    """
    session = open_target(target, in_process=in_process, timeout=timeout)
    with use_selection(quick_selection() if quick else EVERYTHING):
        return _run(session, target, profile, formats, only, progress, quick=quick)


def _run(
    session: TargetSession, target: Any, profile: str | None, formats: Sequence[str] | None, only: str | None, progress: Progress,
    *, quick: bool,
) -> Report:  # fmt: skip
    started = time.monotonic()
    try:
        report = Report(
            target={
                "name": session.capabilities.name,
                "version": session.capabilities.version,
                "road": session.road,
                "capabilities": session.capabilities.as_dict(),
            },
            vectors=vector_digest(operations=OPERATIONS if _has_layouts(session) else NUMERIC_OPERATIONS),
            environment=describe_environment() | describe_git(target) | getattr(session, "environment", {}),
        )
        if quick:
            report.details["level"] = "quick"
        chosen = _choose_formats(session, formats, profile)
        for fmt in chosen:
            progress(fmt)
            _check_format(session, fmt, profile, report, only)
        if profile is None or not chosen:
            _check_scalars(session, formats, report, progress, only)
        if profile is None and formats is None:
            _check_layouts(session, report, progress, only)
        if only is not None:
            report.requirements = [r for r in report.requirements if fnmatchcase(r.id, only)]
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
                f"profile {profile} covers {', '.join(known[profile].formats)}; the target offers {', '.join(offered)}"
            )
    return chosen


def _rank(fmt: str, identical: Sequence[str], scales: Sequence[Any]) -> Callable[[str], tuple[int, ...]]:
    """Among profiles that explain equally much: one that agrees everywhere first, then the one whose scales are nearest."""
    order = {p.id: i for i, p in enumerate(mxspec.list_profiles(fmt))}

    def key(name: str) -> tuple[int, ...]:
        if name not in order:
            return (2, 0, 0)
        return (name not in identical, judge_scale.count_wrong_scales(scales, name), order[name])

    return key


def _check_format(session: TargetSession, fmt: str, profile: str | None, report: Report, only: str | None) -> None:
    block = get_block(fmt)
    profiles = mxspec.list_profiles(fmt)
    normative = [p for p in profiles if p.kind is Kind.NORMATIVE]
    capabilities = session.capabilities
    seen: list[Observed] = []
    no_answers: list[tuple[Any, str, NoAnswer]] = []
    scales: list[Any] = []
    tables: list[Any] = []
    if capabilities.has("quantize"):
        for item in judge_quantize.observe(session, fmt, judge_quantize.load_cases(fmt)):
            if isinstance(item, Observed):
                seen.append(item)
            else:
                no_answers.append(item)
        scales = judge_scale.observe_scales(session, fmt, judge_scale.load_scale_cases(fmt))
    if capabilities.has("dequantize"):
        tables = judge_dequantize.observe_tables(session, fmt)
    lost = [c for c, _, t in no_answers if t.kind != "unsupported"]
    # Cases that were answered, or should have been.
    asked = len(seen) + len(lost) + judge_scale.count_asked(scales)
    candidates = normative if profile is None else [*normative, mxspec.get_profile(profile, fmt)]
    if asked or not tables:
        counted = judge_quantize.distances(seen, lost, block, candidates)
        for p in candidates:
            counted[p.id] += judge_scale.count_wrong_scales(scales, p.id)
    else:
        asked = judge_dequantize.count_asked(tables, block)
        counted = {p.id: judge_dequantize.count_wrong_values(tables, block, p) for p in candidates}
    judged = candidates[-1] if profile else _choose_nearest(block, normative, scales, counted)
    distance = counted[judged.id]

    scorecards = _judge(block, judged, profiles, seen, no_answers, scales, tables)
    drawn: dict[str, Failure] = {}
    for scorecard in scorecards:
        if scorecard.operation == "quantize":
            drawn |= judge_calls.judge_quantize_calls(session, block, seen, scorecard)
            drawn |= judge_shape.judge_quantize_shapes(session, block, seen, scorecard)
        elif scorecard.operation == "dequantize":
            drawn |= judge_calls.judge_dequantize_calls(session, block, tables, scorecard)
            drawn |= judge_shape.judge_dequantize_shapes(session, block, tables, scorecard)
    if capabilities.has("tensor_scale") and block.has_tensor_scale:
        scorecard = Scorecard("tensor_scale", fmt)
        judge_scalars.judge_tensor_scale(session, fmt, judged, scorecard)
        scorecards.append(scorecard)
    tallies = [t for scorecard in scorecards for t in scorecard.tallies.values() if only is None or fnmatchcase(t.id, only)]
    identical = _identical(seen, no_answers, scales, tables, block, profiles)
    # A profile whose scale rule is further from the target's than the judged one explains failures by chance.
    weight = judge_scale.weigh_wrong_scales(scales, judged.id)
    by_chance = {p.id for p in profiles if judge_scale.weigh_wrong_scales(scales, p.id) > weight}
    deviation = common_profile(tallies, _rank(fmt, identical, scales), by_chance)

    def first(tally: Tally) -> Failure | None:
        case = first_failure(session, seen, block, judged, tally) if tally.operation == "quantize" else None
        return case or drawn.get(tally.id)

    requirements = [judge_tally(t, deviation, first) for t in tallies]
    result = FormatResult(
        format=fmt,
        judged_against=judged.id,
        chosen="asked" if profile else "nearest",
        provisional=judged.provisional,
        distance=distance,
        cases=asked,
        distances={p.id: counted[p.id] for p in normative},
        operations=[n for n, found in (("quantize", seen), ("scale", scales), ("dequantize", tables)) if found],
        identical_to=identical,
    )
    if seen:
        result.behaviour = {"scale": leaf.name_scale_rule(scales, block, judged)[0]}
        result.behaviour |= leaf.describe_elements(seen, block, judged)
        result.behaviour |= leaf.describe_special(seen, no_answers, block)
        result.deviations = leaf.list_deviations(result.behaviour, block, judged)
    if any(t.topic == "tensor-scale" and t.failing for t in tallies):
        other = find_other_kind(session, block, profiles)
        result.behaviour |= {f"tensor scale of {function}": kind for function, kind in other.items()}
        words = [
            f"{f} uses its tensor scale as {k}; TENSOR_SCALE says {capabilities.tensor_scale}" for f, k in other.items()
        ]
        # What else parts from the profile follows from that.
        result.deviations = words + ([] if "quantize" in other else result.deviations)
    report.formats.append(result)
    report.requirements += requirements


def _choose_nearest(
    block: mxspec.BlockFormat, normative: Sequence[Profile], scales: Sequence[Any], counted: dict[str, int]
) -> Profile:
    """The profile whose scale rule agrees on most maxima; then the one with the fewest failing cases; then the default.

    Failing cases alone would not do: where the cases lie depends on which other profiles have boundaries there.
    """
    default = mxspec.default_profile(block)
    return min(normative, key=lambda p: (judge_scale.weigh_wrong_scales(scales, p.id), counted[p.id], p is not default))


def _judge(
    block: mxspec.BlockFormat, judged: Profile, profiles: Sequence[Profile], seen: Sequence[Observed],
    no_answers: Sequence[tuple[Any, str, NoAnswer]], scales: Sequence[Any], tables: Sequence[Any],
) -> list[Scorecard]:  # fmt: skip
    scorecards = []
    if seen or no_answers:
        scorecard = Scorecard("quantize", block.name)
        for case, dtype, no_answer in no_answers:
            if judged.id in case.answers:
                scorecard.count_no_answer(case.topic, f"{case.id}@{dtype}", no_answer)
        judge_quantize.judge_all(seen, block, judged, scorecard)
        scorecards.append(scorecard)
    if scales:
        scorecard = Scorecard("scale", block.name)
        judge_scale.judge_scales(scales, block, judged.id, scorecard)
        scorecards.append(scorecard)
    if tables:
        scorecard = Scorecard("dequantize", block.name)
        judge_dequantize.judge_tables(tables, block, judged, scorecard, profiles)
        scorecards.append(scorecard)
    return scorecards


def _identical(
    seen: Sequence[Observed], no_answers: Sequence[tuple[Any, str, NoAnswer]], scales: Sequence[Any], tables: Sequence[Any],
    block: mxspec.BlockFormat, profiles: Sequence[Profile],
) -> list[str]:  # fmt: skip
    """Profiles that agree in every bit of everything observed; both directions must have been compared where offered.

    A case that the target does not answer speaks against the profiles that do.
    """
    lost = [case for case, _, no_answer in no_answers if no_answer.kind != "unsupported"]
    profiles = [p for p in profiles if not any(p.id in case.answers for case in lost)]
    if not seen:
        return [p.id for p in profiles if tables and judge_dequantize.tables_identical(tables, block, p)]
    equal = judge_quantize.identical_profiles(seen, block, profiles)
    return [
        p.id
        for p in profiles
        if p.id in equal
        and judge_scale.scales_identical(scales, block, p)
        and judge_dequantize.tables_identical(tables, block, p)
    ]


def _check_scalars(
    session: TargetSession, formats: Sequence[str] | None, report: Report, progress: Progress, only: str | None
) -> None:
    capabilities = session.capabilities
    wanted = capabilities.elements
    if formats is not None:
        wanted = tuple(e for e in wanted if any(get_block(f).element.name == e for f in formats))
    for element in wanted:
        progress(element)
        for operation, judge in (
            ("encode", judge_scalars.judge_encode),
            ("decode", judge_scalars.judge_decode),
            ("encode_stochastic", judge_scalars.judge_stochastic),
        ):
            if not capabilities.has(operation):
                continue
            if operation == "encode_stochastic" and element not in mxspec.ELEMENTS:
                continue
            scorecard = Scorecard("stochastic" if operation == "encode_stochastic" else operation, element)
            judge(session, element, scorecard)
            drawn = judge_calls.judge_scalar_calls(session, operation, element, scorecard)
            tallies = [t for t in scorecard.tallies.values() if only is None or fnmatchcase(t.id, only)]
            deviation = common_profile(tallies, lambda _: (0,))
            report.requirements += [judge_tally(t, deviation, partial(_no_block, drawn)) for t in tallies]


def _has_layouts(session: TargetSession) -> bool:
    return any(session.capabilities.has(function) for function in judge_layouts.FUNCTIONS)


def _check_layouts(session: TargetSession, report: Report, progress: Progress, only: str | None) -> None:
    for function in judge_layouts.FUNCTIONS:
        if not session.capabilities.has(function):
            continue
        progress(function)
        for layout in judge_layouts.list_judged_layouts(session, function):
            if only is None or fnmatchcase(f"{function}/{layout.name}/place", only) or only.startswith(f"{function}/"):
                found = judge_layouts.judge_layout(session, function, layout)
                report.requirements += [r for r in found if only is None or fnmatchcase(r.id, only)]


def _no_block(drawn: dict[str, Failure], tally: Tally) -> Failure | None:
    if tally.id in drawn:
        return drawn[tally.id]
    return Failure(
        case=next(iter(tally.failing)), given={}, expected={}, returned={},
        steps=[f"see case {next(iter(tally.failing)).split('[')[0]} in the vectors of {tally.operation}/{tally.format}"],
    )  # fmt: skip
