"""From what the batches of a campaign found to its report: causes, coverage, requirements and their verdicts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mxspec.profiles import get_profile
from mxspec.profiles.schema import Kind
from mxspec_conformance.campaign import Outcome, describe_work
from mxspec_conformance.campaign.state import State
from mxspec_conformance.counterexample.mismatch import Mismatch
from mxspec_conformance.fuzzing.coverage import Coverage, Reach
from mxspec_conformance.fuzzing.findings import Finding, Reduced, reduce_mismatches
from mxspec_conformance.fuzzing.job import Job
from mxspec_conformance.fuzzing.no_answers import reduce_no_answer
from mxspec_conformance.fuzzing.operations.findings import OperationFinding
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.operations.report import conclude_operation
from mxspec_conformance.fuzzing.planning import Progress, Settings
from mxspec_conformance.fuzzing.products.findings import ProductFinding
from mxspec_conformance.fuzzing.products.job import ProductJob
from mxspec_conformance.fuzzing.products.report import conclude_product, describe_product, list_product_requirements
from mxspec_conformance.results.environment import describe_environment
from mxspec_conformance.results.report import Failure, FormatResult, Report, Requirement, Verdict
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest
from mxspec_vectors.topics import Level, bind_level

#: Mismatches that are kept of a campaign.
MAX_SIGHTINGS = 4000

_TEXTS = {
    "scale": (Level.SHOULD, "scales are the profile's"),
    "element": (Level.MUST, "elements are the profile's under the scale returned"),
    "zero-sign": (Level.OPEN, "the sign of zero is the profile's"),
    "special": (Level.OPEN, "blocks with NaN, infinities or zeros are stored as the profile says, or as OCP leaves open"),
    "calls": (Level.CONTRACT, "an answer does not depend on the call: its size, place, memory and number"),
    "value": (Level.MUST, "dequantized values are the profile's"),
    "value-zero-sign": (Level.OPEN, "the sign of a dequantized zero is the profile's"),
    "memory": (Level.CONTRACT, "a call leaves its inputs and earlier answers alone"),
    "answers": (Level.CONTRACT, "the target answers"),
}


@dataclass(slots=True)
class Campaign:
    """What a campaign came to."""

    report: Report
    findings: list[Finding]
    coverage: dict[str, Coverage] = field(default_factory=dict)
    #: Causes of wrong products.
    products: list[ProductFinding] = field(default_factory=list)
    #: Causes of wrong groups of affine integers and sparse operands.
    operations: list[OperationFinding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Restart:
    """Loads a target anew."""

    spec: str
    timeout: float

    def __call__(self) -> TargetSession:
        return open_target(self.spec, in_process=self.spec.endswith(".py"), timeout=self.timeout)


@dataclass(slots=True)
class _Seen:
    """The batches of a campaign's blocks, added up."""

    #: By format.
    totals: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: By format, and of codes that are dequantized by format and `codes`.
    coverage: dict[str, Coverage] = field(default_factory=dict)
    mismatches: list[tuple[Job, Mismatch]] = field(default_factory=list)


def _add_up(by_name: Mapping[str, Job], state: State) -> _Seen:
    """What the batches of these jobs found; those of products are left out."""
    seen = _Seen()
    for key, result in sorted(state.finished.items(), key=lambda item: (item[0].rpartition("/")[2], item[0])):
        job = by_name.get(key.rpartition("/")[0])
        if job is None:
            continue
        total = seen.totals.setdefault(job.fmt, _empty_total())
        for name in ("blocks", "elements", "calls", "failing"):
            total[name] += result[name]
        total["batches"] += 1
        for name in ("compared", "broken"):
            for relation, number in result["relations"][name].items():
                total["relations"].setdefault(relation, {"compared": 0, "broken": 0})[name] += number
        for name, no_answer in result["no_answers"].items():
            total["no_answers"].setdefault(name, {**no_answer, "count": 0})["count"] += no_answer["count"]
        total["memory"] |= result["memory"]
        label = f"{job.fmt} {job.dtype}" if job.dtype == "codes" else job.fmt
        seen.coverage.setdefault(label, _empty_coverage(job)).merge(result["coverage"])
        if len(seen.mismatches) < MAX_SIGHTINGS:
            seen.mismatches += [(job, Mismatch.from_dict(s)) for s in result["mismatches"]]
    return seen


