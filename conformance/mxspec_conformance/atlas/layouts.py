"""Layouts drawn as grids: the bytes of a small tile and what lies in each, and the tile and where each item lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mxspec.layouts import Layout
from mxspec.layouts.picture import Run, default_shape, describe_padding, label_run, map_bytes
from mxspec.layouts.schema import Field

#: Bytes and items that are drawn, and bytes of a line.
MOST_BYTES, MOST_ITEMS, LINE = 64, 64, 16
#: Colours of neighbouring rows of the matrix.
COLOURS = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """A field of a grid: what stands in it, what it says when it is pointed at, and the row of the matrix that colours it; None: no item."""

    text: str
    title: str
    row: int | None


@dataclass(frozen=True, slots=True)
class Grid:
    """Lines of fields; head: what stands before each line."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Cell, ...]], ...]
    #: What is left out, in words.
    more: str


@dataclass(frozen=True, slots=True)
class LayoutView:
    """A layout for its page."""

    layout: Layout
    shape: tuple[int, int]
    padding: str
    grids: tuple[Grid, ...]


def view_layout(layout: Layout) -> LayoutView:
    """The smallest tile that shows a layout, from its documented formula."""
    shape = default_shape(layout)
    grids = (_draw_bytes(layout, shape), *(_draw_items(layout, field, shape) for field in layout.fields))
    return LayoutView(layout, shape, describe_padding(layout), grids)


def _draw_bytes(layout: Layout, shape: tuple[int, int]) -> Grid:
    several, rows = len(layout.fields) > 1, shape[0] > 1
    held = map_bytes(layout, shape, MOST_BYTES)
    cells = [_describe_byte(number, runs, rows=rows, several=several) for number, runs in enumerate(held)]
    total = layout.size(shape)
    width = min(LINE, len(cells))
    lines = tuple((f"{start}", tuple(cells[start : start + width])) for start in range(0, len(cells), width))
    more = f"{total - len(cells):,} more bytes follow." if total > len(cells) else ""
    return Grid(f"The {total:,} bytes of {shape[0]} x {shape[1]}", tuple(f"+{i}" for i in range(width)), lines, more)


def _describe_byte(number: int, runs: list[Run], *, rows: bool, several: bool) -> Cell:
    text = " ".join(label_run(run, rows=rows, several=several) for run in runs)
    said = "; ".join(_describe_run(run) for run in runs)
    owner = next((run.row for run in runs if run.part), None)
    return Cell(text, f"byte {number} ({number:#x}): {said}", owner)


def _describe_run(run: Run) -> str:
    bits = _name_bits(run.bit, run.count)
    if not run.part:
        return f"{bits}: no item"
    inner = "" if run.whole else f" {_name_bits(run.code_bit, run.count)} of"
    return f"{bits}:{inner} {run.part.removesuffix('s')} of row {run.row}, column {run.column}"


def _name_bits(first: int, count: int) -> str:
    return f"bit {first}" if count == 1 else f"bits {first} to {first + count - 1}"


def _draw_items(layout: Layout, field: Field, shape: tuple[int, int]) -> Grid:
    columns = shape[1] // field.covers
    across = min(columns, 32)
    down = min(shape[0], max(1, MOST_ITEMS // across))
    m, k = np.meshgrid(np.arange(down), np.arange(across), indexing="ij")
    located = [layout.locate(m, k, shape, part=field.part, b=b) for b in range(field.packing.width)]
    # [down, across, bits of a code]: the byte and the bit of each.
    byte, bit = (np.stack([np.broadcast_to(place[i], m.shape) for place in located], axis=-1) for i in (0, 1))
    lines = tuple(
        (f"{row}", tuple(_describe_item(row, column, byte[row, column].tolist(), bit[row, column].tolist()) for column in range(across)))
        for row in range(down)
    )
    left = shape[0] * columns - down * across
    title = (
        f"Where each of the {field.part} lies"
        if len(layout.fields) > 1
        else f"The {shape[0]} x {columns} {field.part}, and the byte of each"
    )
    return Grid(title, tuple(str(i) for i in range(across)), lines, f"{left:,} more lie as the pattern says." if left else "")


def _describe_item(row: int, column: int, bytes_of: list[int], bits_of: list[int]) -> Cell:
    by_byte: dict[int, list[int]] = {}
    for byte, bit in zip(bytes_of, bits_of, strict=True):
        by_byte.setdefault(byte, []).append(bit)
    where = " and ".join(f"byte {byte} ({byte:#x}), {_list_bits(found)}" for byte, found in by_byte.items())
    return Cell("+".join(map(str, by_byte)), f"row {row}, column {column}: {where}", row)


def _list_bits(bits: list[int]) -> str:
    if bits == list(range(bits[0], bits[0] + len(bits))):
        return _name_bits(bits[0], len(bits))
    return f"bits {', '.join(map(str, bits))}"
