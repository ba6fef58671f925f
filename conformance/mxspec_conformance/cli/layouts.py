"""`mxspec layouts`: lists the storage layouts, or draws one."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mxspec.layouts import Layout, get_layout, list_layouts
from mxspec.layouts.picture import Run, default_shape, describe_padding, label_run, map_bytes
from mxspec_conformance.cli.console import make_console

#: Colours of neighbouring rows of the matrix.
_STYLES = ("cyan", "green", "yellow", "magenta")
#: Lines of a drawing beyond which its middle is left out.
_LINES = 20
#: Bytes of a drawing in the documentation.
_SKETCHED = 16


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every layout as data.")
@click.option("--markdown", is_flag=True, help="Print the catalogue of reports/layouts.md.")
@click.pass_context
def layouts(ctx: click.Context, as_json: bool, markdown: bool) -> None:
    """List the storage layouts; `layouts show NAME` draws one."""
    if ctx.invoked_subcommand is not None:
        return
    if as_json:
        click.echo(json.dumps([describe(layout) for layout in list_layouts()], indent=1))
        return
    if markdown:
        click.echo(render_markdown(), nl=False)
        return
    console = make_console()
    for layout in list_layouts():
        rows, columns = layout.tile
        console.print(
            Text.assemble((layout.name, "bold"), f"  {' + '.join(layout.parts)}  ", (f"tile {rows} x {columns}  {layout.evidence}", "dim"))
        )
        console.print(Padding(Text(layout.summary), (0, 0, 0, 4)))
        console.print(Padding(Text(f"source: {layout.source}", style="dim"), (0, 0, 0, 4)))
        console.print(Padding(Text(f"used by: {', '.join(layout.users)}", style="dim"), (0, 0, 0, 4)))
        if layout.aliases:
            console.print(Padding(Text(f"also: {', '.join(layout.aliases)}", style="dim"), (0, 0, 0, 4)))
    console.print(f"{len(list_layouts())} layouts; `mxspec layouts show NAME` draws one")


@layouts.command()
@click.argument("name")
@click.option("--shape", metavar="ROWSxCOLUMNS", help="Matrix shape to draw; default: one tile.")
@click.option("--at", "items", multiple=True, metavar="ROW,COLUMN", help="Only say where this item lies; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Draw every line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the layout, and the places of --at.")
def show(name: str, shape: str | None, items: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Draw which item is stored in which bits of which byte, or say where --at lies.

    Items are codes, or scales in a layout of scales: --at 200,3 is scale 3 of row 200. --shape counts them; of a layout that holds
    codes and scales, it counts codes. Without --shape, --at takes the smallest whole number of tiles that holds the items.
    """
    layout = get_layout(name)
    wanted = [_parse_item(item) for item in items]
    size = _parse_shape(shape) if shape else _hold(layout, wanted) if wanted else default_shape(layout)
    layout.size(size)
    places = [place for item in wanted for place in _find_places(layout, item, size)]
    if as_json:
        at = {"shape": list(size), "at": places} if items else {}
        click.echo(json.dumps(describe(layout) | at, indent=1))
        return
    console = make_console()
    if items:
        for p in places:
            where = f"{p['part']} {p['row']},{p['column']} of {size[0]} x {size[1]}"
            console.print(Text(f"{layout.name}: {where}: {_describe_bits(p['bits'])}"))
        return
    _print_facts(layout, console)
    console.print()
    _draw(layout, size, console, everything=everything)


def _parse_item(text: str) -> tuple[int, int]:
    row, _, column = text.partition(",")
    if not row.isdecimal() or not column.isdecimal():
        raise ValueError(f"--at {text!r}: write row,column, such as 200,3")
    return int(row), int(column)


