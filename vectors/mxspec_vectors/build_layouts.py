"""The layout files: matrices whose items are numbered, and the bytes that hold them.

Items of few bits cannot each have a number of their own, so a matrix comes several times: case p holds digit p of every
item's number, in the base of how many codes an item may have. Together the cases say where every single item went.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.layouts import Field, Layout, Padding, Part, get_layout, list_layouts
from mxspec_vectors.document import VERSION, Document, case_id
from mxspec_vectors.recipes import number_items
from mxspec_vectors.topics import FLAGS

#: Columns below which a row of codes shows little.
_WIDE = 8
#: Items of a tile from which on a few tiles must do.
_LARGE = 512
#: Bytes beyond which one case of a shape must do.
_LARGEST = 2000


def list_layout_names() -> tuple[str, ...]:
    """The layouts that have a file."""
    return tuple(layout.name for layout in list_layouts())


def choose_shapes(layout: Layout) -> list[tuple[int, ...]]:
    """Shapes on both sides of the tiles, both ways; the last has leading axes."""
    rows, columns = layout.pad_to or layout.tile
    shapes: list[tuple[int, ...]]
    if layout.flat:
        shapes = [(1, 1), (1, columns), (3, 3), (5, columns + 3)]
    elif layout.padding is Padding.REFUSED and rows * columns >= _LARGE:
        shapes = [(rows, columns), (2 * rows, 2 * columns), (2, rows, columns)]
    elif layout.padding is Padding.REFUSED:
        wide = -(-_WIDE // columns) * columns
        shapes = [(rows, columns), (rows, 3 * wide), (3 * rows, 2 * wide), (2, 3, rows, wide)]
    elif layout.pad_to is not None and rows * columns >= 16 * _LARGE:
        # Padding many times as large as the tile: three of its tiles one way, two the other.
        shapes = [(2 * layout.tile[0] + 1, 2 * layout.tile[1] - 4)]
    elif rows == 128 and columns <= 8:
        shapes = [(1, 1), (127, 3), (128, columns), (129, columns + 1), (300, 7), (2, 1, 2)]
    else:
        near = (max(rows - 1, 1), max(columns - 1, 1))
        shapes = [near, (rows + 1, columns + 1), (2, 1, 1)]
    return list(dict.fromkeys(shapes))


def choose_planes(layout: Layout, shape: tuple[int, ...]) -> list[int | None]:
    """The digits that number every item of this shape. Of a batch the lowest must do; large matrices get a scrambled one
    (None).
    """
    if layout.size(shape) > _LARGEST:
        return [None]
    count = 1 if len(shape) > 2 else max(_digits(prod(_part_shape(f, shape)), _allowed(f)) for f in layout.fields)
    return list(range(count))


def mask_items(layout: Layout, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The bits that hold items."""
    return layout.mask(shape, items_only=True)


def describe_padding(layout: Layout) -> str:
    """Whether bits that hold no item are `specified`, `unspecified`, or there are `none`."""
    if layout.padding is Padding.SPECIFIED or layout.gap is not None:
        return "specified"
    gaps = any(len(f.packing.places) < 8 * f.packing.size for f in layout.fields)
    return "unspecified" if gaps or layout.padding is Padding.UNSPECIFIED else "none"


def build_layout(name: str) -> Document:
    """The file of one layout."""
    layout = get_layout(name)
    flags = _choose_flags(layout)
    document: Document = {
        "schema": f"mxspec-vectors/{VERSION}/layout",
        "operation": "layout",
        "format": name,
        "licence": "CC0-1.0",
        "aliases": list(layout.aliases),
        "summary": layout.summary,
        "parts": [
            {"part": f.part.value, "bits": f.packing.width, "one_for_columns": f.covers, "order": f.pattern,
             "byte": f.byte.text, "bit": f.bit.text}
            for f in layout.fields
        ],
        "padding": describe_padding(layout),
        "recipes": {"digits": {f.part.value: _allowed(f) for f in layout.fields}},
        "masks": _list_masks(layout),
        "flags": {
            f: {"note": FLAGS[f].note, "source": FLAGS[f].source, "kind": FLAGS[f].kind, "evidence": FLAGS[f].evidence}
            for f in flags
        },
        "cases": list(_make_cases(layout, flags)),
    }  # fmt: skip
    return document


def _make_cases(layout: Layout, flags: list[str]) -> Iterator[dict[str, Any]]:
    for shape in choose_shapes(layout):
        for plane in choose_planes(layout, shape):
            items = {f: number_items(prod(_part_shape(f, shape)), _allowed(f), plane).reshape(_part_shape(f, shape)) for f in layout.fields}
            given = {f.part.value: _hex_items(f, numbers) for f, numbers in items.items()}
            identity = {"operation": "layout", "format": layout.name, "shape": list(shape), **given}
            name = "scrambled" if plane is None else plane
            yield {
                "id": case_id(f"{name_shape(shape)}-{'' if plane is None else 'digit-'}{name}", identity),
                "topic": "batch" if len(shape) > 2 else "place", "flags": flags, "shape": list(shape), **given,
                "expect": [{"data": layout.pack(*items.values()).tobytes().hex()}], "recipe": ["digits", name],
            }  # fmt: skip


def name_shape(shape: tuple[int, ...]) -> str:
    """`300x7`."""
    return "x".join(map(str, shape))


def _list_masks(layout: Layout) -> dict[str, str]:
    """The bits that hold items, for each shape of which some bits hold none."""
    masks = {name_shape(shape): mask_items(layout, shape) for shape in choose_shapes(layout)}
    return {name: mask.tobytes().hex() for name, mask in masks.items() if (mask != 0xFF).any()}


def _hex_items(field: Field, items: npt.NDArray[np.uint8]) -> str:
    """One hex digit for each code of up to four bits, else two."""
    return "".join(f"{int(v):x}" for v in items.flat) if field.packing.width <= 4 else items.tobytes().hex()


def _choose_flags(layout: Layout) -> list[str]:
    field = layout.main
    flags = ["position-code"]
    if field.packing.width == 4:
        flags.append("nibble-order")
    if field.packing.width == 6:
        flags.append("bit-order")
    if len(layout.fields) > 1:
        flags.append("scale-place")
    if field.part is Part.SCALES and field.parsed.row_tile * field.parsed.column_tile > 1:
        flags.append("swizzle")
    if layout.padding is Padding.SPECIFIED:
        flags.append("tile-padding")
    if any(f.stored is not None for f in layout.fields):
        flags.append("stored-code")
    return flags


def _part_shape(field: Field, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] // field.covers)


def _allowed(field: Field) -> int:
    """Codes that an item may have: from 0 up to the first that cannot be stored."""
    return 1 << field.packing.width if field.stored is None else sum(code >= 0 for code in field.stored)


def _digits(count: int, base: int) -> int:
    digits = 1
    while base**digits < count:
        digits += 1
    return digits
