"""`prove`: plan the pieces, run them, and say what has been proven, and what not."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Pool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.formats import BlockFormat, get_block
from mxspec.profiles import find_variant
from mxspec.profiles.schema import Profile
from mxspec_conformance.campaign import (
    Outcome,
    Workers,
    WorkItem,
    describe_work,
    open_state,
    open_workers,
    run_work_items,
)
from mxspec_conformance.campaign.profile import find_profile, nearest_profile
from mxspec_conformance.campaign.state import Result, State
from mxspec_conformance.campaign.workers import close_targets
from mxspec_conformance.proving import work
from mxspec_conformance.proving.judge import Judged, judge_proof
from mxspec_conformance.proving.maxima import CHUNK_BITS
from mxspec_conformance.proving.refusals import name_obstacle
from mxspec_conformance.proving.work import Job
from mxspec_conformance.results.environment import describe_environment, describe_git
from mxspec_conformance.results.report import FormatResult, Report
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest

#: Drawn inputs of a proof do not change from run to run.
SEED = 20231
PAIR_DTYPES = ("bfloat16", "float16")

#: Called with words, pieces done and pieces in all.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be proven, and how far."""

    fmt: str
    profile: str | None = None
    dtypes: tuple[str, ...] = PAIR_DTYPES
    #: float32 bits of tensor maxima; None stands for the form without a tensor scale.
    tensors: tuple[int | None, ...] = (None,)
    #: Ask all 2**31 float32 maxima instead of those where the scale changes.
    all_maxima: bool = False
    block: tuple[int, int] | None = None
    #: This share of the pieces, of so many.
    part: tuple[int, int] = (1, 1)
    minutes: float | None = None


@dataclass(slots=True)
class _Stage:
    """The jobs of one target and the pieces that they come to."""

    lanes: dict[str, Job] = field(default_factory=dict)
    pieces: list[tuple[str, Callable[..., Result], tuple[Any, ...]]] = field(default_factory=list)


def prove(
    target: Any,
    plan: Plan,
    *,
    state_file: Path | None = None,
    fresh: bool = False,
    jobs: int = 1,
    dask: str | None = None,
    pool: Pool | None = None,
    timeout: float = 600.0,
    in_process: bool = False,
    progress: Progress = lambda _words, _done, _total: None,
) -> Report:
    """Hold a target to a profile on every input that decides it.

    pool: any `concurrent.futures.Executor`, `jobs` of whose workers are kept busy; else `jobs` processes, or Dask.
    Raises ValueError where the profile's blocks do not come apart into pairs, StateError for another campaign's file, and
    TargetError where the target does not load.
    """
    started = time.monotonic()
    fmt = get_block(plan.fmt)
    session = open_target(target, in_process=in_process, timeout=timeout)
    try:
        profile, chosen, distance, asked = _choose(session, fmt, plan)
        tensors, left_out = _choose_tensors(session, fmt, profile, plan)
        spec = target if isinstance(target, str) else session
        stage = _plan_stage(session, spec, fmt, profile, tensors, plan, timeout, in_process)
        identity = _identify(target, session, fmt, profile, stage, plan)
        deadline = None if plan.minutes is None else started + 60 * plan.minutes
        local = jobs if isinstance(spec, str) else 1  # an object stays here
        with open_state(state_file, identity, fresh=fresh) as state, open_workers(local, dask, pool) as workers:
            outcomes = _run(stage, state, workers, deadline, progress)
            judged = judge_proof(
                session, fmt, profile, stage.lanes, state.finished, _totals(stage), left_out, plan.part
            )
            report = _report(target, session, fmt, profile, chosen, distance, asked, judged, outcomes, workers)
    finally:
        close_targets()
        session.close()
    report.seconds = time.monotonic() - started
    return report


