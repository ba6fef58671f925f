"""`mxspec diff A B`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import mxspec
from mxspec.explain import explain_block
from mxspec_conformance.cli.console import make_console, show_progress
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, PRINTED_FILE, SECONDS, TARGET, FileCommand
from mxspec_conformance.cli.streams import until_closed
from mxspec_conformance.identification.diff import Difference, FormatDiff, diff as diff_targets
from mxspec_conformance.render.pair import draw_pair
from mxspec_vectors.files import write_file
from mxspec_vectors.tensor_scales import native_scale


@click.command(cls=FileCommand)
@click.argument("first", type=TARGET)
@click.argument("second", type=TARGET)
@click.option("--format", "formats", multiple=True, type=BLOCK_FORMAT, help="Only this format; repeatable.")
@click.option("--json", "json_file", type=PRINTED_FILE, help="Write the result as JSON; '-' prints it.")
@click.option("--timeout", type=SECONDS, default=60.0, show_default=True, help="Timeout of one call, in seconds.")
def diff(first: str, second: str, formats: tuple[str, ...], json_file: Path | None, timeout: float) -> None:
    """Compare two targets bit for bit.

    Show the first block on which they differ, step by step. The targets may be two versions of one implementation.

    Exit code: 0 if they agree everywhere, 1 if they differ, 2 if nothing could be compared.
    """
    with show_progress(f"comparing {first} with {second}") as progress:
        result = diff_targets(first, second, formats=formats, timeout=timeout, progress=progress)
    if json_file is not None:
        document = {"targets": list(result.targets), "formats": [_as_dict(r) for r in result.formats]}
        text = json.dumps(document, indent=1) + "\n"
        click.echo(text, nl=False) if str(json_file) == "-" else write_file(json_file, text.encode("ascii"))
    if str(json_file) != "-":
        with until_closed():
            _show(result.formats, list(result.targets), make_console())
    raise click.exceptions.Exit(2 if not result.compared else 1 if result.differ else 0)


#: What is counted, as columns of the table.
_COUNTED = ("quantize", "scale", "dequantize", "matmul")


def _show(results: list[FormatDiff], names: list[str], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", title=" against ".join(names), title_justify="left")
    for column in ("format", *_COUNTED):
        table.add_column(column, justify="left" if column == "format" else "right")
    for r in results:
        table.add_row(r.format, *(_count_text(r.counts.get(o)) for o in _COUNTED))
    console.print(table)
    for r in results:
        for note in r.notes:
            console.print(Text(f"{r.format}: {note}", style="dim"))
        if r.first is not None:
            console.print()
            _draw(r, r.first, names, console)


def _count_text(count: tuple[int, int] | None) -> Text:
    if count is None or not count[0]:
        return Text("-", style="dim")
    return Text(f"{count[1]} of {count[0]} differ", style="red") if count[1] else Text(f"{count[0]} equal", style="green")


def _draw(r: FormatDiff, d: Difference, names: list[str], console: Console) -> None:
    """Both profiles side by side if each answer matches a profile; otherwise the two answers."""
    for name, profiles in zip(names, d.profiles, strict=True):
        followed = f"{', '.join(profiles[:3])}{' ...' if len(profiles) > 3 else ''}" if profiles else "no known profile"
        console.print(Text.assemble((f"{r.format}: {name}", "bold"), f" matches {followed} on this block"))
    lanes = [i for i, v in enumerate(d.case.x.reshape(-1).view("u4").tolist()) if v or d.answers[0][1][i] != d.answers[1][1][i]]
    if d.profiles[0] and d.profiles[1]:
        console.print(draw_pair(*(_explain(r, d, side) for side in (0, 1))))
        return
    for name, (scale, codes) in zip(names, d.answers, strict=True):
        shown = " ".join(f"{i}:{int(codes[i]):02x}" for i in lanes[:12])
        console.print(Text(f"  {name}: scale {scale:02x}  codes {shown}"))
    shown = ", ".join(f"{i}: 0x{int(d.case.x.reshape(-1).view('u4')[i]):08x} = {float(d.case.x.reshape(-1)[i])!r}" for i in lanes[:12])
    console.print(Text(f"  x {shown}; all other lanes +0"))


def _explain(r: FormatDiff, d: Difference, side: int) -> Any:
    profile = mxspec.get_profile(d.profiles[side][0], r.format)
    scale = native_scale(profile, d.case.tensor)
    return explain_block(d.case.x.reshape(-1), r.format, profile=profile, tensor_scale=scale)


def _as_dict(r: FormatDiff) -> dict[str, Any]:
    first: dict[str, Any] | None = None
    if r.first is not None:
        first = {
            "x": [f"{b:08x}" for b in r.first.case.x.reshape(-1).view("u4").tolist()],
            "tensor_scale": r.first.case.tensor,
            "answers": [{"scale": f"{s:02x}", "codes": bytes(c).hex()} for s, c in r.first.answers],
            "profiles": [list(p) for p in r.first.profiles],
        }
    counts = {o: {"compared": n, "different": d} for o, (n, d) in r.counts.items()}
    return {"format": r.format, "counts": counts, "first": first, "notes": r.notes}
