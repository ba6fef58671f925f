"""The parts of drawings of blocks: short texts, labelled parts, tables of bits and steps; and drawings as text."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mxspec.explain import BlockExplanation, LaneExplanation, Neighbour, Step, Where
from mxspec.explain.text import code_text, number_text, value_text
from mxspec.expressions import Domain
from mxspec.formats import FLOAT32, ScalarFormat
from mxspec.profiles import Profile
from mxspec.reals import Real, decode_real

#: Columns of the drawing.
WIDTH = 80
#: Width of the labels at the left.
LABEL = 8

WHERE_STYLES = {
    Where.TIE: "yellow",
    Where.BEYOND: "magenta",
    Where.INFINITE: "magenta",
    Where.NAN: "red",
    Where.UNDER: "magenta",
    Where.EXACT: "dim",
}

#: What is written where the output cannot hold the character.
ASCII = str.maketrans("…●├┤┼─│▶≠→–·", "~o||+-|>!>--")


def bits_text(code: int, fmt: ScalarFormat) -> str:
    """A code in binary."""
    return f"{code:0{fmt.bits}b}"


def value_cell(x: Real, fmt: ScalarFormat) -> str:
    """A value of a format exactly: a short decimal, or an odd number times a power of two."""
    text = value_text(x, fmt)
    if len(text.lstrip("-")) <= 8 or not x.is_finite or not x.magnitude:
        return text
    odd, exponent = x.magnitude.numerator, 1 - x.magnitude.denominator.bit_length()
    while odd % 2 == 0:
        odd, exponent = odd // 2, exponent + 1
    return ("-" if x.sign else "") + (f"2^{exponent}" if odd == 1 else f"{odd}*2^{exponent}")


def near_cell(n: Neighbour | None, fmt: ScalarFormat) -> str:
    """A neighbour: its value and code."""
    if n is None:
        return ""
    return f"{value_cell(n.value, fmt)} {'--' if n.code is None else code_text(n.code, fmt)}"


def lanes_text(first: int, last: int) -> str:
    """A lane, or the first and last of several."""
    return str(first) if first == last else f"{first}–{last}"


def equal_runs(lanes: Sequence[LaneExplanation], key: Callable[[int], object]) -> Iterator[tuple[int, int]]:
    """First and last lane of runs of equal lanes."""
    for _, run in groupby(range(len(lanes)), key):
        indices = list(run)
        yield indices[0], indices[-1]


def labelled(label: str, *content: RenderableType) -> Table:
    """A label and what belongs to it, with a hanging indent."""
    grid = Table.grid(padding=(0, 0))
    grid.add_column(width=max(LABEL, len(label) + 1), no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(Text(label, style="bold"), Group(*content))
    return grid


def float32_fields(bits: int) -> Table:
    """Sign, exponent and mantissa of a float32, in hex above binary."""
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    grid = Table.grid(padding=(0, 1))
    power = f" = 2^{max(exponent, 1) - FLOAT32.bias}" if exponent < 255 else ""
    rows = (
        ("", "sign", "exponent", "mantissa"),
        ("hex", f"{sign:x}", f"{exponent:02x}{power}", f"{mantissa:06x}"),
        ("binary", f"{sign:b}", f"{exponent:08b}", f"{mantissa:023b}"),
    )
    for row in rows:
        cells = [Text(cell, style="dim" if row[0] == "" else "") for cell in row[1:]]
        bar = Text("│", style="dim")
        grid.add_row(Text(row[0], style="dim"), cells[0], bar, cells[1], bar, cells[2])
    return grid


def steps_table(steps: Sequence[Step]) -> Table:
    """Operations: exact result and, where rounding changed it, the rounded one with its bits."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, max_width=30, overflow="ellipsis")
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    for step in steps:
        same = step.exact == step.result
        exact = "" if same else number_text(step.exact, 13)
        bits = "" if step.bits is None else f"{step.bits:08x}"
        rounded = "" if step.domain is Domain.EXACT else step.domain.value
        style = "dim" if step.is_choice else ""
        result = number_text(step.result, 13)
        arrow = f"{exact} → " if exact else ""
        grid.add_row(
            Text(f"{step.name} =", style=style),
            Text(step.operation, style=style),
            Text(rounded, style="dim"),
            Text(f"{arrow}{result}", style=style),
            Text(bits, style="dim"),
        )
    return grid


def draw_header(formats: str, profiles: Sequence[Profile], notes: Sequence[str]) -> list[RenderableType]:
    """Format, profiles with what they are, and notes."""
    names = " against ".join(p.id for p in profiles)
    lines: list[RenderableType] = [Text.assemble((formats, "bold"), " · ", (names, "bold"))]
    lines += [Text(note, style="dim") for note in notes]
    for p in profiles:
        prefix = f"{p.id}: " if len(profiles) > 1 else ""
        lines.append(Text(f"{prefix}{p.summary}", style="dim"))
        if p.provisional:
            lines.append(Text(f"{p.id} is provisional: {p.evidence.value}, not measured", style="yellow"))
    return [*lines, Text("")]


def lane_key(e: BlockExplanation) -> Callable[[int], object]:
    """What makes lanes of one explanation look alike."""
    return lambda i: (e.lanes[i].bits, e.lanes[i].code, i == e.amax_lane)


def given_value(lane: LaneExplanation) -> Real:
    """The element as it was given."""
    return decode_real(lane.bits, FLOAT32)


def render_text(drawing: RenderableType, *, width: int = WIDTH, color: bool = False) -> str:
    """A drawing as text."""
    console = Console(
        file=io.StringIO(),
        width=width,
        highlight=False,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(drawing)
    lines = capture.get().splitlines()
    return "\n".join(line if color else line.rstrip() for line in lines) + "\n"