def _choose(session: TargetSession, fmt: BlockFormat, plan: Plan) -> tuple[Profile, str, int, int]:
    capabilities = session.capabilities
    if fmt.name not in capabilities.formats:
        raise ValueError(f"{capabilities.name} offers {', '.join(capabilities.formats)}; not {fmt.name}")
    if capabilities.stochastic and not capabilities.has("dequantize"):
        raise ValueError(f"{capabilities.name} quantizes stochastically, so that no answer has to come; see check")
    if plan.profile is not None:
        return find_profile(plan.profile, fmt), "asked", 0, 0
    profile, distance, asked = nearest_profile(session, fmt)
    return profile, "nearest", distance, asked


def _choose_tensors(
    session: TargetSession, fmt: BlockFormat, profile: Profile, plan: Plan
) -> tuple[list[int | None], list[str]]:
    """Forms that target and profile have, and why others are left out.

    Raises ValueError where none is left.
    """
    kept: list[int | None] = []
    left_out: list[str] = []
    takes = any(session.capabilities.has(f, "tensor_scale") for f in ("quantize", "dequantize"))
    for bits in plan.tensors:
        reason = name_obstacle(profile, fmt, two_level=bits is not None, block=plan.block)
        if reason is None and bits is None and not session.capabilities.one_level:
            reason = f"{session.capabilities.name} asks for a tensor scale"
        if reason is None and bits is not None and not takes:
            reason = f"{session.capabilities.name} takes no tensor scale"
        if reason is None:
            kept.append(bits)
        elif reason not in left_out:
            left_out.append(reason)
    if not kept:
        raise ValueError(f"there is no proof by pairs: {'; '.join(left_out)}")
    return kept, left_out


def _plan_stage(
    session: TargetSession, spec: Any, fmt: BlockFormat, profile: Profile, tensors: Sequence[int | None], plan: Plan,
    timeout: float, in_process: bool,
) -> _Stage:  # fmt: skip
    stage = _Stage()
    capabilities = session.capabilities

    def job(dtype: str, tensor: int | None, own: Profile = profile) -> Job:
        return Job(spec, fmt.name, own.id, dtype, tensor, timeout, in_process)

    for tensor in tensors:
        if capabilities.repeats and (tensor is None or capabilities.has("quantize", "tensor_scale")):
            for dtype in plan.dtypes:
                own = find_variant(profile, dtype)
                if own is None or name_obstacle(own, fmt, two_level=tensor is not None) is not None:
                    continue
                j = job(dtype, tensor, own)
                stage.lanes[f"lanes/{j.name}"] = j
                for number, (first, last) in enumerate(work.pair_space(j).chunks()):
                    stage.pieces.append((f"pairs/{j.name}/{number:03d}", work.prove_pairs, (j, first, last)))
            j = job("float32", tensor)
            if "float32" in capabilities.dtypes and "float32" in profile.dtypes and _has_steps(fmt, profile, tensor):
                stage.pieces.append((f"thresholds/{j.name}", work.prove_thresholds, (j, SEED)))
                if plan.all_maxima:
                    end = (work.largest_maximum(j) >> CHUNK_BITS) + 1
                    stage.pieces += [(f"maxima/{j.name}/{n:03d}", work.prove_maxima, (j, n)) for n in range(end)]
        if capabilities.has("dequantize") and (tensor is None or capabilities.has("dequantize", "tensor_scale")):
            j = job("float32", tensor)
            stage.pieces.append((f"values/{j.name}", work.prove_values, (j,)))
    share, shares = plan.part
    stage.pieces = stage.pieces[share - 1 :: shares]
    return stage


def _has_steps(fmt: BlockFormat, profile: Profile, tensor: int | None) -> bool:
    try:
        work.exact_scale_steps(fmt.name, profile.id, tensor)
    except ValueError:
        return False
    return True


def _totals(stage: _Stage) -> dict[str, int]:
    """Pieces of the whole proof for each kind and job: what a part of it is a part of."""
    totals: dict[str, int] = {}
    for j in stage.lanes.values():
        totals[f"pairs/{j.name}"] = len(work.pair_space(j).chunks())
    return totals


