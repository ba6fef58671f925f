"""`mxspec show`: one case of the vectors: its input, the answer of every profile, and what a target returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mxspec.formats import ELEMENTS, SCALES
from mxspec_conformance.cli.console import fail, make_console
from mxspec_conformance.cli.parameters import INPUT_FILE, OUTPUT_FILE, SECONDS, TARGET, FileCommand
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import read_json

if TYPE_CHECKING:
    from mxspec_conformance.counterexample.replay import FoundCase, Replayed
    from mxspec_conformance.targets.sessions import TargetSession


@click.command(cls=FileCommand)
@click.argument("case")
@click.option("--against", type=TARGET, metavar="TARGET", help="Call this target, and show what it returns.")
@click.option(
    "--profile", help="Show the answer of this profile; default: with --against the one that `check` judges by, else the format's own."
)
@click.option("--out", type=OUTPUT_FILE, help="Write the case's input as .npy, in the dtype in which it is given.")
@click.option("--result", type=INPUT_FILE, help="A JSON result of `check`: show what it holds of CASE, a call of the judge's own, too.")
@click.option("--timeout", type=SECONDS, default=60.0, help="Timeout of one call, in seconds.")
@click.option("--in-process", is_flag=True, help="Run the target in-process.")
def show(
    case: str, against: str | None, profile: str | None, out: Path | None, result: Path | None, timeout: float, in_process: bool
) -> None:
    """Open a CASE of a report, and call a target with it again.

    An id is written as in a report, with the lane or dtype that follows it: `tie-even-e0-1-ab12cd34ef`,
    `ID[3]`, `ID@bfloat16`, `ID@rtz[3]`, `table-one-level-scale-7f`, `code-0d`. Where several formats hold it, all are shown.

    Exit code: 0; 1 if the target's answer differs from the profile's.
    """
    if result is not None:
        _show_stored(case, result)
        return
    from mxspec_conformance.counterexample.replay import find_cases, replay_case
    from mxspec_conformance.judge.shapes import fit_session
    from mxspec_conformance.transports.opening import open_target

    found = find_cases(case)
    if not found:
        fail(
            f"no case is named {case!r}; ids are those under failing_cases in a report's JSON. Calls of the judge's own, such as "
            "'call 6, of 16', are no cases: pass the report that names it, --result RESULT.json. Nor are calls of matmul, such as 'integers 0, k = 96', "
            "whose sizes are the target's: `mxspec explain RESULT.json` shows what `mxspec check` stored of the smallest wrong one"
        )
    if profile is not None and all(f.format in ELEMENTS or f.format in SCALES for f in found):
        fail(f"{case} is a case of {found[0].format}, which has no profiles; take --profile out")
    session = None if against is None else fit_session(open_target(against, in_process=in_process, timeout=timeout))
    try:
        if session is not None:
            found = [f for f in found if f.is_asked_of(session.capabilities)] or found[:1]
        replayed = [replay_case(one, profile or _find_judged(one, session), session) for one in found]
    finally:
        if session is not None:
            session.close()
    console = make_console()
    for one in replayed:
        console.print(Text(f"{one.operation}/{one.format}/{one.topic}  {one.id}", style="bold"))
        for key, value in one.facts.items():
            console.print(Text(f"  {key}: {value}"))
        lost = one.differs and not one.has_answer
        if lost:  # what came instead of an answer, before its input
            _print_notes(one, console)
        if one.rows:
            table = Table(box=None, pad_edge=False, header_style="bold")
            for column in ("", "input", f"{one.profile}", *(["returned"] if one.has_answer else [])):
                table.add_column(column, no_wrap=True)
            for row in one.rows:
                style = "bold red" if row[-1] and row[-1] != row[2] else ""
                table.add_row(*row[:3], *([Text(row[3], style=style)] if one.has_answer else []))
            console.print(table)
        if not lost:
            _print_notes(one, console)
        console.print()
    if out is not None:
        write_file(out, npy_bytes(replayed[0].input))
        console.print(f"{out}: {replayed[0].input.dtype} {list(replayed[0].input.shape)}")
    if any(one.differs for one in replayed):
        raise click.exceptions.Exit(1)


def _print_notes(one: Replayed, console: Console) -> None:
    for line in one.notes:
        console.print(Text(f"  {line}"))


def _find_judged(found: FoundCase, session: TargetSession | None) -> str | None:
    """The profile by which `check` judges a target in the format of a case; None where there is none."""
    from mxspec_conformance.judge.choosing import find_judged

    if session is None or found.operation not in ("quantize", "scale", "dequantize"):
        return None
    return find_judged(session, found.format)


def npy_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """The array as a .npy file; of dtypes that NumPy does not know the raw bits."""
    from io import BytesIO

    buffer = BytesIO()
    plain = array if array.dtype.kind in "fiu" and array.dtype.name != "bfloat16" else array.view(f"u{array.dtype.itemsize}")
    np.save(buffer, plain)
    return buffer.getvalue()


def _show_stored(case: str, file: Path) -> None:
    """What a result holds of a case: the first case of each requirement is stored whole, of the others the name."""
    from mxspec_conformance.render.terminal import failure_panel
    from mxspec_conformance.results.report import read_report

    document = read_json(file)
    try:
        reports = [read_report(one) for one in (document if isinstance(document, list) else [document])]
    except ValueError as error:
        fail(f"{file}: {error}")
    named = [
        r for report in reports for r in report.requirements if case in r.failing_cases or (r.first is not None and r.first.case == case)
    ]
    if not named:
        fail(f"no failing case of {file} is named {case!r}; ids are those under failing_cases")
    console = make_console()
    for requirement in named:
        if requirement.first is not None:
            console.print(failure_panel(requirement))
        if requirement.first is None or requirement.first.case != case:
            console.print(Text(f"{requirement.id}: {case} fails too; of it the result holds no more than its name"))
