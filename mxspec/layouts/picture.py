"""A picture of a layout: which item sits in which byte and bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mxspec.layouts.schema import Field, Layout, Padding


@dataclass(frozen=True, slots=True)
class Run:
    """Bits of one byte that hold bits of one item, or of none."""

    #: Lowest bit of the byte, and how many.
    bit: int
    count: int
    #: What is stored there: `codes`, `scales` ...; empty where there is no item.
    part: str
    row: int
    column: int
    #: Lowest bit of the code that lies there, and the code's width.
    code_bit: int
    width: int

    @property
    def whole(self) -> bool:
        """Whether the run is the whole code."""
        return self.count == self.width


def default_shape(layout: Layout) -> tuple[int, int]:
    """The smallest shape that shows a layout: one tile, or two groups where tiles are trivial."""
    rows, columns = layout.tile
    if layout.flat:
        return 3, 3
    if rows == 1:
        columns = max(columns, 8) if columns > 2 else 8
    return rows, columns


def map_bytes(layout: Layout, shape: tuple[int, int], most: int | None = None) -> list[list[Run]]:
    """For each byte of a packed matrix of this shape, or the first `most`, its runs, from the highest bit down, by the layout's formula."""
    bits = 8 * layout.size(shape)
    owner = np.full((4, bits), -1, np.int64)
    for number, field in enumerate(layout.fields):
        columns = shape[1] // field.covers
        m, k = np.meshgrid(np.arange(shape[0]), np.arange(columns), indexing="ij")
        for b in range(field.packing.width):
            byte, bit = layout.locate(m, k, shape, part=field.part, b=b)
            place = np.asarray(8 * byte + bit)
            owner[0, place], owner[1, place], owner[2, place], owner[3, place] = number, m, k, b
    count = bits // 8 if most is None else min(most, bits // 8)
    return [list(_runs(owner[:, 8 * n : 8 * n + 8], layout.fields)) for n in range(count)]


def _runs(owner: np.ndarray[tuple[int, ...], np.dtype[np.int64]], fields: tuple[Field, ...]) -> Iterator[Run]:
    end = 8
    while end:
        start = end - 1
        number, m, k, b = (int(v) for v in owner[:, start])
        while start and _continues(owner, start):
            start -= 1
            b = int(owner[3, start])
        field = fields[number] if number >= 0 else None
        yield Run(start, end - start, field.part if field else "", m, k, b, field.packing.width if field else 0)
        end = start


def _continues(owner: np.ndarray[tuple[int, ...], np.dtype[np.int64]], bit: int) -> bool:
    here, below = owner[:, bit], owner[:, bit - 1]
    return bool((here[:3] == below[:3]).all() and (here[0] < 0 or here[3] == below[3] + 1))


def label_run(run: Run, *, rows: bool, several: bool) -> str:
    """How a run is written: `5` or `2,5` (row, column), its bits where it is not the whole code, `.` for nothing."""
    if not run.part:
        return "."
    name = f"{run.row},{run.column}" if rows else f"{run.column}"
    if several and run.part != "codes":
        name = f"{run.part[0]}{name}"
    if run.whole:
        return name
    top = run.code_bit + run.count - 1
    return f"{name}[{top}]" if run.count == 1 else f"{name}[{top}:{run.code_bit}]"


def describe_padding(layout: Layout) -> str:
    """What happens to shapes that are no whole number of tiles, in words."""
    rows, columns = layout.pad_to or layout.tile
    if (rows, columns) == (1, 1):
        return "none needed"
    tile = f"{rows} x {columns}" if not layout.flat else f"{columns} items"
    match layout.padding:
        case Padding.REFUSED:
            return f"none: shapes must be multiples of {tile}"
        case Padding.SPECIFIED:
            return f"up to multiples of {tile}, filled with {layout.fill:02x}"
        case Padding.UNSPECIFIED:
            return f"up to multiples of {tile}; what lies there is not specified, and is not compared"