def _identify(
    target: Any, session: TargetSession, fmt: BlockFormat, profile: Profile, stage: _Stage, plan: Plan
) -> dict[str, Any]:
    digest = ""
    if isinstance(target, (str, os.PathLike)) and Path(target).is_file():
        digest = hashlib.sha256(Path(target).read_bytes()).hexdigest()
    answers = {key.partition("/")[2]: work.pair_answers(j).digest() for key, j in stage.lanes.items()}
    return {
        "command": "prove", "target": session.capabilities.name, "version": session.capabilities.version,
        "file": digest, "format": fmt.name, "profile": profile.id, "answers": answers, "seed": SEED,
        "pieces": 1,
    }  # fmt: skip


def _run(stage: _Stage, state: State, workers: Workers, deadline: float | None, progress: Progress) -> list[Outcome]:
    total = len(stage.lanes) + len(stage.pieces)
    done = sum(1 for key in [*stage.lanes, *(k for k, _, _ in stage.pieces)] if key in state.finished)
    progress("testing that lanes are independent", done, total)

    def tick(key: str, result: Result) -> bool:
        nonlocal done
        done += 1
        words = " ".join(key.split("/")[:3])
        progress(words + (": differs" if result.get("wrong") or result.get("broken") else ""), done, total)
        return True

    lanes = [WorkItem(key, (work.prove_lanes, j, SEED)) for key, j in stage.lanes.items()]
    outcomes = [run_work_items(lanes, call, state, workers, on_result=tick)]
    if outcomes[0].interrupted:
        return outcomes
    # Where the lanes depend on each other pairs prove nothing.
    broken = {
        key.partition("/")[2]
        for key in stage.lanes
        if (r := state.finished.get(key)) is not None and (r.get("broken") or r.get("no_answer"))
    }
    rest = [
        WorkItem(key, (function, *arguments))
        for key, function, arguments in stage.pieces
        if not (key.startswith("pairs/") and key.removeprefix("pairs/").rpartition("/")[0] in broken)
    ]
    outcomes.append(run_work_items(rest, call, state, workers, deadline=deadline, on_result=tick))
    return outcomes


def call(function: Callable[..., Result], *arguments: Any) -> Result:
    """Run one piece: what workers are given."""
    return function(*arguments)


def _report(
    target: Any, session: TargetSession, fmt: BlockFormat, profile: Profile, chosen: str, distance: int, asked: int,
    judged: Judged, outcomes: Sequence[Outcome], workers: Workers,
) -> Report:  # fmt: skip
    capabilities = session.capabilities
    report = Report(
        kind="proof",
        target={
            "name": capabilities.name, "version": capabilities.version, "transport": session.transport,
            "capabilities": capabilities.as_dict(),
        },
        vectors=vector_digest(operations=NUMERIC_OPERATIONS),
        environment=describe_environment()
        | {"load": [round(x, 2) for x in os.getloadavg()]}
        | describe_git(target)
        | getattr(session, "environment", {}),
    )  # fmt: skip
    report.environment["campaign"] = describe_work(outcomes) | {"workers": workers.name, "target_seconds": round(judged.seconds, 1)}
    report.requirements = judged.requirements
    report.formats = [
        FormatResult(
            format=fmt.name, judged_against=profile.id, chosen=chosen, provisional=profile.provisional, distance=distance,
            cases=asked, operations=judged.operations, deviations=judged.deviations,
        )
    ]  # fmt: skip
    report.details = {
        "statements": judged.statements,
        "claims": judged.claims,
        "independence": judged.independence,
        "pieces": {"lost": {k: v for o in outcomes for k, v in o.lost.items()}},
        "stopped": next((o.stopped for o in outcomes if o.stopped), ""),
        "numpy": np.__version__,
    }  # fmt: skip
    return report