def _hold(layout: Layout, items: list[tuple[int, int]]) -> tuple[int, int]:
    """The smallest shape of whole tiles that holds these items."""
    rows, columns = layout.pad_to or layout.tile
    down, across = max(r for r, _ in items) + 1, max(c for _, c in items) + 1
    return -(-down // rows) * rows, -(-across // columns) * columns


def _find_places(layout: Layout, item: tuple[int, int], shape: tuple[int, int]) -> list[dict[str, Any]]:
    """Where an item of the main part lies, and, for codes, the scale of its block.

    Raises ValueError for an item outside the shape.
    """
    found = []
    for field in layout.fields:
        row, column = item[0], item[1] // field.covers
        bits = [layout.locate(row, column, shape, part=field.part, b=b) for b in range(field.packing.width)]
        found.append(
            {
                "part": field.part.value, "row": row, "column": column,
                # Of each bit of the code, the lowest first.
                "bits": [{"byte": int(byte), "bit": int(bit)} for byte, bit in bits],
            }
        )  # fmt: skip
    return found


def _describe_bits(bits: list[dict[str, int]]) -> str:
    """Where the bits of a code lie, in words."""
    places = [8 * b["byte"] + b["bit"] for b in bits]
    first = bits[0]["byte"]
    if places == list(range(8 * first, 8 * first + 8)):
        return f"byte {first} ({first:#x})"
    if places == list(range(places[0], places[0] + len(places))):
        return f"byte {first} ({first:#x}), {len(bits)} bits from bit {bits[0]['bit']} up"
    return ", ".join(f"bit {i} is bit {b['bit']} of byte {b['byte']}" for i, b in enumerate(bits))


def describe(layout: Layout) -> dict[str, Any]:
    """A layout as JSON."""
    return {
        "name": layout.name, "aliases": list(layout.aliases), "summary": layout.summary,
        "fields": [
            {"part": f.part, "pattern": f.pattern, "packing": f.packing.name, "byte": f.byte.text, "bit": f.bit.text,
             "covers": f.covers, "stored": None if f.stored is None else list(f.stored)}
            for f in layout.fields
        ],
        "tile": list(layout.tile), "pad_to": None if layout.pad_to is None else list(layout.pad_to), "padding": layout.padding,
        "fill": layout.fill, "gap": layout.gap, "flat": layout.flat, "source": layout.source, "evidence": layout.evidence,
        "users": list(layout.users), "notes": list(layout.notes),
    }  # fmt: skip


def render_markdown() -> str:
    """The catalogue as Markdown: each layout with its map, formula, sources and a small picture."""
    lines = []
    for layout in list_layouts():
        lines += [f"### {layout.name}", "", f"{layout.summary[0].upper()}{layout.summary[1:]}.", ""]
        if layout.aliases:
            lines.append(f"- also: {', '.join(f'`{a}`' for a in layout.aliases)}")
        for field in layout.fields:
            lines.append(f"- {field.part}: `{field.pattern}`, {field.packing.name}")
            lines.append(f"  - byte `{field.byte.text}`, bit `{field.bit.text}`")
        lines += [f"- padding: {describe_padding(layout)}", f"- source: {layout.source} ({layout.evidence})",
                  f"- used by: {', '.join(layout.users)}"]  # fmt: skip
        lines += [f"- {note}" for note in layout.notes]
        lines += ["", "```", *_sketch(layout), "```", ""]
    return "\n".join(lines)


def _sketch(layout: Layout) -> list[str]:
    """The first bytes of the smallest shape that shows the layout."""
    shape = default_shape(layout)
    found = map_bytes(layout, shape)[:_SKETCHED]
    cells = ["|".join(label_run(r, rows=shape[0] > 1, several=len(layout.fields) > 1) for r in runs) for runs in found]
    width = max(map(len, cells))
    per_line = max(1, min(_SKETCHED, 100 // (width + 2)))
    first = f"{shape[0]} x {shape[1]}, first bytes:" if shape[0] > 1 else f"row of {shape[1]}, first bytes:"
    return [first, *("  ".join(c.ljust(width) for c in cells[i : i + per_line]).rstrip() for i in range(0, len(cells), per_line))]


def _parse_shape(text: str) -> tuple[int, int]:
    rows, _, columns = text.partition("x")
    if not rows.isdecimal() or not columns.isdecimal() or int(rows) * int(columns) > 1 << 20:
        raise ValueError(f"shape {text!r}: write rows x columns, such as 128x8, of at most {1 << 20} items")
    return int(rows), int(columns)


def _print_facts(layout: Layout, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = [("layout", layout.name), ("summary", layout.summary)]
    if layout.aliases:
        rows.append(("also", ", ".join(layout.aliases)))
    for field in layout.fields:
        rows += [(f"{field.part}", f"{field.pattern}    ({field.packing.name})"), ("  byte", field.byte.text), ("  bit", field.bit.text)]
        if field.covers > 1:
            rows.append(("  one for", f"{field.covers} columns of codes"))
        if field.stored is not None:
            few = ", ".join(f"{code:x} -> {stored:02x}" for code, stored in list(enumerate(field.stored))[:4])
            rows.append(("  stored as", f"{few}, ..."))
    rows += [("padding", describe_padding(layout)), ("source", layout.source), ("used by", ", ".join(layout.users)),
             ("evidence", layout.evidence)]  # fmt: skip
    rows += [("note", note) for note in layout.notes]
    for key, value in rows:
        table.add_row(key, Text(value))
    console.print(table)


def _draw(layout: Layout, shape: tuple[int, int], console: Console, *, everything: bool) -> None:
    found = map_bytes(layout, shape)
    several, rows = len(layout.fields) > 1, shape[0] > 1
    cells = [[label_run(run, rows=rows, several=several) for run in runs] for runs in found]
    width = max(len("|".join(cell)) for cell in cells) + 1
    # Groups of three bytes stay on a line.
    per_line = 3 if layout.main.packing.size % 3 == 0 else 1
    while per_line < 32 and per_line * 2 * width + 7 <= console.width:
        per_line *= 2
    label = "row,column" if rows else "column"
    console.print(
        Text(f"{len(found)} bytes of a {shape[0]} x {shape[1]} matrix; {label} of the item in each byte, high bits left", style="dim")
    )
    starts = list(range(0, len(found), per_line))
    cut = len(starts) > _LINES and not everything
    for number, start in enumerate(starts):
        if cut and number == _LINES - 3:
            console.print(Text(f"  ... {len(starts) - _LINES} more lines ...", style="dim"))
        if cut and _LINES - 3 <= number < len(starts) - 3:
            continue
        line = Text(f"{start:5x}  ", style="dim")
        for runs, labels in zip(found[start : start + per_line], cells[start : start + per_line], strict=True):
            line.append_text(_cell(runs, labels, width))
        console.print(line, soft_wrap=True)


def _cell(runs: list[Run], labels: list[str], width: int) -> Text:
    cell = Text()
    for number, (run, label) in enumerate(zip(runs, labels, strict=True)):
        cell.append("|" if number else "", style="dim")
        cell.append(label, style=_STYLES[run.row % len(_STYLES)] if run.part else "dim")
    cell.append(" " * (width - cell.cell_len))
    return cell