def conclude(
    session: TargetSession, spec: Any, planned: Sequence[Job], formats: list[FormatResult], state: State, settings: Settings,
    outcome: Outcome, progress: Progress,
) -> Campaign:  # fmt: skip
    """The campaign without its products: every batch of blocks added up, each cause reduced to its smallest block.

    Args:
        session: The target, which is asked again for the reductions.
        spec: What the target is loaded from; an object is not loaded anew.
        planned: The jobs of blocks.
        formats: The results so far, one for each format; they become those of the report.
        state: The finished batches.
        settings: What the campaign was asked for.
        outcome: How its work ended.
        progress: Called with a word about each step.

    Returns:
        The campaign, its report without seconds and without the target's environment.
    """
    by_name = {j.name: j for j in planned}
    seen = _add_up(by_name, state)
    restart = None
    if isinstance(spec, str) and planned:
        # A file is loaded anew in this process; a module or library only in a new one.
        restart = Restart(spec, planned[0].timeout)
    reduced = reduce_mismatches(seen.mismatches, session, restart, progress=progress)
    no_answers: dict[str, Failure] = {}
    for fmt, total in seen.totals.items():
        for text, no_answer in list(total["no_answers"].items())[:3]:
            progress(f"reducing: {text[:40]}")
            drawn = reduce_no_answer(by_name[no_answer["job"]], no_answer, session)
            if drawn is not None:
                no_answers.setdefault(fmt, drawn)
    report = _report(session, formats, seen, reduced, no_answers, settings, outcome)
    return Campaign(report, reduced.findings, seen.coverage)


def enter_products(
    session: TargetSession, products: Sequence[ProductJob], campaign: Campaign, state: State, settings: Settings, progress: Progress
) -> None:
    """Enter what batches of products came to."""
    report = campaign.report
    for job in products:
        keyed = [
            (int(key.rpartition("/")[2]), result)
            for key, result in sorted(state.finished.items())
            if key.rpartition("/")[0] == job.name
        ]
        judged, total, reduced, coverage = conclude_product(job, keyed, session, progress)
        result = describe_product(judged, asked=settings.accumulator is not None, declared=bool(session.capabilities.accumulator))
        result.cases, result.distance = total["products"], total["failing"]
        result.deviations = [f.words for f in reduced.findings]
        report.formats.append(result)
        report.requirements += list_product_requirements(job, total, reduced)
        report.details["totals"][job.fmt] = total
        report.details.setdefault("product_coverage", {})[job.fmt] = coverage
        report.details["findings"] += [
            {
                "format": job.fmt, "topic": f.topic, "cause": f.words, "mismatches": f.mismatches, "pattern": f.depends.value,
                "nonzero_products": f.nonzero, "accumulator": judged.class_name, "contract": judged.contract_name,
            }
            for f in reduced.findings
        ]  # fmt: skip
        report.details["not_reduced"] += reduced.left
        campaign.products += reduced.findings


def enter_operations(
    session: TargetSession, operations: Sequence[OperationJob], campaign: Campaign, state: State, progress: Progress
) -> None:
    """Enter what batches of groups of affine integers and sparse operands came to."""
    report = campaign.report
    for job in operations:
        keyed = [
            (int(key.rpartition("/")[2]), result)
            for key, result in sorted(state.finished.items())
            if key.rpartition("/")[0] == job.name
        ]
        result, total, reduced, requirements = conclude_operation(job, keyed, session, progress)
        report.formats.append(result)
        report.requirements += requirements
        report.details["totals"][job.fmt] = total
        report.details["findings"] += [
            {
                "format": job.fmt, "topic": f.topic, "cause": f.words, "mismatches": f.mismatches, "pattern": f.depends.value,
                "nonzero_lanes": f.nonzero, "profile": result.judged_against,
            }
            for f in reduced.findings
        ]  # fmt: skip
        report.details["not_reduced"] += reduced.left
        report.details["not_seen_again"] += [f"{job.fmt}: {reduced.lost} batches"] * bool(reduced.lost)
        campaign.operations += reduced.findings


