"""The command `prove`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mxspec.formats import get_block
from mxspec_conformance.cli.console import CHOSEN_BY, make_console
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, MINUTES, TARGET, FileCommand, campaign_options, read_shard
from mxspec_conformance.cli.streams import until_closed
from mxspec_conformance.proving.run import PAIR_DTYPES, Plan, prove as run_proof
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.files import write_file
from mxspec_vectors.points import TENSOR_AMAXES

#: Default tensor maxima for nvfp4: tensor scale 1, and two whose quotients are rounded.
_DEFAULT_TENSORS = ("unit", "odd", "thousandth")


def parse_tensor_maximum(text: str) -> int | None:
    """float32 bits of a tensor maximum: a name, 0x and eight digits, a number, or `none`.

    Raises ValueError for anything else, and for numbers that are not positive and finite.
    """
    if text == "none":
        return None
    try:
        bits = TENSOR_AMAXES[text] if text in TENSOR_AMAXES else (
            int(text, 16) if text.startswith("0x") else int(np.float32(float(text)).view(np.uint32))
        )  # fmt: skip
    except (ValueError, OverflowError):
        raise ValueError(
            f"--tensor-amax {text!r} is not a tensor maximum; pass a number, 0x and float32 bits, 'none', or one of "
            f"{', '.join(TENSOR_AMAXES)}"
        ) from None
    if not 0 < bits < 0x7F800000:
        raise ValueError(f"--tensor-amax {text!r} is {bits:#010x}; it must be positive and finite")
    return bits


def _find_format(target: str, timeout: float) -> str:
    """The one block format that a target offers.

    Raises ValueError where it offers several, or none.
    """
    session = open_target(target, timeout=timeout)
    session.close()
    offered = session.capabilities.formats
    if len(offered) != 1:
        listed = f"offers {', '.join(offered)}; pass --format with one of them" if offered else "offers no block format"
        raise ValueError(f"{session.capabilities.name} {listed}")
    return offered[0]


@click.command(cls=FileCommand)
@click.argument("target", type=TARGET)
@click.option("--format", "fmt", type=BLOCK_FORMAT, help="The block format; default: the target's, if it has one.")
@click.option("--profile", help="Check against this profile; default: the profile nearest to the target.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(PAIR_DTYPES), help="Only this input dtype; repeatable.")
@click.option(
    "--tensor-amax", "tensors", multiple=True, metavar="NUMBER",
    help="NVFP4: largest magnitude of the tensor (a number, 0x and bits, a name, or 'none'); repeatable.",
)  # fmt: skip
@click.option("--all-maxima", is_flag=True, help="Test all 2^31 float32 block maxima, not only those where the scale changes.")
@click.option("--block", metavar="ROWSxCOLUMNS", help="Block shape; only 1 x k blocks can be decomposed into pairs.")
@click.option("--shard", default="1/1", callback=read_shard, metavar="I/N", help="Only process shard I of N.")
@click.option("--minutes", type=MINUTES, help="Start no new chunk after this time.")
@campaign_options(600.0, "Save finished chunks to this file and resume from it; default: next to -o.")
def prove(
    target: str,
    fmt: str | None,
    profile: str | None,
    dtypes: tuple[str, ...],
    tensors: tuple[str, ...],
    all_maxima: bool,
    block: str | None,
    shard: tuple[int, int],
    minutes: float | None,
    state: Path | None,
    restart: bool,
    jobs: int | None,
    dask: str | None,
    json_file: Path | None,
    timeout: float,
    in_process: bool,
) -> None:
    """Verify TARGET exhaustively against a profile.

    If a lane depends only on its own element and on the block maximum, a quantizer is determined by all (maximum, element)
    pairs. For bfloat16 and float16 every pair is tested: about 2^31 elements each. Lane independence is tested first. Also
    tested: the scales of float32 maxima, and dequantize for every code under every scale byte. See docs/fuzzing.md.

    Ctrl-C saves finished chunks in the state file; the same command resumes from there.

    Exit code: 0 if nothing differs, 1 for a counterexample, 2 if nothing could be tested, 130 if interrupted.
    """
    shape = None
    if block is not None:
        rows, cross, columns = block.partition("x")
        if not (cross and rows.isdecimal() and columns.isdecimal()):
            raise ValueError(f"--block {block!r} is not ROWSxCOLUMNS, such as 16x16")
        shape = (int(rows), int(columns))
    fmt = fmt or _find_format(target, timeout)
    two_level = get_block(fmt).has_tensor_scale
    if tensors and not two_level:
        raise ValueError(f"{fmt} has no tensor scale; omit --tensor-amax")
    chosen = tensors or (("none", *_DEFAULT_TENSORS) if two_level else ("none",))
    plan = Plan(
        fmt=fmt, profile=profile, dtypes=dtypes or PAIR_DTYPES, block=shape, all_maxima=all_maxima, minutes=minutes,
        tensors=tuple(dict.fromkeys(parse_tensor_maximum(t) for t in chosen)), part=shard,
    )  # fmt: skip
    if state is None and json_file is not None:
        state = json_file.with_suffix(".state")
        if state == json_file:  # not the result's own name
            state = json_file.with_name(f"{json_file.name}.state")
    with _bar() as tell:
        report = run_proof(
            target, plan, state_file=state, fresh=restart, jobs=jobs or os.cpu_count() or 1, dask=dask,
            timeout=timeout, in_process=in_process, progress=tell,
        )  # fmt: skip
    if json_file is not None:
        write_file(json_file, (json.dumps(report.as_dict(), indent=1) + "\n").encode("ascii"))
    console = make_console()
    with until_closed():
        show_proof(report, console)
    stopped = report.details["stopped"]
    if stopped:
        hint = f"; the same command resumes from {state}" if state else "; pass --state FILE to make a run resumable"
        with until_closed():
            console.print(Text(f"stopped before the end ({stopped}){hint}", style="yellow"))
    elif state is not None and json_file is not None and not report.details["pieces"]["lost"]:
        state.unlink(missing_ok=True)
    raise click.exceptions.Exit(130 if stopped == "interrupt" else report.exit_code)


class _bar:  # noqa: N801  # used like a function
    """A progress bar on stderr; silent if stderr is not a terminal."""

    def __enter__(self) -> _bar:
        console = make_console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None)
        self._progress.start()
        return self

    def __call__(self, words: str, done: int, total: int) -> None:
        self._progress.update(self._task, description=words, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def show_proof(report: Report, console: Console) -> None:
    """The requirements, the statements that were verified, and the first counterexample."""
    from mxspec_conformance.render.terminal import failure_panel

    result = report.formats[0]
    against = f"{result.judged_against} ({CHOSEN_BY[result.chosen]})"
    console.print(Text(f"{report.target['name']} {report.target['version']}: {result.format} against {against}", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("requirement", "left"), ("verdict", "left"), ("tested", "right"), ("failing", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # literals that mypy sees as str
    for r in report.requirements:
        style = "green" if r.verdict is Verdict.PASS else "bold red" if r.verdict is Verdict.FAIL else "yellow"
        table.add_row(r.id.rpartition("/")[2], Text(r.verdict.value, style=style), f"{r.cases:,}", f"{r.failing:,}")
    console.print(table)
    for r in report.requirements:
        if r.note:
            console.print(Padding(Text(f"{r.id.rpartition('/')[2]}: {r.note}"), (0, 0, 0, 2)))
    console.print()
    for statement in report.details["statements"]:
        console.print(Padding(Text(f"- {statement}"), (0, 0, 0, 0)))
    first = next((r for r in report.requirements if r.first is not None and r.first.given), None)
    if first is not None:
        console.print()
        console.print(failure_panel(first))
    console.print(
        Text(f"{report.seconds:.1f} s on {report.environment['campaign']['workers']}, load {report.environment['load'][0]}", style="dim")
    )
