"""`fuzz`: batches until the time is over, then each cause of what was seen, once."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor as Pool
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec.profiles import find_variant, get_profile
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.campaign import Outcome, WorkItem, describe_work, open_state, open_workers, run_work_items
from mxspec_conformance.campaign.profile import find_profile, nearest_profile
from mxspec_conformance.campaign.state import Result, State
from mxspec_conformance.campaign.workers import close_targets
from mxspec_conformance.counterexample.mismatch import Mismatch
from mxspec_conformance.fuzzing.batch import run_batch
from mxspec_conformance.fuzzing.coverage import Coverage, Reach
from mxspec_conformance.fuzzing.findings import Finding, Reduced, reduce_mismatches
from mxspec_conformance.fuzzing.job import Job
from mxspec_conformance.fuzzing.no_answers import reduce_no_answer
from mxspec_conformance.fuzzing.products.batch import run_product_batch
from mxspec_conformance.fuzzing.products.findings import ProductFinding
from mxspec_conformance.fuzzing.products.job import PRODUCTS, ProductJob
from mxspec_conformance.fuzzing.products.report import (
    conclude_product,
    describe_product,
    list_product_requirements,
    plan_products,
)
from mxspec_conformance.results.environment import describe_environment, describe_git
from mxspec_conformance.results.report import Failure, FormatResult, Report, Requirement, Verdict
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.entries import has_level
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest
from mxspec_vectors.points import TENSOR_AMAXES
from mxspec_vectors.topics import Level, bind_level

#: Tensor maxima under which nvfp4 is fuzzed.
TENSORS = ("unit", "odd", "thousandth", "large")
#: Mismatches that are kept of a campaign.
MAX_SIGHTINGS = 4000

Progress = Callable[[str], None]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long, from which seed, of what."""

    seed: int = 0
    minutes: float = 1.0
    #: Stop after so many batches of each job instead of after a time.
    batches: int | None = None
    formats: tuple[str, ...] = ()
    profile: str | None = None
    #: Only these products, by name; formats are then left out.
    products: tuple[str, ...] = ()
    #: The class by which products are judged; None: the declared one, or float32.
    accumulator: str | None = None
    #: End with the first batch in which something is wrong.
    first: bool = False


@dataclass(slots=True)
class Campaign:
    """What a campaign came to."""

    report: Report
    findings: list[Finding]
    coverage: dict[str, Coverage] = field(default_factory=dict)
    #: Causes of wrong products.
    products: list[ProductFinding] = field(default_factory=list)


def fuzz(
    target: Any,
    settings: Settings,
    *,
    state_file: Path | None = None,
    fresh: bool = False,
    jobs: int = 1,
    dask: str | None = None,
    pool: Pool | None = None,
    timeout: float = 60.0,
    in_process: bool = False,
    progress: Progress = lambda _: None,
) -> Campaign:
    """Search for inputs, and ways of calling, on which a target differs from a profile. This is `mxspec fuzz`.

    Args:
        target: As for `check`.
        settings: Seed, time or number of batches, formats, profile.
        state_file: Save finished batches to this file and resume from it.
        fresh: Ignore what the state file holds.
        jobs: Number of worker processes; targets that are objects run here, one after the other.
        dask: The address of a Dask scheduler, to be used instead of processes.
        pool: Any `concurrent.futures.Executor`, `jobs` of whose workers are kept busy, to be used instead of processes.
        timeout: Seconds that one call may take; not for targets in this process.
        in_process: Run the target inside the workers.
        progress: Called with a word about each step.

    Returns:
        The report, the minimized failures by cause, and the coverage.

    Raises:
        TargetError: The target does not load.
        StateError: The state file is of another campaign.
        ValueError: Format and profile do not fit the target.
    """
    started = time.monotonic()
    session = open_target(target, in_process=in_process, timeout=timeout)
    spec = target if isinstance(target, str) else session
    try:
        products = _plan_products(session, spec, settings, timeout, in_process, progress)
        formats, planned = _plan(session, spec, settings, timeout, in_process, progress, optional=bool(products))
        identity = _identify(target, session, settings, planned, products)
        deadline = None if settings.batches is not None else started + 60 * settings.minutes
        local = jobs if isinstance(spec, str) else 1
        with open_state(state_file, identity, fresh=fresh) as state, open_workers(local, dask, pool) as workers:
            outcome = _run([*planned, *products], settings, state, workers, deadline, progress, started)
        campaign = _conclude(session, spec, planned, formats, state, settings, outcome, progress)
        _conclude_products(session, products, campaign, state, settings, progress)
        campaign.report.environment |= describe_git(target) | getattr(session, "environment", {})
        campaign.report.environment["campaign"]["workers"] = workers.name
    finally:
        close_targets()
        session.close()
    campaign.report.seconds = time.monotonic() - started
    return campaign