def _empty_total() -> dict[str, Any]:
    return {
        "batches": 0, "blocks": 0, "elements": 0, "calls": 0, "failing": 0, "relations": {}, "no_answers": {}, "memory": {},
    }  # fmt: skip


def _empty_coverage(job: Job) -> Coverage:
    fmt = job.block_format
    if job.dtype == "codes":
        return Coverage({Reach.CODES_UNDER_SCALES: np.zeros(fmt.scale.code_count << fmt.element.bits, np.bool_)})
    return Coverage.empty(job.space)


def _report(
    session: TargetSession, formats: list[FormatResult], seen: _Seen, reduced: Reduced, no_answers: dict[str, Failure],
    settings: Settings, outcome: Outcome,
) -> Report:  # fmt: skip
    capabilities = session.capabilities
    report = Report(
        kind="fuzz",
        target={
            "name": capabilities.name, "version": capabilities.version, "transport": session.transport,
            "capabilities": capabilities.as_dict(),
        },
        vectors=vector_digest(operations=NUMERIC_OPERATIONS),
        environment=describe_environment() | {"load": [round(x, 2) for x in os.getloadavg()]},
        formats=formats,
    )  # fmt: skip
    for result in formats:
        total = seen.totals.get(result.format)
        if total is not None:
            report.requirements += _requirements(result, total, reduced, no_answers.get(result.format))
    report.details = {
        "seed": settings.seed,
        "totals": seen.totals,
        "coverage": {name: c.counts() for name, c in seen.coverage.items()},
        "findings": [
            {
                "format": f.job.fmt, "topic": f.topic, "cause": f.words, "mismatches": f.mismatches, "pattern": f.pattern.words,
                "nonzero_lanes": f.nonzero, "profile": f.job.profile,
            }
            for f in reduced.findings
        ],
        "not_seen_again": reduced.lost_words[:20],
        "not_reduced": reduced.left,
        "stopped": outcome.stopped,
        "pieces": {"lost": outcome.lost},
    }  # fmt: skip
    report.environment["campaign"] = describe_work([outcome])
    return report


def _requirements(
    result: FormatResult, total: dict[str, Any], reduced: Reduced, no_answer: Failure | None
) -> list[Requirement]:
    quantizes, dequantizes = "quantize" in result.operations, "dequantize" in result.operations
    topics = [
        *(("scale", "element", "zero-sign", "special", "calls", "memory") if quantizes else ("calls",)),
        *(("value", "value-zero-sign") if dequantizes else ()), "answers",
    ]  # fmt: skip
    requirements = []
    described = get_profile(result.judged_against, result.format).kind is not Kind.NORMATIVE
    for topic in dict.fromkeys(topics):
        text = _TEXTS[topic][1]
        level = bind_level(_TEXTS[topic][0], result.format, described=described)
        own = [f for f in reduced.findings if f.job.fmt == result.format and f.topic == topic]
        failing = sum(f.mismatches for f in own)
        notes = [f.words for f in own]
        first: Failure | None = own[0].failure if own else None
        verdict = Verdict.PASS if not own else Verdict.OPEN if level is Level.OPEN else Verdict.FAIL
        if topic == "memory" and total["memory"]:
            verdict, notes, failing = Verdict.FAIL, list(total["memory"].values()), len(total["memory"])
        if topic == "answers" and total["no_answers"]:
            refused = all(n["kind"] == FailureKind.UNSUPPORTED for n in total["no_answers"].values())
            verdict = Verdict.UNSUPPORTED if refused else Verdict.ERROR
            notes = [f"{k} ({t['call']}, {t['count']} times)" for k, t in total["no_answers"].items()]
            failing = sum(t["count"] for t in total["no_answers"].values())
            first = no_answer
        if topic == "calls" and not own and reduced.lost:
            verdict, failing = Verdict.FAIL, reduced.lost
            notes = [f"{reduced.lost} wrong answers did not come again when the same call was repeated: they depend on chance, or on earlier calls"]
        requirements.append(
            Requirement(
                id=f"fuzz/{result.format}/{topic}", level=level.value, text=text, verdict=verdict, cases=total["blocks"],
                failing=failing, note="; ".join(notes)[:400], failing_cases=[f.words[:120] for f in own][:20], first=first,
            )
        )  # fmt: skip
    return requirements
