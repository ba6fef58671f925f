"""Tables whose long words stand below their row: what is a number or a name is never broken."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

#: Columns by which what stands below a row is indented.
_BELOW = 4
_GAP = 2


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of one line each, and what is said below them."""

    cells: tuple[Text, ...]
    below: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """A header and rows under common columns, the last one at the right edge; details below, wrapped to the whole width.

    numbers: columns that are aligned at the right, in addition to the last.
    Where the columns need more than the width, a row's first cell has a line of its own.
    """

    header: tuple[str, ...]
    rows: Sequence[Row]
    numbers: frozenset[int] = frozenset()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [Row(tuple(Text(cell, style="bold") for cell in self.header)), *self.rows]
        widths = [max(row.cells[i].cell_len for row in lines) for i in range(len(self.header))]
        gaps = _GAP * (len(widths) - 1)
        apart = sum(widths) + gaps > options.max_width
        if apart:
            widths[0] = _BELOW
        # What is left over stands before the numbers at the right.
        left = next(i for i in reversed(range(len(widths) - 1)) if i not in self.numbers)
        widths[left] += max(0, options.max_width - sum(widths) - gaps)
        for row in lines:
            first, *others = row.cells
            if apart and first.cell_len > _BELOW:
                yield _unbroken(first)
                first = Text("")
            yield _lay((first, *others), widths, self.numbers | {len(widths) - 1})
            for text in row.below:
                yield Padding(text, (0, 0, 0, _BELOW))


def _lay(cells: Sequence[Text], widths: Sequence[int], numbers: Collection[int]) -> Text:
    padded = [_pad(cell, width, right=i in numbers) for i, (cell, width) in enumerate(zip(cells, widths, strict=True))]
    line = Text(" " * _GAP).join(padded)
    line.rstrip()
    return _unbroken(line)


def _pad(cell: Text, width: int, *, right: bool) -> Text:
    blanks = " " * max(0, width - cell.cell_len)
    return Text.assemble(blanks, cell) if right else Text.assemble(cell, blanks)


def _unbroken(text: Text) -> Text:
    whole = text.copy()
    whole.no_wrap, whole.overflow = True, "ignore"
    return whole