def _plan_products(
    session: TargetSession, spec: Any, settings: Settings, timeout: float, in_process: bool, progress: Progress
) -> list[ProductJob]:
    """Products, unless a profile is asked for: it says nothing of them."""
    if settings.profile is not None and not settings.products:
        return []
    return plan_products(
        session, spec, names=settings.products, formats=settings.formats, accumulator=settings.accumulator, seed=settings.seed,
        timeout=timeout, in_process=in_process, progress=progress,
    )  # fmt: skip


def _plan(
    session: TargetSession, spec: Any, settings: Settings, timeout: float, in_process: bool, progress: Progress, *, optional: bool
) -> tuple[list[FormatResult], list[Job]]:
    """The jobs of quantizers. optional: whether there are products, so that there need be none of these."""
    capabilities = session.capabilities
    if settings.products:
        return [], []
    wanted = settings.formats or tuple(f for f in BLOCKS if f in capabilities.formats)
    if optional:
        wanted = tuple(f for f in wanted if f in capabilities.formats)
    planned: list[Job] = []
    formats: list[FormatResult] = []
    lost: list[str] = []
    for name in wanted:
        if name not in capabilities.formats:
            raise ValueError(f"{capabilities.name} offers {', '.join(capabilities.formats)}; not {name}")
        progress(f"{name}: which profile is nearest")
        fmt = get_block(name)
        if settings.profile is not None:
            profile, distance, asked = find_profile(settings.profile, fmt), 0, 0
        else:
            try:
                profile, distance, asked = nearest_profile(session, fmt)
            except ValueError as error:
                lost.append(f"{name}: {error}")
                continue
        mine = _plan_format(session, spec, fmt, profile, settings, timeout, in_process)
        planned += mine
        operations = [
            o for o, c in (("quantize", False), ("dequantize", True)) if any((j.dtype == "codes") is c for j in mine)
        ]
        formats.append(
            FormatResult(
                format=name, judged_against=profile.id, chosen="asked" if settings.profile else "nearest",
                provisional=profile.provisional, distance=distance, cases=asked, operations=operations,
            )
        )  # fmt: skip
    if not planned and optional:
        return formats, planned
    if not planned and (capabilities.repeats or capabilities.has("dequantize")):
        found = ", ".join(lost + [f"{f.format}: {f.judged_against}" for f in formats])
        raise ValueError(
            f"{capabilities.name} has nothing that can be fuzzed: the profiles found ({found}) do not fit its dtypes or tensor "
            "scale; if it answers no call, `mxspec check` says why, else pass --profile"
        )
    if not planned:
        why = "its quantize rounds stochastically" if capabilities.has("quantize") else "it needs quantize, dequantize or matmul"
        raise ValueError(f"{capabilities.name} has nothing that can be fuzzed: {why}")
    return formats, planned


def _plan_format(
    session: TargetSession,
    spec: Any,
    fmt: BlockFormat,
    profile: Profile,
    settings: Settings,
    timeout: float,
    in_process: bool,
) -> list[Job]:
    capabilities = session.capabilities
    planned: list[Job] = []
    tensors = [None, *(TENSOR_AMAXES[t] for t in TENSORS)] if fmt.has_tensor_scale else [None]

    def takes(function: str, tensor: int | None) -> bool:
        asked = capabilities.repeats if function == "quantize" else capabilities.has(function)
        if not asked or not has_level(profile, two_level=tensor is not None):
            return False
        return capabilities.one_level if tensor is None else capabilities.has(function, "tensor_scale")

    for tensor in tensors:
        if takes("quantize", tensor):
            for dtype in capabilities.dtypes:
                own = find_variant(profile, dtype)
                if own is not None and has_level(own, two_level=tensor is not None):
                    planned.append(Job(spec, fmt.name, own.id, tensor, dtype, settings.seed, timeout, in_process))
        if takes("dequantize", tensor):
            planned.append(Job(spec, fmt.name, profile.id, tensor, "codes", settings.seed, timeout, in_process))
    return planned


def _identify(
    target: Any, session: TargetSession, settings: Settings, planned: Sequence[Job], products: Sequence[ProductJob]
) -> dict[str, Any]:
    digest = ""
    if isinstance(target, (str, os.PathLike)) and Path(target).is_file():
        digest = hashlib.sha256(Path(target).read_bytes()).hexdigest()
    of_products = [[j.name, j.text, j.class_name, j.contract_name, PRODUCTS] for j in products]
    return {
        **({"products": of_products} if of_products else {}),
        "command": "fuzz", "target": session.capabilities.name, "version": session.capabilities.version,
        "file": digest, "seed": settings.seed, "jobs": [[j.name, j.profile, j.blocks] for j in planned], "batches": 1,
    }  # fmt: skip


def run_piece(job: Job | ProductJob, number: int) -> Result:
    """One batch of either kind."""
    return run_product_batch(job, number) if isinstance(job, ProductJob) else run_batch(job, number)


