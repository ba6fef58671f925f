"""`mxspec convert`: rewrites a checkpoint in another convention and reports which values change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mxspec.affine.checkpoints import CONVENTIONS as AFFINE, AffineConversion, convert_affine
from mxspec.containers import CONVENTIONS, ContainerError, Conversion, TensorChange, convert as run_conversion
from mxspec.containers.pipeline import Progress as Report
from mxspec.containers.text import clip
from mxspec.tensorscale import TensorScale
from mxspec_conformance.cli.affine import CHECKPOINT_FORMAT, ConventionChoice, describe_conversion, from_option, open_source
from mxspec_conformance.cli.parameters import EXISTING, OUTPUT, FileCommand
from mxspec_vectors.writing import NothingWritten

#: Tensors listed individually; `--json` lists all.
_LISTED = 12


@click.command(cls=FileCommand)
@click.argument("source", metavar="IN", type=EXISTING)
@click.argument("out", metavar="OUT", type=OUTPUT)
@click.option(
    "--to",
    "convention",
    required=True,
    type=ConventionChoice((*CONVENTIONS, *AFFINE)),
    metavar="NAME",
    help=f"The convention to write: {', '.join(CONVENTIONS)}; of affine integers {', '.join(AFFINE)}.",
)
@click.option("--exact", is_flag=True, help="Refuse if any element would change its value.")
@click.option("--force", is_flag=True, help="Overwrite OUT if it is an existing file.")
@click.option("--ignore-origin", is_flag=True, help="Ignore the tensor scales saved by an earlier conversion.")
@click.option(
    "--format", "formats", multiple=True, type=CHECKPOINT_FORMAT,
    help="A format that IN contains, if names and shapes do not determine it; repeatable.",
)  # fmt: skip
@from_option
@click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")
def convert(
    source: Path,
    out: Path,
    convention: str,
    exact: bool,
    force: bool,
    ignore_origin: bool,
    formats: tuple[str, ...],
    origin: str | None,
    as_json: bool,
) -> None:
    """Convert a checkpoint to another storage convention.

    IN is a .safetensors or .gguf file, a shard index, or a folder that contains one of these. Codes and block scales are
    copied unchanged. A tensor scale that the new convention stores as its reciprocal is converted with correct rounding; its
    original bits are saved in the metadata, so that converting back restores the original file. A failed conversion leaves
    no files behind. Codes, scales and offsets of affine integers are copied unchanged, too.

    Exit code: 0 if OUT was written, 2 if the conversion was refused.
    """
    from mxspec_conformance.cli.console import fail, make_console

    try:
        with show_bytes(make_console(stderr=True), "converting") as progress:
            found, blocks = open_source(source, formats, origin)
            moved = convert_affine(found, out, convention, force=force, progress=progress) if convention in AFFINE else None
            done = None if moved is not None else run_conversion(
                source, out, convention, exact=exact, force=force, ignore_origin=ignore_origin, formats=blocks,
                progress=progress,
            )  # fmt: skip
    except ContainerError as error:
        fail(f"{clip(str(error), 1500)}; nothing was written")
    except OSError as error:  # whatever it was, the conversion took its temporary files with it
        raise NothingWritten(error.errno, error.strerror, str(error.filename or out)) from error
    if moved is not None:
        if as_json:
            click.echo(json.dumps(describe_conversion(moved, convention), indent=1))
        else:
            _print_moved(moved, convention, make_console())
    elif done is not None:
        if as_json:
            click.echo(json.dumps(describe(done), indent=1))
        else:
            print_conversion(done, convention, make_console())


def _print_moved(done: AffineConversion, convention: str, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("written", ", ".join(str(f) for f in done.files[:3]) + (" ..." if len(done.files) > 3 else ""))
    table.add_row("conventions", f"{', '.join(done.sources)} -> {convention}")
    table.add_row("tensors", f"{len(done.tensors)} of affine integers ({done.elements:,} elements); {len(done.carried)} others copied")
    table.add_row("changed values", "none: codes, scales and offsets are the same")
    for note in done.notes:
        table.add_row("note", note)
    console.print(table)


@contextmanager
def show_bytes(console: Console, what: str) -> Iterator[Report]:
    """A bar of the bytes that are done, on a terminal."""
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console,
        transient=True, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task(what, total=None)

        def report(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name[-40:])

        yield report


def describe(done: Conversion) -> dict[str, Any]:
    """A conversion as JSON."""
    return {
        "files": [str(f) for f in done.files],
        "elements": done.elements,
        "values_changed": done.changed,
        "largest_ulps": done.ulps,
        "tensors_copied": done.copied,
        "notes": list(done.notes),
        "tensors": [
            {
                "name": t.base, "format": t.format_name, "elements": t.elements, "from": t.source, "to": t.target,
                "tensor_scale_before": _scale_dict(t.before), "tensor_scale_after": _scale_dict(t.after),
                "values_changed": t.changed, "largest_ulps": t.ulps, "restored": t.restored,
            }
            for t in done.tensors
        ],
    }  # fmt: skip


def _scale_dict(scale: TensorScale | None) -> dict[str, str] | None:
    return None if scale is None else {"kind": scale.kind.value, "bits": f"{scale.bits:08x}"}


def print_conversion(done: Conversion, convention: str, console: Console) -> None:
    """Print what changed, in 80 columns."""
    sources = ", ".join(sorted({t.source for t in done.tensors}))
    kinds = Counter(t.format_name for t in done.tensors)
    what = ", ".join(f"{n} {name}" for name, n in kinds.items())
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("written", ", ".join(str(f) for f in done.files[:3]) + (" ..." if len(done.files) > 3 else ""))
    table.add_row("conventions", f"{sources} -> {convention}")
    table.add_row("tensors", f"{what} ({done.elements:,} elements); {done.copied} others copied")
    table.add_row("codes, block scales", "unchanged")
    table.add_row("tensor scales", _describe_scales(done.tensors))
    share = f" ({100 * done.changed / done.elements:.3g} %), by {done.ulps} ulp of float32 at most" if done.changed else ""
    table.add_row("changed values", f"{done.changed:,} of {done.elements:,}{share}")
    for note in done.notes:
        table.add_row("note", note)
    console.print(table)
    changed = [t for t in done.tensors if t.changed]
    if not changed:
        return
    console.print()
    rows = Table(box=None, pad_edge=False, header_style="bold")
    rows.add_column("tensor", overflow="fold", max_width=36)
    for column in ("before", "after"):
        rows.add_column(column, no_wrap=True)
    rows.add_column("values", justify="right", no_wrap=True)
    for t in changed[:_LISTED]:
        rows.add_row(Text(t.base), _short(t.before), _short(t.after), f"{t.changed:,}")
    console.print(rows)
    if len(changed) > _LISTED:
        console.print(f"and {len(changed) - _LISTED} more tensors; --json lists all")


def _describe_scales(tensors: tuple[TensorChange, ...]) -> str:
    ways: Counter[str] = Counter()
    for t in tensors:
        if t.after is None:
            ways["none"] += 1
        elif t.before is None:
            ways["written as 1"] += 1
        elif t.restored:
            ways["restored from saved bits"] += 1
        elif t.before.kind is t.after.kind:
            ways[f"{t.before.kind.value}, same bits"] += 1
        else:
            ways[f"{t.before.kind.value} -> {t.after.kind.value}, rounded reciprocal"] += 1
    return "; ".join(f"{n} {way}" if way != "none" else way for way, n in ways.items())


def _short(scale: TensorScale | None) -> str:
    return "-" if scale is None else f"{scale.kind.value} {scale.bits:08x}"
