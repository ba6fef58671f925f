"""The command `submit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mxspec_conformance.cli.console import fail
from mxspec_conformance.cli.parameters import INPUT_FILE, OUTPUT_FOLDER, SECONDS, TARGET, FileCommand
from mxspec_vectors.reading import read_json
from mxspec_vectors.writing import write_file

if TYPE_CHECKING:
    from mxspec_conformance.atlas.entries import Entry


@click.command(cls=FileCommand)
@click.argument("result", type=INPUT_FILE)
@click.option("--into", required=True, type=OUTPUT_FOLDER, help="Folder of results that `mxspec site` reads.")
@click.option("--target", type=TARGET, help="The target of the result: a random tenth of the cases is run again.")
@click.option("--timeout", type=SECONDS, default=60.0, show_default=True, help="Seconds that one call may take.")
def submit(result: Path, into: Path, target: str | None, timeout: float) -> None:
    """Check a result and file it for the site.

    RESULT is what `mxspec check --json` wrote. It has to be of the installed vectors, of the default level, and complete:
    everything that the target offers was judged. `mxspec site FOLDER` then shows it.
    """
    from mxspec_conformance.atlas.submission import ask_again, read_submission
    from mxspec_conformance.targets.errors import TargetError

    document = read_json(result)
    if not isinstance(document, dict):
        fail(f"{result} holds no result; pass a file that `mxspec check --json` wrote")
    entry = read_submission(document, str(result))
    words = ", not run again"
    if target is not None:
        try:
            again, disagreements = ask_again(entry, target, timeout=timeout)
        except TargetError as error:
            fail(str(error))
        if disagreements:
            for d in disagreements[:10]:
                click.echo(f"{d.requirement}: the result says {d.stated}, run again it is {d.found}" + (f" ({d.case})" if d.case else ""))
            fail(f"{target} does not give what {result} says; run `mxspec check {target} --json {result}` again")
        count = sum(r.cases for r in again.requirements)
        words = f", {count:,} cases run again, all equal"
        document["details"] = {**document.get("details", {}), "submission": {"asked_again": count}}
    path = into / f"{entry.slug}.json"
    if path.exists() and not _is_of(entry, path):
        fail(f"{path} exists and is no result of {entry.name} {entry.version}; name another folder, or move it away")
    write_file(path, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    click.echo(f"{path}: {entry.name} {entry.version} on {entry.device}{words}")
    click.echo(f"`mxspec site {into} -o site` shows it")


def _is_of(entry: Entry, path: Path) -> bool:
    """Whether a file holds an earlier result of the same implementation, version and device."""
    from mxspec_conformance.atlas.entries import make_entry

    try:
        return make_entry(read_json(path), source=str(path), current=False).identity == entry.identity
    except (ValueError, TypeError):  # anybody's file
        return False
