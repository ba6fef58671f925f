"""`python -m mxspec_lab evidence`: each committed result, current or stale, why, and what renews it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click
from rich.padding import Padding
from rich.text import Text

from mxspec_conformance.cli.console import make_console
from mxspec_lab.evidence.status import State, judge_all, stamp

_STYLES = {State.CURRENT: "green", State.OLDER_CODE: "yellow", State.STALE: "bold red", State.UNSTAMPED: "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--all", "show_all", is_flag=True, help="List current results, too.")
@click.option(
    "--stamp", "stamped", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Add the digests of what it used to this result, which was just made; repeatable.",
)  # fmt: skip
def evidence(as_json: bool, show_all: bool, stamped: tuple[Path, ...]) -> None:
    """Show which committed results are current.

    For each result that is not, show why, the command that renews it, and how long that takes. A result is stale if a case,
    an answer or code that it used has changed since; additions do not matter.

    Exit code: 0, or 1 if a result is stale or does not say what it used.
    """
    for path in stamped:
        stamp(path)
    standings = judge_all()
    if as_json:
        rows = [
            {"result": s.name, "state": s.state, "why": s.why, "command": s.command, "time": s.kind.time}
            for s in standings
        ]
        click.echo(json.dumps(rows, indent=1))
    else:
        console = make_console()
        width = max(len(s.name) for s in standings)
        for s in standings:
            if s.state is State.CURRENT and not show_all:
                continue
            console.print(Text(f"{s.name:{width}}  {s.state.value}", style=_STYLES[s.state]))
            if s.state is not State.CURRENT:
                console.print(Padding(Text(s.why), (0, 0, 0, 4)))
                console.print(Padding(Text(f"renewed by: {s.command} ({s.kind.time})"), (0, 0, 0, 4)))
        counts = Counter(s.state for s in standings)
        console.print(", ".join(f"{counts[state]} {state.value}" for state in State if counts[state]))
    if any(s.state in (State.STALE, State.UNSTAMPED) for s in standings):
        raise click.exceptions.Exit(1)
