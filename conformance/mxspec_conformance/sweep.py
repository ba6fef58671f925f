"""Exhaustive float32 sweeps: every encoder and every E8M0 scale rule on every input there is.

The exact model's complete answer (`sweep_functions`) is compared, input by input, with the array model and
with every outside witness that is installed (`sweep_witnesses`). That would also show a change of the answer
that bisection had missed.

Results: one JSON file for each function, with the runs, a BLAKE2b-128 digest of the exact answer's bytes for
each 2**24 inputs, and for each witness the inputs that it was compared on and the differences; `index.json`
sums them up.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import mxspec
from mxspec.formats import FLOAT32, ScalarFormat, get_scalar
from mxspec_conformance import cuda_headers
from mxspec_conformance.sweep_functions import (
    CHUNK,
    CHUNK_BITS,
    GRID,
    INF_BITS,
    NANS,
    SIGN,
    Function,
    Runs,
    check_runs,
    chunk_digest,
    digest_bytes,
    function_runs,
    list_functions,
)
from mxspec_conformance.sweep_witnesses import (
    Compared,
    Exclusion,
    Witness,
    compare,
    count_excluded,
    find_witnesses,
)

SCHEMA = "mxspec-sweep/1"
INDEX_SCHEMA = "mxspec-sweep-index/1"


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """One chunk of one function."""

    function: str
    chunk: int
    digest: str
    compared: dict[str, Compared]


@lru_cache(maxsize=1)
def _functions() -> dict[str, Function]:
    return list_functions()


def sweep_chunk(
    name: str, runs: Runs, chunk: int, library: str | None, wanted: frozenset[str] | None = None
) -> ChunkResult:
    """One chunk through the array model and the witnesses (those of `wanted` only, where given)."""
    start = chunk * CHUNK
    expected = runs.expand(start, start + CHUNK)
    compared = {
        w.name: compare(w, expected, start)
        for w in find_witnesses(_functions()[name], library)
        if wanted is None or w.name in wanted
    }
    return ChunkResult(name, chunk, chunk_digest(runs, chunk), compared)


def _runs_of(name: str, known: Runs | None) -> Runs:
    """A function's complete exact answer: the known one if the exact model still agrees with it."""
    function = _functions()[name]
    same_inputs = known is not None and known.pattern_count == function.pattern_count
    if known is None or not same_inputs or check_runs(function.exact, known, function.grid):
        return function_runs(function)
    return known


# Results


def _source_digest() -> str:
    """Of the modules that both models are written in: whether they changed since a sweep."""
    names = ("arrays", "elements", "exact", "expressions", "formats", "reals", "rounding", "scales")
    texts = [files("mxspec").joinpath(f"{n}.py").read_text("utf-8") for n in names]
    return digest_bytes("\0".join(texts).encode())


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_provenance(*, with_headers: bool) -> dict[str, str]:
    """Who computed: versions, platform, processor, date."""
    packages = {}
    for name in ("numpy", "ml_dtypes", "torch", "torchao"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "mxspec": mxspec.__version__,
        "model_source": _source_digest(),
        "python": platform.python_version(),
        **packages,
        **(cuda_headers.describe() if with_headers else {}),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _ranges(numbers: Iterable[int]) -> str:
    """0-3,5,7-9."""
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def parse_chunks(text: str) -> list[int]:
    """Chunk numbers from `all`, or from a list such as 0,5-9.

    Raises ValueError for anything else.
    """
    if text == "all":
        return list(range(1 << (32 - CHUNK_BITS)))
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match or int(match[2] or match[1]) > 255:
            raise ValueError(f"chunks {text!r}: {part!r} is not a number or a range of numbers from 0 to 255")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)


