"""Commands for targets that are not Python files: `smoke`, `header`, `protocol`, `bundle`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from mxspec_conformance.cli.console import fail, make_console
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, INPUT_FILE, OUTPUT_FILE, SECONDS, TARGET, FileCommand
from mxspec_vectors.reading import read_json

if TYPE_CHECKING:
    from mxspec_conformance.transports.smoke import Step


@click.command()
@click.argument("target")
@click.option("--timeout", type=SECONDS, default=10.0, show_default=True, help="Timeout of one call, in seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def smoke(target: str, timeout: float, as_json: bool) -> None:
    """Test whether TARGET starts, answers and stops.

    A few small calls check shapes and dtypes. The values are not checked.

    Exit code: 0 if all steps succeed, 1 if not.
    """
    from mxspec_conformance.transports.smoke import try_target

    steps = try_target(target, timeout=timeout)
    if as_json:
        tried = list(steps)
        rows = [{"step": s.name, "ok": s.ok, "note": s.note, "seconds": round(s.seconds, 6)} for s in tried]
        click.echo(json.dumps(rows, indent=1))
        ok = all(s.ok for s in tried)
    else:
        ok = show_steps(steps, make_console())
    raise click.exceptions.Exit(0 if ok else 1)


def show_steps(steps: Iterable[Step], console: Console) -> bool:
    """Print each step as it is done; whether all succeed."""
    ok = True
    for step in steps:
        ok &= step.ok
        mark, style = ("ok", "green") if step.ok else ("no", "bold red")
        console.print(Text.assemble((f"{mark}  ", style), f"{step.name}  ", (f"{step.note} ({step.seconds:.3f} s)", "dim" if step.ok else "")))  # fmt: skip
    return ok


@click.command()
@click.option("--folder", is_flag=True, help="Print the include folder, for -I.")
@click.option("--text", is_flag=True, help="Print the text of the header.")
def header(folder: bool, text: bool) -> None:
    """Print the path of mxspec_target.h.

    This is the C header for targets that are shared libraries; see docs/targets.md.
    """
    from mxspec_conformance.transports.library import header_path

    path = header_path()
    click.echo(path.read_text("ascii") if text else path.parent if folder else path, nl=not text)


@click.command()
def protocol() -> None:
    """Print the JSON Schema of the process protocol."""
    from mxspec_conformance.transports.description import load_protocol_schema

    click.echo(json.dumps(load_protocol_schema(), indent=1))


@click.command(cls=FileCommand)
@click.argument("out", type=OUTPUT_FILE)
@click.option(
    "--description", type=INPUT_FILE,
    help="JSON description of the target: its reply to `start`.",
)  # fmt: skip
@click.option("--like", metavar="TARGET", type=TARGET, help="Use the description of this target, which must run here.")
@click.option("--format", "formats", multiple=True, type=BLOCK_FORMAT, help="Only this format; repeatable.")
@click.option(
    "--encoding", type=click.Choice(["base64", "hex"]), default="base64", show_default=True,
    help="Encoding of arrays.",
)  # fmt: skip
def bundle(out: Path, description: Path | None, like: str | None, formats: tuple[str, ...], encoding: str) -> None:
    """Write all requests to OUT for offline execution.

    OUT has one JSON request per line. Run them anywhere, write one JSON reply per line to a file, and judge that file with
    `mxspec check RESULTS.jsonl`.
    """
    from mxspec_conformance.judge.planning import plan_requests
    from mxspec_conformance.transports.description import read_description
    from mxspec_conformance.transports.opening import open_target
    from mxspec_conformance.transports.recorded import write_bundle

    if (description is None) == (like is None):
        fail("pass either --description FILE or --like TARGET; the requests depend on the target's capabilities")
    if description is not None:
        try:
            document = read_json(description)
        except FileNotFoundError:
            fail(f"{description} does not exist")
        capabilities = read_description(document, str(description))
    else:
        session = open_target(like)
        session.close()
        capabilities = session.capabilities
    count = write_bundle(out, plan_requests(capabilities, formats or None), encoding)
    click.echo(f"{count} calls, {out.stat().st_size / 1e6:.1f} MB: {out}")
