"""A run over functions and chunks, here or in worker processes, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from mxspec.stepfunctions import StepFunction, check_float32_steps, one_by_one
from mxspec_lab.sweeps.functions import CHUNK, Function, all_functions, chunk_digest, function_steps
from mxspec_lab.sweeps.references import Witness, compare, find_witnesses
from mxspec_lab.sweeps.results import ChunkResult, FunctionResult, describe_provenance, merge_result, read_result


def sweep_chunk(name: str, steps: StepFunction, chunk: int, library: str | None, wanted: frozenset[str] | None = None) -> ChunkResult:
    """One chunk through the array model and the witnesses (those of `wanted` only, where given)."""
    start = chunk * CHUNK
    expected = steps.expand(start, start + CHUNK)
    compared = {
        w.name: compare(w, expected, start) for w in find_witnesses(all_functions()[name], library) if wanted is None or w.name in wanted
    }
    return ChunkResult(name, chunk, chunk_digest(steps, chunk), compared)


def _steps_of(name: str, known: StepFunction | None) -> StepFunction:
    """A function's complete exact answer: the known one if the exact model still agrees with it."""
    function = all_functions()[name]
    same_inputs = known is not None and known.stop == function.pattern_count
    if known is None or not same_inputs or check_float32_steps(one_by_one(function.exact), known, function.grid):
        return function_steps(function)
    return known


@dataclass(slots=True)
class SweepReport:
    """What a run did."""

    functions: int = 0
    chunks: int = 0
    kept: int = 0
    differences: int = 0
    seconds: float = 0.0
    interrupted: bool = False


@dataclass(slots=True)
class _Job:
    result: FunctionResult
    found: dict[str, Witness]
    pending: list[tuple[int, frozenset[str]]]
    left: int = 0
    dirty: bool = False


def _plan(
    function: Function, steps: StepFunction, kept: FunctionResult | None, chunks: Sequence[int], resume: bool, library: str | None,
    witnesses: Sequence[str],
) -> _Job:  # fmt: skip
    found = {w.name: w for w in find_witnesses(function, library) if any(fnmatchcase(w.name, pattern) for pattern in witnesses)}
    result = FunctionResult(function.name, function.definition(), steps)
    if kept is not None and kept.steps.digest == steps.digest:
        result.take_over(kept, found)
    pending = []
    for chunk in chunks:
        if chunk < result.chunk_count:
            missing = frozenset(n for n in found if not resume or n not in result.witnesses or chunk not in result.witnesses[n].chunks)
            if missing or chunk not in result.digests:
                pending.append((chunk, missing))
    return _Job(result, found, pending, len(pending))


def run_sweep(
    functions: dict[str, Function], chunks: Sequence[int], out: Path, *, library: str | None = None, witnesses: Sequence[str] = ("*",),
    executor: Executor | None = None, workers: int = 1, resume: bool = True,
    on_chunk: Callable[[str, int, int], None] = lambda *_: None, on_function: Callable[[str], None] = lambda _: None, save_every: float = 20.0,
) -> SweepReport:  # fmt: skip
    """Sweep functions over chunks and write their results below `out`.

    witnesses: globs of the witnesses that are asked, the array model among them.
    executor: where chunks are computed, `workers` at a time; None computes them here, one after the other.
    resume: keep these chunks of earlier results whose steps have the same digest. A witness whose version or
        exclusions changed is asked again. Other chunks of earlier results are kept in any case.
    on_chunk: told of a function, and of how many of all chunks are done; on_function: told of a function's counts.
    KeyboardInterrupt ends the run; chunks that are finished are written.
    """
    began = time.monotonic()
    report = SweepReport(functions=len(functions))
    provenance = describe_provenance(with_headers=library is not None)
    jobs: dict[str, _Job] = {}
    saved, total = time.monotonic(), 0

    def save(job: _Job) -> None:
        merge_result(out, job.result, job.found)
        job.dirty = False

    def take(result: ChunkResult) -> None:
        job = jobs[result.function]
        job.result.add(result, job.found, provenance)
        job.left -= 1
        job.dirty = True
        report.chunks += 1
        report.differences += sum(c.differences for c in result.compared.values())
        on_chunk(result.function, report.chunks, total)
        if job.left == 0:
            finish(job)

    def finish(job: _Job) -> None:
        save(job)
        counts = ", ".join(f"{n} {w.differences}/{w.inputs}" for n, w in job.result.witnesses.items())
        on_function(f"{job.result.name}: {len(job.result.digests)} chunks; differences/inputs: {counts}")

    waiting: set[Future[ChunkResult]] = set()
    try:
        kept = {name: read_result(out, name) for name in functions}
        known = [None if r is None else r.steps for r in kept.values()]
        every = map if executor is None else executor.map
        all_steps: Iterable[StepFunction] = every(_steps_of, functions, known)
        for (name, function), steps in zip(functions.items(), all_steps, strict=True):
            job = _plan(function, steps, kept[name], chunks, resume, library, witnesses)
            jobs[name] = job
            report.kept += sum(c < job.result.chunk_count for c in chunks) - len(job.pending)
        total = sum(len(j.pending) for j in jobs.values())
        for job in jobs.values():
            if not job.pending:
                finish(job)
        tasks = ((job.result.name, job.result.steps, chunk, library, wanted) for job in jobs.values() for chunk, wanted in job.pending)
        for task in tasks:
            if executor is None:
                take(sweep_chunk(*task))
            else:
                waiting.add(executor.submit(sweep_chunk, *task))
                if len(waiting) >= 3 * workers:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        take(future.result())
            if time.monotonic() - saved > save_every:
                for job in jobs.values():
                    if job.dirty:
                        save(job)
                saved = time.monotonic()
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                take(future.result())
    except KeyboardInterrupt:
        report.interrupted = True
        for future in waiting:
            future.cancel()
        for job in jobs.values():
            if job.dirty:
                save(job)
    report.seconds = time.monotonic() - began
    return report
