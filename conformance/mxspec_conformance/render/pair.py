"""One block through two profiles, side by side, and where they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from mxspec.explain import BlockExplanation, Divergence, LaneExplanation, Stage, compare_blocks
from mxspec.explain.text import code_text, number_text, value_text
from mxspec.formats import FLOAT32
from mxspec.reals import Real, decode_real
from mxspec_conformance.render.cells import WIDTH, bits_text, draw_header, equal_runs, given_value, labelled, lane_key, lanes_text

#: Least width of a profile's column where two are drawn side by side, and the width of all else.
_CELL, _REST = 26, 28


def draw_pair(a: BlockExplanation, b: BlockExplanation, *, notes: Sequence[str] = (), width: int = WIDTH) -> Group:
    """Two explanations of one block side by side, differences marked, and where they part in words.

    width: columns of the drawing; in wider ones the names of profiles need fewer lines.
    """
    cell = max(_CELL, (width - _REST) // 2)
    divergence = compare_blocks(a, b)
    parts = draw_header(f"{a.format.name}, a block of {a.format.k}", [a.profile, b.profile], notes)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", width=1, no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column(_fit(a.profile.id, cell), no_wrap=True, overflow="ellipsis", min_width=_CELL)
    table.add_column("", width=1, no_wrap=True)
    table.add_column(_fit(b.profile.id, cell), no_wrap=True, overflow="ellipsis", min_width=_CELL)
    for step, label, left, right in _pair_rows(a, b):
        _add_pair_row(table, divergence, step, label, left, right)
    keys = lane_key(a), lane_key(b)
    for first, last in equal_runs(a.lanes, lambda i: (keys[0](i), keys[1](i))):
        la, lb = a.lanes[first], b.lanes[first]
        label = f"lane {lanes_text(first, last)}".ljust(12) + number_text(given_value(la), 11)
        stage = divergence.stage if divergence is not None and divergence.lane == first else None
        here = None if stage is Stage.VALUE else stage
        _add_pair_row(table, divergence, here, label, _lane_cell(la, a), _lane_cell(lb, b))
        if stage is Stage.VALUE:
            cells = [f"back = {number_text(decode_real(lane.value_bits, FLOAT32))}" for lane in (la, lb)]
            _add_pair_row(table, divergence, stage, f"lane {first} back", *cells)
    labels = table.columns[1]
    labels.min_width = max(cell.cell_len for cell in labels.cells if isinstance(cell, Text))  # whole on narrow terminals, too
    words = "all bits, and every step on the way, are equal" if divergence is None else divergence.words
    style = "" if divergence is None or not divergence.visible else "bold"
    return Group(*parts, table, Text(""), labelled("cause", Text(words, style=style)))


def _pair_rows(a: BlockExplanation, b: BlockExplanation) -> Iterator[tuple[Stage, str, str, str]]:
    """(stage, label, cell, cell) of the steps before the lanes."""
    pair = (a, b)
    names = dict.fromkeys(name for e in pair for name, _ in e.leaves)
    rows = [(Stage.TENSOR_SCALE, f"tensor {name}", [_leaf_cell(e, name) for e in pair]) for name in names]
    rows.append((Stage.AMAX, "amax", [_bits_and_value(e.amax_bits, e.amax) for e in pair]))
    rows.append((Stage.SCALE_VALUE, "scale value", [_bits_and_value(e.scale.value_bits, e.scale.value) for e in pair]))
    exponents = [e.scale.exponent for e in pair]
    if exponents != [None, None]:
        rows.append((Stage.EXPONENT, "exponent", ["" if x is None else str(x) for x in exponents]))
    rows.append((Stage.SCALE_CODE, "scale code", [_scale_cell(e) for e in pair]))
    for stage, label, (left, right) in rows:
        yield stage, label, left, right


def _leaf_cell(e: BlockExplanation, name: str) -> str:
    value = dict(e.leaves).get(name)
    return "" if value is None else number_text(value)


def _bits_and_value(bits: int | None, value: Real) -> str:
    return number_text(value) if bits is None else f"{bits:08x} = {number_text(value, 12)}"


def _scale_cell(e: BlockExplanation) -> str:
    fmt, code = e.scale.format, e.scale.code
    return f"{code_text(code, fmt)} = {bits_text(code, fmt)} = {value_text(e.scale.decoded, fmt)}"


def _lane_cell(lane: LaneExplanation, e: BlockExplanation) -> str:
    element = e.format.element
    scaled = number_text(lane.scaled, 11).rjust(11)
    code = code_text(lane.code, element)
    if element.bits == 4:
        code += f" {bits_text(lane.code, element)}"
    return f"{scaled} {lane.place.where.value.ljust(6)} {code}"


def _add_pair_row(table: Table, divergence: Divergence | None, stage: Stage | None, label: str, left: str, right: str) -> None:
    here = divergence is not None and stage is divergence.stage
    differs = left != right
    style = "bold red" if here and differs else "" if differs or here else "dim"
    table.add_row(
        Text("▶" if here else "", style="bold red"),
        Text(label, style="bold" if here else ""),
        Text(left, style=style),
        Text("≠" if differs else "", style="red"),
        Text(right, style=style),
    )


def _fit(text: str, width: int) -> str:
    """A profile's id in a column, on as many lines as its parts need; nothing of it is left out."""
    lines = [""]
    for part in text.replace("/", "/ ").split(" "):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
