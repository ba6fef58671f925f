"""`mxspec vectors`: the golden vectors built, verified, listed and exported."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table

import mxspec
from mxspec_conformance.cli.console import fail, make_console, show_count
from mxspec_conformance.cli.parameters import BLOCK_FORMAT
from mxspec_vectors.files import VectorError


@click.group()
def vectors() -> None:
    """Build, verify, list and export the golden vectors."""


@vectors.command("build")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to replace; by default the package's own."
)
def vectors_build(out: Path | None) -> None:
    """Compute all vectors from the model."""
    from mxspec_vectors.build import build, list_files

    with show_count("building", len(list_files())) as progress:
        index = build(out, progress)
    size = sum(f["bytes"] for f in index["files"].values())
    click.echo(f"{index['cases']} cases in {len(index['files'])} files, {size / 1e6:.2f} MB\ndigest {index['digest']}")


@vectors.command("verify")
@click.argument("root", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--no-model", is_flag=True, help="Only schema and digests; do not recompute answers.")
def vectors_verify(root: Path | None, no_model: bool) -> None:
    """Check files against digests, schemas and the model. Exit code 1 if anything is wrong."""
    from mxspec_vectors.build import list_files
    from mxspec_vectors.verify import verify

    with show_count("verifying", len(list_files())) as progress:
        problems = verify(root, model=not no_model, progress=progress)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise click.exceptions.Exit(1)
    click.echo("all files match their digests and schemas" + ("" if no_model else ", and the model"))


@vectors.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the index.")
def vectors_list(as_json: bool) -> None:
    """List the files with their number of cases and size."""
    from mxspec_vectors.files import read_index, vectors_root

    index = read_index()
    if as_json:
        click.echo(json.dumps(index, indent=1))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("file", "left"), ("cases", "right"), ("KB", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # a literal that mypy sees as str
    for name, entry in index["files"].items():
        table.add_row(name, str(entry["cases"]), f"{entry['bytes'] / 1000:.0f}")
    console = make_console()
    console.print(table)
    console.print(f"{index['cases']} cases\ndigest {index['digest']}\n{vectors_root()}")


@vectors.command("export")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(["npz", "c", "readmemh"]), required=True)
@click.option("--format", "fmt", type=BLOCK_FORMAT, required=True)
@click.option("--profile", help="By default the format's default profile.")
def vectors_export(out: Path, kind: str, fmt: str, profile: str | None) -> None:
    """Write one format's quantize vectors flat: .npz, a C header, or $readmemh files."""
    from mxspec_vectors.export import export

    try:
        written = export(out, kind=kind, fmt=fmt, profile=profile or mxspec.default_profile(fmt).id)
    except ValueError as error:
        if isinstance(error, VectorError):
            raise
        fail(str(error))
    for path in written:
        click.echo(str(path))
