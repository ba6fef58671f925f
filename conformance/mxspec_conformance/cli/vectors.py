"""`mxspec vectors`: builds, verifies, lists and exports the golden vectors."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table

import mxspec
from mxspec_conformance.cli.console import make_console, show_count
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, INPUT_FOLDER, OUTPUT_FOLDER, FileCommand


@click.group()
def vectors() -> None:
    """Build, verify, list and export the golden vectors."""


@vectors.command("build", cls=FileCommand)
@click.option("--out", type=OUTPUT_FOLDER, help="Folder to replace; default: that of the installed package.")
def vectors_build(out: Path | None) -> None:
    """Compute all vectors from the model."""
    from mxspec_vectors.build import build, list_files

    with show_count("building", len(list_files())) as progress:
        index = build(out, progress)
    size = sum(f["bytes"] for f in index["files"].values())
    click.echo(f"{index['cases']} cases in {len(index['files'])} files, {size / 1e6:.2f} MB\ndigest {index['digest']}")


@vectors.command("verify")
@click.argument("root", required=False, type=INPUT_FOLDER)
@click.option("--no-model", is_flag=True, help="Only check schemas and digests; do not recompute expectations.")
def vectors_verify(root: Path | None, no_model: bool) -> None:
    """Check vector files against digests, schemas and the model.

    Exit code: 0 if everything matches, 1 if not.
    """
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
    """List the vector files with case counts and sizes."""
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


@vectors.command("export", cls=FileCommand)
@click.argument("out", metavar="FOLDER", type=OUTPUT_FOLDER)
@click.option("--kind", type=click.Choice(["npz", "c", "readmemh"]), required=True, help="Output type.")
@click.option("--format", "fmt", type=BLOCK_FORMAT, required=True, help="The block format.")
@click.option("--profile", help="Default: the default profile of the format.")
def vectors_export(out: Path, kind: str, fmt: str, profile: str | None) -> None:
    """Export quantize vectors of one format as flat arrays.

    The output is a .npz file, a C header, or $readmemh files for Verilog.
    """
    from mxspec_vectors.export import export

    written = export(out, kind=kind, fmt=fmt, profile=profile or mxspec.default_profile(fmt).id)
    for path in written:
        click.echo(str(path))