@dataclass(slots=True)
class WitnessResult:
    """A witness of a function, summed over the chunks."""

    version: str
    exclusions: tuple[Exclusion, ...] = ()
    #: Chunk -> differences and the first of them in words, of every chunk that it was compared on.
    chunks: dict[int, tuple[int, str]] = field(default_factory=dict)

    @property
    def inputs(self) -> int:
        """Inputs that it was compared on."""
        return sum(CHUNK - count_excluded(self.exclusions, c * CHUNK, (c + 1) * CHUNK) for c in self.chunks)

    @property
    def differences(self) -> int:
        """Inputs on which it differs."""
        return sum(n for n, _ in self.chunks.values())

    @property
    def first(self) -> str:
        """The first difference in words, or ""."""
        return next((text for _, (n, text) in sorted(self.chunks.items()) if n), "")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form; chunks without a difference are left out."""
        return {
            "version": self.version,
            "chunks": _ranges(self.chunks),
            "inputs": self.inputs,
            "differences": self.differences,
            "differing_chunks": [
                {"chunk": c, "differences": n, "first": text} for c, (n, text) in sorted(self.chunks.items()) if n
            ],
            "excluded": [
                {
                    "from": f"{e.first:08x}",
                    "to": f"{e.last:08x}",
                    "inputs": e.last - e.first + 1,
                    "reason": e.reason,
                }
                for e in self.exclusions
            ],
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> WitnessResult:
        """The inverse of `as_dict`."""
        counts = dict.fromkeys(parse_chunks(d["chunks"]), (0, ""))
        counts |= {int(c["chunk"]): (int(c["differences"]), c["first"]) for c in d["differing_chunks"]}
        excluded = tuple(Exclusion(int(e["from"], 16), int(e["to"], 16), e["reason"]) for e in d["excluded"])
        return cls(d["version"], excluded, counts)


@dataclass(slots=True)
class FunctionResult:
    """What is known of one function."""

    name: str
    definition: dict[str, Any]
    runs: Runs
    digests: dict[int, str] = field(default_factory=dict)
    witnesses: dict[str, WitnessResult] = field(default_factory=dict)
    #: One entry for each run that added something: versions, and the chunks it worked on.
    provenance: list[dict[str, str]] = field(default_factory=list)

    @property
    def chunk_count(self) -> int:
        """Chunks that the function has."""
        return self.runs.pattern_count // CHUNK

    @property
    def complete(self) -> bool:
        """Whether the array model was compared on every input."""
        model = self.witnesses.get("array-model")
        return model is not None and len(model.chunks) == self.chunk_count == len(self.digests)

    def add(self, result: ChunkResult, found: dict[str, Witness], provenance: dict[str, str]) -> None:
        """Take in a chunk that a run of this provenance computed."""
        self.digests[result.chunk] = result.digest
        entry = next((p for p in self.provenance if {**p, "chunks": ""} == {**provenance, "chunks": ""}), None)
        if entry is None:
            entry = {**provenance, "chunks": ""}
            self.provenance.append(entry)
        entry["chunks"] = _ranges({*parse_chunks(entry["chunks"]), result.chunk})
        for name, compared in result.compared.items():
            w = found[name]
            own = self.witnesses.setdefault(name, WitnessResult(w.version, w.exclusions))
            own.chunks[result.chunk] = compared.differences, compared.first

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "schema": SCHEMA,
            "function": self.name,
            "definition": self.definition,
            "pattern_count": self.runs.pattern_count,
            "chunk_bits": CHUNK_BITS,
            "runs": self.runs.as_text(),
            "runs_digest": self.runs.digest,
            "digest": "BLAKE2b-128 of the exact answer, one byte for each pattern of the chunk",
            "chunks": _ranges(self.digests),
            "digests": [d for _, d in sorted(self.digests.items())],
            "witnesses": {n: w.as_dict() for n, w in self.witnesses.items()},
            "provenance": self.provenance,
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> FunctionResult:
        """The inverse of `as_dict`.

        Raises ValueError for another schema.
        """
        if d.get("schema") != SCHEMA or d.get("chunk_bits") != CHUNK_BITS:
            raise ValueError(f"schema {d.get('schema')!r} is not {SCHEMA!r}")
        return cls(
            d["function"],
            d["definition"],
            Runs.from_text(d["runs"], int(d["pattern_count"])),
            dict(zip(parse_chunks(d["chunks"]), d["digests"], strict=True)),
            {n: WitnessResult.from_dict(w) for n, w in d["witnesses"].items()},
            d["provenance"],
        )


def result_path(out: Path, name: str) -> Path:
    """The file of a function."""
    return out / f"{name}.json"


def write_json(path: Path, value: Any) -> None:
    """Canonical JSON, written to a temporary file that then takes the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_result(out: Path, name: str) -> FunctionResult | None:
    """A function's result, or None where there is none or its file cannot be read."""
    path = result_path(out, name)
    if not path.is_file():
        return None
    try:
        return FunctionResult.from_dict(json.loads(path.read_text("utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_results(out: Path) -> dict[str, FunctionResult]:
    """All results below a folder that can be read, by the function's name."""
    names = [path.relative_to(out).with_suffix("").as_posix() for path in sorted(out.glob("*/**/*.json"))]
    return {name: result for name in names if (result := read_result(out, name)) is not None}


def write_index(out: Path) -> dict[str, Any]:
    """Sum up a folder in its index.json, and return that."""
    results = read_results(out)
    rows = {
        name: {
            "chunks": f"{len(r.digests)}/{r.chunk_count}",
            "complete": r.complete,
            "runs": len(r.runs.codes),
            "runs_digest": r.runs.digest,
            "witnesses": {n: {"inputs": w.inputs, "differences": w.differences} for n, w in r.witnesses.items()},
        }
        for name, r in results.items()
    }
    totals: dict[str, dict[str, int]] = {}
    for r in results.values():
        for n, w in r.witnesses.items():
            total = totals.setdefault(n, {"functions": 0, "inputs": 0, "differences": 0})
            total["functions"] += 1
            total["inputs"] += w.inputs
            total["differences"] += w.differences
    known = set(_functions())
    index = {
        "schema": INDEX_SCHEMA,
        "functions": rows,
        "totals": totals,
        "complete": sum(bool(r["complete"]) for r in rows.values()),
        "missing": sorted(known - set(rows)),
        "obsolete": sorted(set(rows) - known),
    }
    write_json(out / "index.json", index)
    return index


# A run


@dataclass(slots=True)
class SweepReport:
    """What a run did."""

    functions: int = 0
    chunks: int = 0
    kept: int = 0
    differences: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    lines: list[str] = field(default_factory=list)


class Ticker(Protocol):
    """Who is told of progress."""

    def total(self, chunks: int) -> None:
        """Chunks to do."""

    def tick(self, function: str) -> None:
        """One chunk is done."""

    def finished(self, line: str) -> None:
        """A function is done."""


@dataclass(slots=True)
class _Job:
    result: FunctionResult
    found: dict[str, Witness]
    pending: list[tuple[int, frozenset[str]]]
    left: int = 0
    dirty: bool = False


def _plan(
    function: Function,
    runs: Runs,
    kept: FunctionResult | None,
    chunks: Sequence[int],
    resume: bool,
    library: str | None,
    witnesses: Sequence[str],
) -> _Job:
    found = {
        w.name: w
        for w in find_witnesses(function, library)
        if any(fnmatchcase(w.name, pattern) for pattern in witnesses)
    }
    result = FunctionResult(function.name, function.definition(), runs)
    if kept is not None and kept.runs.digest == runs.digest:
        result.digests, result.provenance = kept.digests, kept.provenance
        for name, w in kept.witnesses.items():
            same = name not in found or (w.version, w.exclusions) == (
                found[name].version,
                found[name].exclusions,
            )
            if same:
                result.witnesses[name] = w
    pending = []
    for chunk in chunks:
        if chunk < result.chunk_count:
            missing = frozenset(
                n for n in found if not resume or n not in result.witnesses or chunk not in result.witnesses[n].chunks
            )
            if missing or chunk not in result.digests:
                pending.append((chunk, missing))
    return _Job(result, found, pending, len(pending))


def run_sweep(
    functions: dict[str, Function],
    chunks: Sequence[int],
    out: Path,
    *,
    library: str | None = None,
    witnesses: Sequence[str] = ("*",),
    executor: Executor | None = None,
    workers: int = 1,
    resume: bool = True,
    ticker: Ticker | None = None,
    save_every: float = 20.0,
) -> SweepReport:
    """Sweep functions over chunks and write their results below `out`.

    witnesses: globs of the witnesses that are asked, the array model among them.
    executor: where chunks are computed, `workers` at a time; None computes them here, one after the other.
    resume: keep these chunks of earlier results whose runs have the same digest. A witness whose version or
        exclusions changed is asked again. Other chunks of earlier results are kept in any case.
    KeyboardInterrupt ends the run; chunks that are finished are written.
    """
    began = time.monotonic()
    report = SweepReport(functions=len(functions))
    provenance = describe_provenance(with_headers=library is not None)
    jobs: dict[str, _Job] = {}
    saved = time.monotonic()

    def save(job: _Job) -> None:
        write_json(result_path(out, job.result.name), job.result.as_dict())
        job.dirty = False

    def take(result: ChunkResult) -> None:
        job = jobs[result.function]
        job.result.add(result, job.found, provenance)
        job.left -= 1
        job.dirty = True
        report.chunks += 1
        report.differences += sum(c.differences for c in result.compared.values())
        if ticker:
            ticker.tick(result.function)
        if job.left == 0:
            finish(job)

    def finish(job: _Job) -> None:
        save(job)
        counts = ", ".join(f"{n} {w.differences}/{w.inputs}" for n, w in job.result.witnesses.items())
        line = f"{job.result.name}: {len(job.result.digests)} chunks; differences/inputs: {counts}"
        report.lines.append(line)
        if ticker:
            ticker.finished(line)

    waiting: set[Future[ChunkResult]] = set()
    try:
        kept = {name: read_result(out, name) for name in functions}
        known = [None if r is None else r.runs for r in kept.values()]
        every = map if executor is None else executor.map
        all_runs: Iterable[Runs] = every(_runs_of, functions, known)
        for (name, function), runs in zip(functions.items(), all_runs, strict=True):
            job = _plan(function, runs, kept[name], chunks, resume, library, witnesses)
            jobs[name] = job
            report.kept += sum(c < job.result.chunk_count for c in chunks) - len(job.pending)
        if ticker:
            ticker.total(sum(len(j.pending) for j in jobs.values()))
        for job in jobs.values():
            if not job.pending:
                finish(job)
        tasks = (
            (job.result.name, job.result.runs, chunk, library, wanted)
            for job in jobs.values()
            for chunk, wanted in job.pending
        )
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


# Checking what is committed


@dataclass(slots=True)
class Verification:
    """What `verify_committed` looked at and found."""

    seed: int
    functions: int = 0
    #: Points at which the exact model was asked again.
    exact_points: int = 0
    #: Inputs at which the array model was compared again.
    inputs: int = 0
    digests: int = 0
    #: Functions whose result was computed with other sources of the model. Not a problem by itself.
    source_changed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.functions} functions, exact model asked at {self.exact_points} "
            f"patterns, array model on {self.inputs} inputs, {self.digests} chunk digests; "
            f"{len(self.source_changed)} results older than the model's source; {len(self.problems)} problems"
        )


def special_chunks(runs: Runs, fmt: ScalarFormat) -> list[int]:
    """The chunks of zero, the smallest normal number, the last finite change and infinity; each sign."""
    normal = int(np.float32(float(max(fmt.min_normal, FLOAT32.min_subnormal))).view(np.uint32))
    found = set()
    for base in range(0, runs.pattern_count, SIGN):
        finite = runs.starts[(runs.starts >= base) & (runs.starts < base + INF_BITS)]
        found |= {base >> CHUNK_BITS, (base + normal) >> CHUNK_BITS, (base + INF_BITS) >> CHUNK_BITS}
        found.add(int(finite[-1]) >> CHUNK_BITS)
    return sorted(found)


def _format_of(function: Function) -> ScalarFormat:
    definition = function.definition()
    return get_scalar(definition.get("format") or definition["scale"])


def verify_committed(
    out: Path,
    seed: int,
    chunks: int = 4,
    *,
    pattern: str = "*",
    digest_share: float = 1.0,
    slice_bits: int = 16,
) -> Verification:
    """Compare committed results with the models as they are now.

    For every function that matches: its result exists, is complete and without a difference; the exact model
    agrees with its runs at every change, at the binades' edges and inside each run (which, the function
    being monotone between them, is its complete answer); the array model agrees with the runs at the changes
    and their neighbours, at special values, and on one random slice in each of `chunks` random chunks. The
    digests of the special chunks and of the random ones are computed again for a random `digest_share` of the
    functions.
    """
    rng = np.random.default_rng(seed)
    found = Verification(seed)
    source = _source_digest()
    known = list_functions()
    on_disk = read_results(out)
    found.problems += [
        f"{name}: the registry has no such function now; delete its file (mxspec sweep --prune)"
        for name in sorted(set(on_disk) - set(known))
        if fnmatchcase(name, pattern)
    ]
    for name, function in known.items():
        if not fnmatchcase(name, pattern):
            continue
        found.functions += 1
        result = on_disk.get(name)
        if result is None:
            found.problems.append(f"{name}: there is no result that can be read; run mxspec sweep --function {name!r}")
            continue
        found.problems += [f"{name}: {p}" for p in _verify_result(function, result, found)]
        if any(p["model_source"] != source for p in result.provenance):
            found.source_changed.append(name)
        numbers = rng.choice(result.chunk_count, min(chunks, result.chunk_count), replace=False).tolist()
        patterns = [_near_changes(result.runs)]
        for chunk in numbers:
            start = chunk * CHUNK + int(rng.integers(0, CHUNK - (1 << slice_bits) + 1))
            patterns.append(np.arange(start, start + (1 << slice_bits), dtype=np.int64))
        bits = np.concatenate(patterns)
        answers = function.model(bits.astype(np.uint32).view(np.float32))
        found.inputs += bits.size
        differing = np.flatnonzero(answers != result.runs.at(bits))
        if differing.size:
            i = int(differing[0])
            found.problems.append(f"{name}: the array model differs on {differing.size} inputs, first {bits[i]:08x}")
        if rng.random() < digest_share:
            for chunk in sorted({*numbers, *special_chunks(result.runs, _format_of(function))}):
                found.digests += 1
                if result.digests.get(chunk) != chunk_digest(result.runs, chunk):
                    found.problems.append(f"{name}: chunk {chunk} has another digest now")
    return found


def _verify_result(function: Function, result: FunctionResult, found: Verification) -> Iterator[str]:
    if not result.complete:
        done = f"{len(result.digests)} of {result.chunk_count} chunks"
        yield f"only {done}; run mxspec sweep --function {function.name!r}"
    for name, w in result.witnesses.items():
        if w.differences:
            yield f"{name} differs on {w.differences} inputs, first {w.first}"
    asked = 0

    def answer(bits: int) -> int:
        nonlocal asked
        asked += 1
        return function.exact(bits)

    yield from check_runs(answer, result.runs, function.grid)
    found.exact_points += asked


def _near_changes(runs: Runs) -> npt.NDArray[np.int64]:
    """Each change with two patterns on either side, the edges of the binades, infinities and NaN."""
    near = (runs.starts[:, None] + np.arange(-2, 3)).ravel()
    fixed = [base + p for base in range(0, runs.pattern_count, SIGN) for p in (*GRID, INF_BITS, *NANS)]
    every = np.unique(np.concatenate([near, np.array(fixed, np.int64)]))
    return every[(every >= 0) & (every < runs.pattern_count)]


# The command


class _RichTicker:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), console=console,
        )  # fmt: skip
        self._task = self._progress.add_task("exact thresholds", total=None)
        self._started = time.monotonic()

    def __enter__(self) -> _RichTicker:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def total(self, chunks: int) -> None:
        self._progress.update(self._task, total=chunks)

    def tick(self, function: str) -> None:
        self._progress.update(self._task, advance=1, description=function)

    def finished(self, line: str) -> None:
        elapsed = time.monotonic() - self._started
        self._console.print(f"[{elapsed:8.1f} s] {line}", markup=False, highlight=False, soft_wrap=True)


