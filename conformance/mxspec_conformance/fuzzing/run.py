"""`fuzz`: batches until the time is over, then each cause of what was seen, once."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor as Pool
from itertools import count
from pathlib import Path
from typing import Any

from mxspec_conformance.campaign import Outcome, WorkItem, open_state, open_workers, run_work_items
from mxspec_conformance.campaign.state import Result, State
from mxspec_conformance.campaign.workers import close_targets
from mxspec_conformance.fuzzing.batch import run_batch
from mxspec_conformance.fuzzing.concluding import Campaign, conclude, enter_operations, enter_products
from mxspec_conformance.fuzzing.job import Job
from mxspec_conformance.fuzzing.operations.batch import run_operation_batch
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.planning import (
    Progress,
    Settings,
    plan_formats,
    plan_named_operations,
    plan_named_products,
)
from mxspec_conformance.fuzzing.products.batch import run_product_batch
from mxspec_conformance.fuzzing.products.job import PRODUCTS, ProductJob
from mxspec_conformance.results.environment import describe_git
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target


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
        products = plan_named_products(session, spec, settings, timeout, in_process, progress)
        operations = plan_named_operations(session, spec, settings, timeout, in_process)
        formats, planned = plan_formats(session, spec, settings, timeout, in_process, progress, optional=bool(products or operations))
        identity = _identify(target, session, settings, planned, products, operations)
        deadline = None if settings.batches is not None else started + 60 * settings.minutes
        local = jobs if isinstance(spec, str) else 1
        with open_state(state_file, identity, fresh=fresh) as state, open_workers(local, dask, pool) as workers:
            outcome = _run([*planned, *products, *operations], settings, state, workers, deadline, progress, started)
        campaign = conclude(session, spec, planned, formats, state, settings, outcome, progress)
        enter_products(session, products, campaign, state, settings, progress)
        enter_operations(session, operations, campaign, state, progress)
        campaign.report.environment |= describe_git(target) | getattr(session, "environment", {})
        campaign.report.environment["campaign"]["workers"] = workers.name
    finally:
        close_targets()
        session.close()
    campaign.report.seconds = time.monotonic() - started
    return campaign


def _identify(
    target: Any, session: TargetSession, settings: Settings, planned: Sequence[Job], products: Sequence[ProductJob],
    operations: Sequence[OperationJob],
) -> dict[str, Any]:
    digest = ""
    if isinstance(target, (str, os.PathLike)) and Path(target).is_file():
        digest = hashlib.sha256(Path(target).read_bytes()).hexdigest()
    of_products = [[j.name, j.text, j.class_name, j.contract_name, list(j.rival_names), PRODUCTS] for j in products]
    of_operations = [[j.name, j.claim, j.size] for j in operations]
    return {
        **({"products": of_products} if of_products else {}),
        **({"operations": of_operations} if of_operations else {}),
        "command": "fuzz", "target": session.capabilities.name, "version": session.capabilities.version,
        "file": digest, "seed": settings.seed, "jobs": [[j.name, j.profile, j.blocks] for j in planned], "batches": 1,
    }  # fmt: skip


AnyJob = Job | ProductJob | OperationJob


def run_piece(job: AnyJob, number: int) -> Result:
    """One batch of any kind."""
    if isinstance(job, OperationJob):
        return run_operation_batch(job, number)
    return run_product_batch(job, number) if isinstance(job, ProductJob) else run_batch(job, number)


def _pieces(planned: Sequence[AnyJob], batches: int | None) -> Iterator[WorkItem]:
    """One batch of every job, then the next of every job; codes, which are soon exhausted, more rarely."""
    for number in count() if batches is None else range(batches):
        for job in planned:
            if not isinstance(job, Job) or job.dtype != "codes" or number % 4 == 0:
                yield WorkItem(f"{job.name}/{number:06d}", (job, number))


def _run(
    planned: Sequence[AnyJob], settings: Settings, state: State, workers: Any, deadline: float | None,
    progress: Progress, started: float,
) -> Outcome:  # fmt: skip
    elements = failing = 0

    def tick(_key: str, result: Result) -> bool:
        nonlocal elements, failing
        elements += result["elements"]
        failing += result["failing"] + len(result["memory"])
        rate = elements / max(time.monotonic() - started, 1e-3) / 1e6
        progress(
            f"{len(state.finished)} batches, {elements / 1e6:.0f} M elements ({rate:.1f} M/s), {failing} blocks, groups or products differ"
        )
        return not (settings.first and (result["failing"] or result["memory"] or result["no_answers"]))

    return run_work_items(_pieces(planned, settings.batches), run_piece, state, workers, deadline=deadline, on_result=tick)
