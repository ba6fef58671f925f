"""`mxspec compare`: the error that formats and profiles leave on the user's own numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mxspec_conformance.cli.console import make_console, show_progress
from mxspec_conformance.cli.numbers import MOST, read_tensors
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, INPUT, OUTPUT_FILE, PRINTED_FILE, FileCommand, need_jinja2

if TYPE_CHECKING:
    from mxspec.comparing import Outcome
    from mxspec.containers.numbers import Numbers

SCHEMA = "mxspec-compare/1"


@click.command(cls=FileCommand)
@click.argument("file", type=INPUT)
@click.option("--tensor", "names", multiple=True, metavar="NAME", help="Only this tensor; repeatable. Default: all of two axes or more.")
@click.option("--format", "formats", multiple=True, type=BLOCK_FORMAT, help="Only this format; repeatable.")
@click.option("--profile", "profiles", multiple=True, help="This profile; repeatable. Default: the normative ones.")
@click.option("--all", "everything", is_flag=True, help="Every profile, those of libraries, too.")
@click.option("--elements", type=click.IntRange(min=1), default=MOST, show_default=True, help="Numbers to read, in whole rows.")
@click.option("--json", "json_file", type=PRINTED_FILE, help="Write the result as JSON; '-' prints it.")
@click.option("--html", type=OUTPUT_FILE, callback=need_jinja2, help="Write a self-contained HTML page with plots.")
def compare(
    file: Path,
    names: tuple[str, ...],
    formats: tuple[str, ...],
    profiles: tuple[str, ...],
    everything: bool,
    elements: int,
    json_file: Path | None,
    html: Path | None,
) -> None:
    """Compare formats and profiles on the numbers of FILE.

    FILE is a .npy file, a safetensors or GGUF file, an index of shards or a folder. Each tensor is quantized along its last axis,
    padded with zeros, with its own tensor scale where the profile has one; errors are measured over all tensors together, and
    profiles that give the same bits are one row. A high SQNR is good; a model's quality is not in these numbers.
    """
    from mxspec.comparing import compare as compare_formats
    from mxspec_vectors.files import write_files

    if profiles and everything:
        raise click.UsageError("pass --profile or --all, not both")
    tensors = read_tensors(file, names=names, most=elements)
    with show_progress(f"comparing on {file.name}"):
        outcomes = compare_formats([t.values for t in tensors], formats, None if everything else profiles)
    document = as_document(file, tensors, outcomes)
    written: dict[Path, bytes] = {}
    if html is not None:
        from mxspec_conformance.render.comparison import render_comparison

        written[html] = render_comparison(document)
    if json_file is not None and str(json_file) != "-":
        written[json_file] = (json.dumps(document, indent=1) + "\n").encode("ascii")
    write_files(written)
    if str(json_file) == "-":
        click.echo(json.dumps(document, indent=1))
    else:
        _show(document)


def as_document(file: Path, tensors: Sequence[Numbers], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The comparison as JSON."""
    values = np.concatenate([t.values.reshape(-1) for t in tensors])
    finite = np.abs(values[np.isfinite(values)])
    return {
        "schema": SCHEMA,
        "file": file.name,
        "tensors": [{"name": t.name, "shape": list(t.shape), "rows": t.values.shape[0], "columns": t.values.shape[1]} for t in tensors],
        "elements": int(values.size),
        "not_finite": int(values.size - finite.size),
        "zeros": int((finite == 0).sum()),
        "largest": float(finite.max(initial=0)),
        "exponents": _count_exponents(finite),
        "outcomes": [_describe(o) for o in outcomes],
    }


def _count_exponents(magnitudes: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, int]:
    """How many numbers lie in each binade, by its exponent; subnormal ones count as 2^-127."""
    fields = magnitudes[magnitudes > 0].view(np.uint32) >> 23
    exponents, counts = np.unique(fields.astype(np.int64) - 127, return_counts=True)
    return {str(e): int(n) for e, n in zip(exponents, counts, strict=True)}


def _describe(outcome: Outcome) -> dict[str, Any]:
    error = outcome.error
    return {
        "format": outcome.format.name,
        "element": outcome.format.element.name,
        "profile": outcome.profile.id,
        "same": list(outcome.same),
        "bits": outcome.bits,
        "sqnr": _finite(error.sqnr),
        "rms": _finite(error.rms),
        "largest": _finite(error.largest),
        "codes": list(outcome.codes),
        "scales": {f"{code:02x}": n for code, n in enumerate(outcome.scales) if n},
    }


def _finite(number: float) -> float | None:
    return float(f"{number:.9g}") if np.isfinite(number) else None


def _show(document: dict[str, Any]) -> None:
    from rich.text import Text

    from mxspec_conformance.render.rows import Row, Rows

    console = make_console()
    tensors = document["tensors"]
    named = ", ".join(f"{t['name']} {'x'.join(map(str, t['shape']))}" for t in tensors[:3])
    more = f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""
    console.print(Text(f"{document['file']}: {named}{more}; {document['elements']:,} numbers, the largest {document['largest']:.4g}"))
    rows = []
    for o in document["outcomes"]:
        numbers = (f"{o['bits']:g}", _number(o["sqnr"], ".2f"), _number(o["rms"], ".4g"), _number(o["largest"], ".4g"))
        more = f" and {len(o['same']) - 4} more" if len(o["same"]) > 4 else ""
        same = f"the same bits: {', '.join(o['same'][:4])}{more}"
        cells = tuple(map(Text, (o["profile"], o["format"], *numbers)))
        rows.append(Row(cells, (Text(same, style="dim"),) if o["same"] else ()))
    header = ("profile", "format", "bits", "SQNR, dB", "rms error", "largest")
    console.print(Rows(header, rows, numbers=frozenset({2, 3, 4})))
    if document["not_finite"]:
        console.print(Text(f"{document['not_finite']} numbers are NaN or infinite, and left out of the errors"))


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