def _pieces(planned: Sequence[Job | ProductJob], batches: int | None) -> Iterator[WorkItem]:
    """One batch of every job, then the next of every job; codes, which are soon exhausted, more rarely."""
    for number in count() if batches is None else range(batches):
        for job in planned:
            if isinstance(job, ProductJob) or job.dtype != "codes" or number % 4 == 0:
                yield WorkItem(f"{job.name}/{number:06d}", (job, number))


def _run(
    planned: Sequence[Job | ProductJob], settings: Settings, state: State, workers: Any, deadline: float | None,
    progress: Progress, started: float,
) -> Outcome:  # fmt: skip
    elements = failing = 0

    def tick(_key: str, result: Result) -> bool:
        nonlocal elements, failing
        elements += result["elements"]
        failing += result["failing"] + len(result["memory"])
        rate = elements / max(time.monotonic() - started, 1e-3) / 1e6
        progress(
            f"{len(state.finished)} batches, {elements / 1e6:.0f} M elements ({rate:.1f} M/s), {failing} blocks or products differ"
        )
        return not (settings.first and (result["failing"] or result["memory"] or result["no_answers"]))

    return run_work_items(_pieces(planned, settings.batches), run_piece, state, workers, deadline=deadline, on_result=tick)


def _conclude(
    session: TargetSession, spec: Any, planned: Sequence[Job], formats: list[FormatResult], state: State, settings: Settings,
    outcome: Outcome, progress: Progress,
) -> Campaign:  # fmt: skip
    by_name = {j.name: j for j in planned}
    mismatches: list[tuple[Job, Mismatch]] = []
    coverage: dict[str, Coverage] = {}
    totals: dict[str, dict[str, Any]] = {}
    for key, result in sorted(state.finished.items(), key=lambda item: (item[0].rpartition("/")[2], item[0])):
        if key.rpartition("/")[0] not in by_name:  # a product's
            continue
        job = by_name[key.rpartition("/")[0]]
        total = totals.setdefault(job.fmt, _empty_total())
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
        known = coverage.setdefault(label, _empty_coverage(job))
        known.merge(result["coverage"])
        if len(mismatches) < MAX_SIGHTINGS:
            mismatches += [(job, Mismatch.from_dict(s)) for s in result["mismatches"]]
    restart = None
    if isinstance(spec, str) and planned:
        # A file is loaded anew in this process; a module or library only in a new one.
        restart = Restart(spec, planned[0].timeout)
    reduced = reduce_mismatches(mismatches, session, restart, progress=progress)
    no_answers: dict[str, Failure] = {}
    for fmt, total in totals.items():
        for text, no_answer in list(total["no_answers"].items())[:3]:
            progress(f"reducing: {text[:40]}")
            drawn = reduce_no_answer(by_name[no_answer["job"]], no_answer, session)
            if drawn is not None:
                no_answers.setdefault(fmt, drawn)
    report = _report(session, formats, totals, coverage, reduced, no_answers, settings, outcome)
    return Campaign(report, reduced.findings, coverage)


def _conclude_products(
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
        total, reduced, coverage = conclude_product(job, keyed, session, progress)
        result = describe_product(job, asked=settings.accumulator is not None, declared=bool(session.capabilities.accumulator))
        result.cases, result.distance = total["products"], total["failing"]
        result.deviations = [f.words for f in reduced.findings]
        report.formats.append(result)
        report.requirements += list_product_requirements(job, total, reduced)
        report.details["totals"][job.fmt] = total
        report.details.setdefault("product_coverage", {})[job.fmt] = coverage
        report.details["findings"] += [
            {
                "format": job.fmt, "topic": f.topic, "cause": f.words, "mismatches": f.mismatches, "pattern": f.depends.value,
                "nonzero_products": f.nonzero, "accumulator": job.class_name, "contract": job.contract_name,
            }
            for f in reduced.findings
        ]  # fmt: skip
        report.details["not_reduced"] += reduced.left
        campaign.products += reduced.findings


@dataclass(frozen=True, slots=True)
class Restart:
    """Loads a target anew."""

    spec: str
    timeout: float

    def __call__(self) -> TargetSession:
        return open_target(self.spec, in_process=self.spec.endswith(".py"), timeout=self.timeout)


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
    session: TargetSession, formats: list[FormatResult], totals: dict[str, dict[str, Any]], coverage: dict[str, Coverage],
    reduced: Reduced, no_answers: dict[str, Failure], settings: Settings, outcome: Outcome,
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
        total = totals.get(result.format)
        if total is not None:
            report.requirements += _requirements(result, total, reduced, no_answers.get(result.format))
    report.details = {
        "seed": settings.seed,
        "totals": totals,
        "coverage": {name: c.counts() for name, c in coverage.items()},
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