def _ignore_interrupt() -> None:
    """Workers leave Ctrl-C to their parent, which writes what is finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _prepare_library(folder: Path, console: Console) -> str | None:
    try:
        return str(cuda_headers.compile_wrapper(folder))
    except RuntimeError as error:
        console.print(f"without NVIDIA's headers: {error}", markup=False)
        return None


@click.command("sweep")
@click.option("--function", "pattern", default="*", metavar="GLOB", help="Functions by name, such as 'encode/e2m1/*'.")
@click.option("--chunks", default="all", metavar="LIST", help="Chunks of 2^24 inputs: 'all', or such as 0,62-64.")
@click.option("--jobs", type=click.IntRange(1), default=None, help="Processes; default: one for each core.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports/sweeps"),
    show_default=True,
)
@click.option("--resume/--fresh", default=True, help="Keep finished chunks whose thresholds are unchanged (default).")
@click.option(
    "--witness", "witnesses", multiple=True, default=("*",), metavar="GLOB", help="Only these witnesses; repeatable."
)
@click.option("--list", "only_list", is_flag=True, help="Print the functions and end.")
@click.option("--prune", is_flag=True, help="Delete results of functions that are gone.")
def sweep(
    pattern: str,
    chunks: str,
    jobs: int | None,
    out: Path,
    resume: bool,
    witnesses: tuple[str, ...],
    only_list: bool,
    prune: bool,
) -> None:
    """Compare the models, and every witness that is installed, on all 2^32 float32 inputs.

    Results go to one file for each function, and to index.json. Ctrl-C keeps finished chunks; the same
    command goes on from there. Exit status: 0 no difference, 1 differences, 2 nothing to sweep, 130 interrupted.
    """
    console = Console(stderr=True)
    functions = list_functions(pattern)
    if only_list:
        for name in functions:
            click.echo(name)
        return
    try:
        numbers = parse_chunks(chunks)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--chunks") from None
    if prune:
        for name in sorted(set(read_results(out)) - set(_functions())):
            result_path(out, name).unlink()
            console.print(f"deleted {name}", markup=False)
    if not functions:
        console.print(f"no function matches {pattern!r}; see --list", markup=False)
        sys.exit(2)
    workers = jobs or os.cpu_count() or 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, _RichTicker(console) as ticker:
        library = _prepare_library(Path(folder), console)
        pool = None
        if workers > 1:
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_ignore_interrupt)
        terminate = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
        try:
            report = run_sweep(
                functions,
                numbers,
                out,
                library=library,
                witnesses=witnesses,
                executor=pool,
                workers=workers,
                resume=resume,
                ticker=ticker,
            )
        finally:
            signal.signal(signal.SIGTERM, terminate)
            if pool:
                pool.shutdown(wait=True, cancel_futures=True)
    index = write_index(out)
    console.print(
        f"{report.functions} functions, {report.chunks} chunks swept, {report.kept} kept, "
        f"{report.differences} differences, {report.seconds:.0f} s; "
        f"{index['complete']} of {len(_functions())} functions complete, "
        f"{len(index['missing'])} without a result, {len(index['obsolete'])} obsolete",
        markup=False,
    )
    if report.interrupted:
        sys.exit(130)
    sys.exit(1 if report.differences else 0)
