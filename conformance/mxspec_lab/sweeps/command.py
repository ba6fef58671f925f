"""Exhaustive float32 sweeps: every encoder and every E8M0 scale rule on every input there is.

The exact model's complete answer (`sweep_functions`) is compared, input by input, with the array model and
with every outside witness that is installed (`sweep_witnesses`). That would also show a change of the answer
that bisection had missed.

Results: one JSON file for each function, with the runs, a BLAKE2b-128 digest of the exact answer's bytes for
each 2**24 inputs, and for each witness the inputs that it was compared on and the differences; `index.json`
sums them up.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click
from rich.console import Console

from mxspec_conformance.campaign.chunks import parse_chunks
from mxspec_conformance.cli.console import show_progress
from mxspec_conformance.cli.main import SETTINGS
from mxspec_lab import cuda_headers
from mxspec_lab.sweeps.functions import all_functions, list_functions
from mxspec_lab.sweeps.results import read_results, result_path, write_index
from mxspec_lab.sweeps.run import run_sweep


def _ignore_interrupt() -> None:
    """Workers leave Ctrl-C to their parent, which writes what is finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _prepare_library(folder: Path, console: Console) -> str | None:
    try:
        return str(cuda_headers.compile_wrapper(folder))
    except RuntimeError as error:
        console.print(f"without NVIDIA's headers: {error}", markup=False)
        return None


@click.command("sweep", context_settings=SETTINGS)
@click.option("--function", "pattern", default="*", metavar="GLOB", help="Only functions whose name matches, such as 'encode/e2m1/*'.")
@click.option("--chunks", default="all", metavar="LIST", help="Chunks of 2^24 inputs: 'all', or numbers such as 0,62-64.")
@click.option("--jobs", type=click.IntRange(1), default=None, help="Worker processes; default: one per core.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports/sweeps"),
    show_default=True,
    help="Folder of the results.",
)
@click.option("--resume/--restart", default=True, help="Keep finished chunks whose thresholds are unchanged (default).")
@click.option(
    "--witness", "witnesses", multiple=True, default=("*",), metavar="GLOB", help="Only these independent references; repeatable."
)
@click.option("--list", "only_list", is_flag=True, help="List the functions and exit.")
@click.option("--prune", is_flag=True, help="Delete results of functions that no longer exist.")
def sweep(
    pattern: str, chunks: str, jobs: int | None, out: Path, resume: bool, witnesses: tuple[str, ...], only_list: bool, prune: bool
) -> None:
    """Compare the models on all 2^32 float32 inputs.

    Every installed independent reference is compared, too. Each function has one result file; index.json sums them up.
    Ctrl-C keeps finished chunks; the same command resumes from there.

    Exit code: 0 if nothing differs, 1 if something does, 2 if there is nothing to sweep, 130 if interrupted.
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
        for name in sorted(set(read_results(out)) - set(all_functions())):
            result_path(out, name).unlink()
            console.print(f"deleted {name}", markup=False)
    if not functions:
        console.print(f"no function matches {pattern!r}; see --list", markup=False)
        sys.exit(2)
    workers = jobs or os.cpu_count() or 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, show_progress("exact thresholds") as show:
        library = _prepare_library(Path(folder), console)
        pool = None
        if workers > 1:
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_ignore_interrupt)
        terminate = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
        try:
            report = run_sweep(
                functions, numbers, out, library=library, witnesses=witnesses, executor=pool, workers=workers, resume=resume,
                on_chunk=lambda name, done, total: show(f"{done} of {total} chunks, {name}"),
                on_function=lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True),
            )  # fmt: skip
        finally:
            signal.signal(signal.SIGTERM, terminate)
            if pool:
                pool.shutdown(wait=True, cancel_futures=True)
    index = write_index(out)
    console.print(
        f"{report.functions} functions, {report.chunks} chunks swept, {report.kept} kept, "
        f"{report.differences} differences, {report.seconds:.0f} s; "
        f"{index['complete']} of {len(all_functions())} functions complete, "
        f"{len(index['missing'])} without a result, {len(index['obsolete'])} obsolete",
        markup=False,
    )
    if report.interrupted:
        sys.exit(130)
    sys.exit(1 if report.differences else 0)
