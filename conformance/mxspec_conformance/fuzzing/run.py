"""`fuzz`: batches until the time is over, then each cause of what was seen, once; and its findings as files that replay."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor as Pool
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from mxspec_conformance.campaign import Outcome, Procedure, State, Workers, WorkItem, call_target, run_campaign, run_work_items
from mxspec_conformance.fuzzing.blocks.subject import BLOCKS, plan_formats
from mxspec_conformance.fuzzing.operations.subject import OPERATIONS, plan_operations
from mxspec_conformance.fuzzing.products.subject import PRODUCTS, plan_products
from mxspec_conformance.fuzzing.subject import Campaign, Finding, Job, Progress, Replayed, Request, Restart, Result, Settings, Subject
from mxspec_conformance.results.report import FormatResult, Report
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import NotJson, UnreadableFile, read_json

#: Any file that is not of another kind is read as one of blocks, which says what is wrong with it.
SUBJECTS = (PRODUCTS, OPERATIONS, BLOCKS)


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
    search = _Search(settings, timeout, in_process, progress)
    run_campaign(
        search, target, state_file=state_file, fresh=fresh, jobs=jobs, dask=dask, pool=pool, timeout=timeout, in_process=in_process
    )
    return search.campaign


def run_batch(job: Job, number: int) -> Result:
    """One batch in a worker: draw, call, judge."""
    session = call_target(job.target, job.timeout, in_process=job.in_process)
    started = time.perf_counter()
    result = next(s for s in SUBJECTS if isinstance(job, s.job)).ask(session, job, number)
    return {"memory": {}, **result, "seconds": round(time.perf_counter() - started, 3)}


class _Search(Procedure):
    """One batch of every job, then the next of every job."""

    command = kind = "fuzz"

    def __init__(self, settings: Settings, timeout: float, in_process: bool, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.timeout, self.in_process = timeout, in_process
        self.jobs: dict[str, tuple[Subject, list[Any]]] = {}
        self.formats: list[FormatResult] = []

    def plan(self, session: TargetSession, spec: Any) -> dict[str, Any]:
        """The jobs; products and operations first, which say whether there need be a quantizer."""
        self.request = Request(session, spec, self.settings, self.timeout, self.in_process, self.progress)
        products, operations = plan_products(self.request), plan_operations(self.request)
        self.formats, blocks = plan_formats(self.request, optional=bool(products or operations))
        self.jobs = {"jobs": (BLOCKS, blocks), "products": (PRODUCTS, products), "operations": (OPERATIONS, operations)}
        named = {name: [j.identity for j in planned] for name, (_, planned) in self.jobs.items() if planned or name == "jobs"}
        return {"seed": self.settings.seed, "batches": 1, **named}

    def ask(self, state: State, workers: Workers, started: float) -> list[Outcome]:
        """Until the time is over, or so many batches are done."""
        settings = self.settings
        deadline = None if settings.batches is not None else started + 60 * settings.minutes
        elements = failing = 0

        def tick(_key: str, result: Result) -> bool:
            nonlocal elements, failing
            elements += result["elements"]
            failing += result["failing"] + len(result["memory"])
            rate = elements / max(time.monotonic() - started, 1e-3) / 1e6
            self.progress(
                f"{len(state.finished)} batches, {elements / 1e6:.0f} M elements ({rate:.1f} M/s), {failing} blocks, groups or products differ"
            )
            return not (settings.first and (result["failing"] or result["memory"] or result["no_answers"]))

        return [run_work_items(self._list_items(), run_batch, state, workers, deadline=deadline, on_result=tick)]

    def _list_items(self) -> Iterator[WorkItem]:
        for number in count() if self.settings.batches is None else range(self.settings.batches):
            for _, planned in self.jobs.values():
                yield from (WorkItem(f"{job.name}/{number:06d}", (job, number)) for job in planned if number % job.pace == 0)

    def conclude(self, report: Report, session: TargetSession, finished: Mapping[str, Result]) -> None:
        """Each kind of jobs by itself; batches of a state file that are of no job are left out."""
        self.campaign = Campaign(report)
        report.formats = self.formats
        report.details = {
            "seed": self.settings.seed, "totals": {}, "coverage": {}, "findings": [], "not_seen_again": [], "not_reduced": 0,
            **report.details,
        }  # fmt: skip
        keys = sorted(finished, key=lambda key: (key.rpartition("/")[2], key))
        for subject, planned in self.jobs.values():
            by_name: dict[str, Job] = {j.name: j for j in planned}
            done = [(by_name[name], int(n), finished[key]) for key in keys for name, _, n in [key.rpartition("/")] if name in by_name]
            subject.conclude(self.request, planned, done, self.campaign)


def save(folder: Path, findings: Sequence[Finding]) -> list[Path]:
    """Write what was found into a folder, each kind in files of its own; those that hold the same bytes already are left."""
    written = []
    for subject in reversed(SUBJECTS):
        for name, data in subject.write([f for f in findings if isinstance(f, subject.finding)]).items():
            path = folder / name
            if not path.exists() or path.read_bytes() != data:
                write_file(path, data)
            written.append(path)
    return written


def replay(path: Path, session: TargetSession, restart: Restart | None = None) -> list[Replayed]:
    """Every case of a file, run again.

    restart: loads the target anew, for what depends on the number of a call. Raises ValueError where the file is none of cases.
    """
    document: Any = None
    with suppress(NotJson, UnreadableFile, OSError):  # reported by the reader of blocks
        document = read_json(path)
    return next(s for s in SUBJECTS if s.owns(document)).replay(path, document, session, restart)
