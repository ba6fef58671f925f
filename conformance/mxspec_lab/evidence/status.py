"""Whether each committed result still holds: a result is a dated measurement, and stale if cases or answers that it used changed."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from mxspec.adjacent import ADJACENT
from mxspec.enums import StrEnum
from mxspec_conformance.cli.console import make_console
from mxspec_lab.evidence.kinds import BLOCK_OPERATIONS, KINDS, ONCE, Kind, Wanted
from mxspec_vectors.digests import content_digest, list_answering
from mxspec_vectors.files import VectorError, write_file

ROOT = Path(__file__).resolve().parents[3]
REPORTS = ROOT / "reports"


class State(StrEnum):
    """What can be said of a committed result."""

    CURRENT = "current"
    #: Cases or answers that it used have changed.
    STALE = "stale"
    #: It does not say what it used.
    UNSTAMPED = "unstamped"


@dataclass(frozen=True, slots=True)
class Standing:
    """One committed result."""

    #: Path below reports/.
    name: str
    kind: Kind
    state: State
    why: str

    @property
    def command(self) -> str:
        """What renews it."""
        return self.kind.command.replace("{name}", Path(self.name).stem).replace("{file}", f"reports/{self.name}")


def list_results() -> Iterator[tuple[Path, Kind]]:
    """Every committed result with its kind."""
    kinds: dict[Path, Kind] = {}
    for kind in KINDS:
        for path in sorted(REPORTS.glob(kind.pattern)):
            kinds.setdefault(path, kind)
    yield from kinds.items()


def list_dates() -> dict[str, str]:
    """Path below reports/ -> date and commit of the last change; empty where this is no checkout of git."""
    command = ["git", "-C", str(REPORTS), "log", "--format=%x00%cs %h", "--name-only", "--relative"]
    try:
        log = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    dates: dict[str, str] = {}
    for entry in log.split("\0")[1:]:
        date, *names = entry.split("\n")
        dates |= {name: dates.get(name, date) for name in names}
    return dates


def use_vectors(wanted: Iterable[Wanted]) -> list[dict[str, Any]]:
    """(operation, format, profiles) as uses with today's digests; the same operation and format are joined.

    Profiles whose answers the vectors do not hold yet are computed by the model: of them the inputs count. A use names no
    profiles where answers are nobody's own, and where none was named: then all answers count. Of adjacent formats no vectors are shipped.
    """
    joined: dict[tuple[str, str], set[str]] = {}
    for operation, fmt, profiles in wanted:
        joined.setdefault((operation, fmt), set()).update(profiles if operation in BLOCK_OPERATIONS else ())
    uses = []
    for (operation, fmt), named in sorted(item for item in joined.items() if item[0][1] not in ADJACENT):
        names = sorted(named.intersection(list_answering(operation, fmt))) if named else None
        use = {"operation": operation, "format": fmt, "digest": content_digest(operation, fmt, names)}
        uses.append(use | ({} if names is None else {"profiles": names}))
    return uses


def find_change(use: Mapping[str, Any]) -> str | None:
    """What has changed since of cases or answers that were used; None: nothing."""
    operation, fmt = use["operation"], use["format"]
    try:
        now = content_digest(operation, fmt, use.get("profiles"))
    except VectorError as error:
        return str(error)
    return None if now == use["digest"] else f"cases or answers of {operation}/{fmt} have changed"


def judge_result(path: Path, kind: Kind) -> Standing:
    """The state of one result, from the digests that it carries."""
    uses = json.loads(path.read_text("utf-8")).get("uses")
    name = path.relative_to(REPORTS).as_posix()
    if uses is None:
        return Standing(name, kind, State.UNSTAMPED, "it carries no digests")
    # A result that is not renewed stays one of its date.
    renewed = kind.pattern not in ONCE
    changes = [change for use in uses["vectors"] if renewed and (change := find_change(use)) is not None]
    if changes:
        more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
        return Standing(name, kind, State.STALE, changes[0] + more)
    return Standing(name, kind, State.CURRENT, "")


#: How a stamp begins: it is the last member of a document, on a line of its own.
_STAMP = ',\n "uses": '


def stamp(path: Path, uses: Mapping[str, Any] | None = None) -> None:
    """Write into a result that was made just now what it used.

    uses: what it used, where that is known otherwise.
    Raises ValueError for a file that is no committed result.
    """
    kind = dict(list_results()).get(path.resolve())
    if kind is None:
        raise ValueError(f"{path} is none of the committed results; `python -m mxspec_lab evidence` lists them")
    text, earlier, _ = path.read_text("utf-8").partition(_STAMP)
    # The brace that closes the document is behind a stamp, or else the last character.
    body = text if earlier else text.rstrip().removesuffix("}").rstrip()
    if uses is None:
        uses = {"vectors": use_vectors(kind.list_vectors(json.loads(body + "}")))}
    write_file(path, f"{body}{_STAMP}{json.dumps(uses)}\n}}\n".encode("ascii"))


def render_result(document: Mapping[str, Any]) -> str:
    """The JSON text of a result; of a list of objects each object has a line of its own."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and all(isinstance(row, Mapping) for row in value):
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            lines.append(f' "{key}": [\n{rows}\n ]')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_result(path: Path, document: Mapping[str, Any]) -> None:
    """Write a result; below reports/ with the digests of what it used.

    Raises ValueError below reports/ for a name that is no committed result's.
    """
    write_file(path, render_result(document).encode("ascii"))
    if path.resolve().is_relative_to(REPORTS):
        stamp(path)


_STYLES = {State.CURRENT: "green", State.STALE: "bold red", State.UNSTAMPED: "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--all", "show_all", is_flag=True, help="List current results, too, with the date and commit that they are of.")
@click.option(
    "--stamp", "stamped", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Add the digests of what it used to this result, which was just made; repeatable.",
)  # fmt: skip
def evidence(as_json: bool, show_all: bool, stamped: tuple[Path, ...]) -> None:
    """Show which committed results are stale.

    A result is a measurement of its date. It is stale if a case or an answer that it used has changed since; additions and
    changes of code do not matter. For each that is, show why, the command that renews it, and how long that takes.

    Exit code: 0, or 1 if a result is stale or does not say what it used.
    """
    for path in stamped:
        stamp(path)
    standings, dates = [judge_result(path, kind) for path, kind in list_results()], list_dates()
    if as_json:
        rows = [
            {"result": s.name, "state": s.state, "why": s.why, "date": dates.get(s.name, ""), "command": s.command, "time": s.kind.time}
            for s in standings
        ]  # fmt: skip
        click.echo(json.dumps(rows, indent=1))
    else:
        console = make_console()
        width = max(len(s.name) for s in standings)
        for s in standings:
            if s.state is not State.CURRENT or show_all:
                console.print(Text(f"{s.name:{width}}  {dates.get(s.name, ''):18}  {s.state.value}", style=_STYLES[s.state]))
            if s.state is not State.CURRENT:
                console.print(Padding(Text(s.why), (0, 0, 0, 4)))
                console.print(Padding(Text(f"renewed by: {s.command} ({s.kind.time})"), (0, 0, 0, 4)))
        counts = Counter(s.state for s in standings)
        console.print(", ".join(f"{counts[state]} {state.value}" for state in State if counts[state]))
    if any(s.state is not State.CURRENT for s in standings):
        raise click.exceptions.Exit(1)
