"""`mxspec explain`: one block drawn step by step, alone or against a second profile."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mxspec.elements import as_float32
from mxspec.explain import (
    BlockExplanation,
    LaneExplanation,
    Neighbour,
    Parting,
    Place,
    ScalarExplanation,
    Stage,
    Step,
    Where,
    block_dict,
    compare_blocks,
    explain_block,
    explain_difference,
    explain_scalar,
    lane_words,
    scalar_dict,
    scalar_words,
    scale_words,
)
from mxspec.explain.text import code_text, number_text, plain_text, value_text
from mxspec.explain.words import scaled_label
from mxspec.expressions import Domain
from mxspec.formats import BLOCKS, ELEMENTS, FLOAT32, SCALES, BlockFormat, ScalarFormat, get_block, get_scalar
from mxspec.profiles import Profile, get_profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.reals import Real, decode_real, encode_real, make_real
from mxspec.rounding import DETERMINISTIC, Overflow
from mxspec.tensorscale import TensorScale
from mxspec.tensorscale import tensor_scale as derive_tensor_scale

#: Columns of the drawing.
WIDTH = 80
#: Width of the labels at the left.
_LABEL = 8
#: Width of a profile's column where two are drawn side by side.
_CELL = 26

_WHERE_STYLES = {
    Where.TIE: "yellow",
    Where.BEYOND: "magenta",
    Where.INFINITE: "magenta",
    Where.NAN: "red",
    Where.UNDER: "magenta",
    Where.EXACT: "dim",
}

#: What is written where the output cannot hold the character.
_ASCII = str.maketrans("…●├┤┼─│▶≠→–·", "~o||+-|>!>--")


# Words for the drawing


def _bits_text(code: int, fmt: ScalarFormat) -> str:
    return f"{code:0{fmt.bits}b}"


def _value_cell(x: Real, fmt: ScalarFormat) -> str:
    """A value of a format exactly: a short decimal, or an odd number times a power of two."""
    text = value_text(x, fmt)
    if len(text.lstrip("-")) <= 8 or not x.is_finite or not x.magnitude:
        return text
    odd, exponent = x.magnitude.numerator, 1 - x.magnitude.denominator.bit_length()
    while odd % 2 == 0:
        odd, exponent = odd // 2, exponent + 1
    return ("-" if x.sign else "") + (f"2^{exponent}" if odd == 1 else f"{odd}*2^{exponent}")


def _near_cell(n: Neighbour | None, fmt: ScalarFormat) -> str:
    if n is None:
        return ""
    return f"{_value_cell(n.value, fmt)} {'--' if n.code is None else code_text(n.code, fmt)}"


def _lanes_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _runs(lanes: Sequence[LaneExplanation], key: Callable[[int], object]) -> Iterator[tuple[int, int]]:
    """First and last lane of runs of equal lanes."""
    for _, run in groupby(range(len(lanes)), key):
        indices = list(run)
        yield indices[0], indices[-1]


def _labelled(label: str, *content: RenderableType) -> Table:
    """A label and what belongs to it, with a hanging indent."""
    grid = Table.grid(padding=(0, 0))
    grid.add_column(width=_LABEL, no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(Text(label, style="bold"), Group(*content))
    return grid


def _float32_fields(bits: int) -> Table:
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


def _steps_table(steps: Sequence[Step]) -> Table:
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


# One block


def _header(formats: str, profiles: Sequence[Profile], notes: Sequence[str]) -> list[RenderableType]:
    names = " against ".join(p.id for p in profiles)
    lines: list[RenderableType] = [Text.assemble((formats, "bold"), " · ", (names, "bold"))]
    lines += [Text(note, style="dim") for note in notes]
    for p in profiles:
        prefix = f"{p.id}: " if len(profiles) > 1 else ""
        lines.append(Text(f"{prefix}{p.summary}", style="dim"))
        if p.provisional:
            lines.append(Text(f"{p.id} is provisional: {p.evidence.value}, not measured", style="yellow"))
    return [*lines, Text("")]


def _draw_tensor(e: BlockExplanation) -> list[RenderableType]:
    scale = e.tensor_scale
    if scale is None:
        return []
    text = f"{scale.kind.value} {scale.bits:08x} = {number_text(scale.real)}"
    if scale.converted_from is not None:
        kind, bits = scale.converted_from
        text += f", converted from {kind.value} {bits:08x}"
    return [_labelled("tensor", Text(text), _steps_table(e.tensor_steps)), Text("")]


def _draw_amax(e: BlockExplanation) -> list[RenderableType]:
    lane = "in no lane of its own" if e.amax_lane is None else f"lane {e.amax_lane}"
    lines: list[RenderableType] = [Text.assemble((number_text(e.amax), "bold"), f"  {lane}")]
    if e.amax_bits is not None:
        lines[0] = Text.assemble((number_text(e.amax), "bold"), f" = 0x{e.amax_bits:08x}, {lane}")
        lines.append(_float32_fields(e.amax_bits))
    return [_labelled("amax", *lines), Text("")]


def _draw_scale(e: BlockExplanation) -> list[RenderableType]:
    scale = e.scale
    lines: list[RenderableType] = [_steps_table(scale.steps)] if scale.steps else []
    lines.append(Text(scale_words(e)))
    for c in e.candidates:
        kept = "kept" if c.chosen else "not kept"
        code = code_text(c.scale_code, scale.format)
        lines.append(Text(f"candidate {code}: error {number_text(c.error)}, {kept}", style="" if c.chosen else "dim"))
    lines.append(
        Text.assemble(
            (code_text(scale.code, scale.format), "bold cyan"),
            f" = {_bits_text(scale.code, scale.format)} = ",
            (value_text(scale.decoded, scale.format), "bold"),
        )
    )
    if scale.decoded.nan and not e.profile.pins_nan_blocks:
        lines.append(Text("the stack's codes under a NaN scale vary; the ones below are a choice", style="yellow"))
    return [_labelled("scale", *lines), Text("")]


def _draw_scaled(e: BlockExplanation) -> list[RenderableType]:
    """What is the same for every lane on the way to its scaled value."""
    if scaled_label(e.level) == "x / scale":
        return []
    lines: list[RenderableType] = [_steps_table(e.shared_steps)] if e.shared_steps else []
    last = next((lane.steps[-1].operation for lane in e.lanes if lane.steps), plain_text(e.level.scaled))
    lines.append(Text(f"scaled x = {last}"))
    return [_labelled("scaled", *lines), Text("")]


def _lane_key(e: BlockExplanation) -> Callable[[int], object]:
    return lambda i: (e.lanes[i].bits, e.lanes[i].code, i == e.amax_lane)


def _lanes_table(e: BlockExplanation) -> Table:
    """A row for each lane, or for a run of equal ones."""
    element = e.format.element
    rows = []
    for first, last in _runs(e.lanes, _lane_key(e)):
        lane = e.lanes[first]
        mark = "*" if first == e.amax_lane else ""
        rows.append((
            lane,
            (
                _lanes_text(first, last) + mark,
                number_text(_given(lane), 11),
                number_text(lane.scaled, 11),
                _near_cell(lane.place.lower, element),
                "" if lane.place.where is Where.EXACT else _near_cell(lane.place.upper, element),
                lane.place.where.value,
                code_text(lane.code, element),
                _bits_text(lane.code, element),
                number_text(decode_real(lane.value_bits, FLOAT32), 11),
            ),
        ))  # fmt: skip
    heads = ("lane", "x", scaled_label(e.level), "toward 0", "away", "where", "code", "bits", "back")
    widths = [max(len(row[i]) for row in (heads, *(cells for _, cells in rows))) for i in range(len(heads))]
    kept = len(heads) if sum(widths) + len(heads) - 1 <= WIDTH else len(heads) - 1
    gap = 2 if sum(widths[:kept]) + 2 * (kept - 1) <= WIDTH else 1
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for head in heads[:kept]:
        left = head in ("lane", "where", "bits")
        table.add_column(head, no_wrap=True, justify="left" if left else "right", overflow="crop")
    for lane, cells in rows:
        styles = ["", "", "", "dim", "dim", _WHERE_STYLES.get(lane.place.where, ""), "bold cyan", "cyan", ""]
        if lane.place.lower is not None and lane.place.lower.code == lane.code:
            styles[3] = ""
        if lane.place.upper is not None and lane.place.upper.code == lane.code:
            styles[4] = ""
        table.add_row(*(Text(cell, style=style) for cell, style in zip(cells[:kept], styles[:kept], strict=True)))
    return table


def _given(lane: LaneExplanation) -> Real:
    """The element as it was given."""
    return decode_real(lane.bits, FLOAT32)


_SHORT_RULES = {
    "tie to even": "to even",
    "tie away from zero": "away from zero",
    "tie toward zero": "toward zero",
    "beyond the largest: saturates": "saturates",
    "beyond the largest: own Inf or NaN": "the format's own Inf or NaN",
}


def _rules_line(e: BlockExplanation) -> Text:
    """Which rule decided at which place."""
    by_rule: dict[str, list[str]] = {}
    for lane in e.lanes:
        where = lane.place.where.value
        if lane.rule != "exact" and where not in by_rule.setdefault(lane.rule, []):
            by_rule[lane.rule].append(where)
    parts = [f"{', '.join(places)} → {_SHORT_RULES.get(rule, rule)}" for rule, places in by_rule.items()]
    star = ["* largest magnitude"] if e.amax_lane is not None else []
    return Text("; ".join([*star, *parts]), style="dim")


def draw_block(e: BlockExplanation, *, lane: int | None = None, notes: Sequence[str] = ()) -> Group:
    """One block: tensor scale, largest magnitude, scale, then every lane, or one of them closely."""
    parts = _header(f"{e.format.name}, a block of {e.format.k}", [e.profile], notes)
    parts += _draw_tensor(e) + _draw_amax(e) + _draw_scale(e) + _draw_scaled(e)
    if lane is None:
        return Group(*parts, _lanes_table(e), _rules_line(e))
    return Group(*parts, draw_lane(e, lane))


def draw_lane(e: BlockExplanation, index: int) -> Group:
    """One lane closely: its operations, a number line with its neighbours, what decides, and back."""
    lane, element = e.lanes[index], e.format.element
    lines: list[RenderableType] = [
        Text.assemble((number_text(_given(lane)), "bold"), f" = 0x{lane.bits:08x}"),
        _float32_fields(lane.bits),
    ]
    if scaled_label(e.level) == "x / scale":
        sf = value_text(e.scale.decoded, e.format.scale)
        lines.append(Text(f"x / scale = {number_text(lane.x)} / {sf} = {number_text(lane.scaled)}"))
    if any(step.domain is not Domain.EXACT for step in lane.steps):
        lines.append(_steps_table(lane.steps))
    line = _number_line(lane.scaled, lane.place, lane.code, element)
    lines += [Text(""), *line, Text("")] if line else []
    lines.append(Text(lane_words(e, lane)))
    if lane.errors:
        errors = ", ".join(f"code {code_text(c, element)}: {number_text(error)}" for c, error in lane.errors)
        lines.append(Text(f"errors: {errors}"))
    lines.append(Text.assemble((code_text(lane.code, element), "bold cyan"), f" = {_bits_text(lane.code, element)}"))
    back = decode_real(lane.value_bits, FLOAT32)
    rounded = "" if back == lane.value or back.nan else f"{number_text(lane.value)} → "
    lines.append(Text(f"comes back as {rounded}{number_text(back)} = 0x{lane.value_bits:08x}"))
    return Group(_labelled(f"lane {index}", *lines))


def _number_line(x: Real, place: Place, code: int, fmt: ScalarFormat) -> list[RenderableType]:
    """Neighbours at the ends, the midpoint between, and the number's place; nothing where there are none."""
    lower, upper = place.lower, place.upper
    if lower is None or upper is None or lower == upper or place.midpoint is None or x.magnitude is None:
        return []
    inner = 54
    low, high = lower.value.magnitude, upper.value.magnitude
    assert low is not None
    assert high is not None
    middle = inner // 2
    share = (x.magnitude - low) / (high - low)
    position = max(0, min(inner, round(share * inner)))
    # The dot stays on its side of the midpoint and off the ends, however near it is.
    if place.distance and position == middle:
        position += 1 if place.distance > 0 else -1
    if 0 < share < 1:
        position = max(1, min(inner - 1, position))
    bar = ["─"] * (inner + 1)
    bar[0], bar[middle], bar[inner] = "├", "┼", "┤"
    bar[position] = "●" if share <= 1 else "▶"
    sign = -1 if x.sign and fmt.signed else 1
    ends = [_value_cell(n.value, fmt) for n in (lower, upper)]
    codes = ["none" if n.code is None else f"code {code_text(n.code, fmt)}" for n in (lower, upper)]
    midpoint = number_text(sign * place.midpoint)
    lines = [
        (_spread(ends[0], midpoint, ends[1], inner + 1), "dim"),
        ("".join(bar), ""),
        (_spread(codes[0], "midpoint", codes[1], inner + 1), "dim"),
    ]
    drawn = [Text(text, style=style) for text, style in lines]
    drawn[1].stylize(_WHERE_STYLES.get(place.where, "bold") or "bold", position, position + 1)
    for n, start, end in ((lower, 0, len(codes[0])), (upper, inner + 1 - len(codes[1]), inner + 1)):
        if n.code == code:
            drawn[2].stylize("not dim bold cyan", start, end)
    return list(drawn)


def _spread(left: str, middle: str, right: str, width: int) -> str:
    """Three texts at the left, middle and right of a line."""
    start = (width - len(middle)) // 2
    return left.ljust(start)[:start] + middle + right.rjust(width - start - len(middle))


# Two profiles


def draw_pair(a: BlockExplanation, b: BlockExplanation, *, notes: Sequence[str] = ()) -> Group:
    """Two explanations of one block side by side, differences marked, and where they part in words."""
    parting = compare_blocks(a, b)
    parts = _header(f"{a.format.name}, a block of {a.format.k}", [a.profile, b.profile], notes)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", width=1, no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column(_fit(a.profile.id, _CELL), no_wrap=True, overflow="ellipsis", min_width=_CELL)
    table.add_column("", width=1, no_wrap=True)
    table.add_column(_fit(b.profile.id, _CELL), no_wrap=True, overflow="ellipsis", min_width=_CELL)
    for step, label, left, right in _pair_rows(a, b):
        _add_pair_row(table, parting, step, label, left, right)
    keys = _lane_key(a), _lane_key(b)
    for first, last in _runs(a.lanes, lambda i: (keys[0](i), keys[1](i))):
        la, lb = a.lanes[first], b.lanes[first]
        label = f"lane {_lanes_text(first, last)}".ljust(11) + number_text(_given(la), 11)
        stage = parting.stage if parting is not None and parting.lane == first else None
        here = None if stage is Stage.VALUE else stage
        _add_pair_row(table, parting, here, label, _lane_cell(la, a), _lane_cell(lb, b))
        if stage is Stage.VALUE:
            cells = [f"back = {number_text(decode_real(lane.value_bits, FLOAT32))}" for lane in (la, lb)]
            _add_pair_row(table, parting, stage, f"lane {first} back", *cells)
    words = "all bits, and every step on the way, are equal" if parting is None else parting.words
    style = "" if parting is None or not parting.visible else "bold"
    return Group(*parts, table, Text(""), _labelled("parting", Text(words, style=style)))


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
    return f"{code_text(code, fmt)} = {_bits_text(code, fmt)} = {value_text(e.scale.decoded, fmt)}"


def _lane_cell(lane: LaneExplanation, e: BlockExplanation) -> str:
    element = e.format.element
    scaled = number_text(lane.scaled, 11).rjust(11)
    code = code_text(lane.code, element)
    if element.bits == 4:
        code += f" {_bits_text(lane.code, element)}"
    return f"{scaled} {lane.place.where.value.ljust(6)} {code}"


def _add_pair_row(
    table: Table, parting: Parting | None, stage: Stage | None, label: str, left: str, right: str
) -> None:
    here = parting is not None and stage is parting.stage
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
    """A profile's id in a column: its end tells profiles of one stack apart."""
    return text if len(text) <= width else "…" + text[1 - width :]


# One number


def draw_scalar(e: ScalarExplanation) -> Group:
    """One number through one encoder."""
    fmt = e.format
    lines: list[RenderableType] = [
        Text.assemble((number_text(e.x), "bold"), f" = 0x{e.bits:08x}"),
        *_number_line(e.x, e.place, e.code, fmt),
        Text(scalar_words(e)),
        Text.assemble(
            (code_text(e.code, fmt), "bold cyan"),
            f" = {_bits_text(e.code, fmt)} = {_value_cell(e.value, fmt)}",
        ),
    ]
    return Group(_labelled(fmt.name, *lines), Text(""))


# Text


def render_text(drawing: RenderableType, *, width: int = WIDTH, color: bool = False, ascii_only: bool = False) -> str:
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
    text = "\n".join(line if color else line.rstrip() for line in lines) + "\n"
    return text.translate(_ASCII) if ascii_only else text


def explain_text(
    x: npt.ArrayLike,
    fmt: str | BlockFormat,
    profile: str | Profile | None = None,
    *,
    against: str | Profile | None = None,
    tensor_scale: TensorScale | str | None = None,
    lane: int | None = None,
    width: int = WIDTH,
) -> str:
    """The drawing of one block, or of one block through two profiles, as plain text.

    Raises TypeError and ValueError as `mxspec.explain.explain_block` does.
    """
    e = explain_block(x, fmt, profile=profile, tensor_scale=tensor_scale, convert=True)
    if against is None:
        return render_text(draw_block(e, lane=lane), width=width)
    other = explain_block(x, fmt, profile=against, tensor_scale=tensor_scale, convert=True)
    return render_text(draw_pair(e, other), width=width)


# The command


_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_WORDS = {"nan": FLOAT32.nan_code, "inf": FLOAT32.inf_code, "infinity": FLOAT32.inf_code}


def parse_value(text: str) -> int:
    """float32 bits of a value as it is typed: a decimal, 0x and eight hex digits, nan or inf.

    A decimal is rounded once, to nearest even.

    Raises ValueError for anything else, for decimals beyond float32, and for bits of a NaN.
    """
    sign = FLOAT32.sign_bit if text.startswith("-") else 0
    word = _WORDS.get(text.lstrip("+-").lower())
    if word is not None and re.fullmatch(r"[+-]?[A-Za-z]+", text):
        return sign | word
    if text[:2].lower() == "0x":
        return _parse_bits(text)
    if not _DECIMAL.fullmatch(text):
        if text.startswith("--"):
            raise ValueError(f"no such option: {text}; see --help")
        raise ValueError(
            f"{text!r} is not a number; write a decimal, 0x and the eight hex digits of a float32, nan or inf"
        )
    decimal = Decimal(text)
    if decimal and decimal.adjusted() < -60:
        return sign
    if decimal.adjusted() <= 60:
        bits = encode_real(make_real(Fraction(decimal), negative_zero=bool(sign)), FLOAT32, overflow=Overflow.OWN)
        if bits & ~FLOAT32.sign_bit != FLOAT32.inf_code:
            return bits
    raise ValueError(f"{text} is beyond the largest float32, 3.4028235e38; write inf if that is meant")


def _parse_bits(text: str) -> int:
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{8}", text):
        raise ValueError(f"{text!r} is not the bits of a float32; write 0x and eight hex digits, such as 0x3f800000")
    bits = int(text, 16)
    if FLOAT32.is_nan(bits):
        raise ValueError(f"{text} are the bits of a NaN; write nan or -nan, payloads are not told apart")
    return bits


def parse_tensor_scale(text: str) -> TensorScale | str:
    """A tensor scale as it is typed: `auto`, or KIND=HEX.

    Raises ValueError for anything else.
    """
    if text == "auto":
        return text
    kind, _, bits = text.partition("=")
    kinds = [k.value for k in TensorScaleKind]
    if kind not in kinds or not re.fullmatch(r"(0[xX])?[0-9a-fA-F]{8}", bits):
        raise ValueError(
            f"--tensor-scale {text!r} is neither auto nor KIND=HEX with KIND one of {', '.join(kinds)} "
            "and HEX the eight hex digits of a float32, such as amax=45280000"
        )
    return TensorScale(TensorScaleKind(kind), int(bits, 16))


def _block_from_values(values: Sequence[str], fmt: BlockFormat) -> tuple[npt.NDArray[np.float32], list[str]]:
    if len(values) > fmt.k:
        raise ValueError(f"{len(values)} values were given; a block of {fmt.name} holds {fmt.k}")
    return _pad_block([parse_value(v) for v in values], fmt)


def _pad_block(bits: Sequence[int], fmt: BlockFormat) -> tuple[npt.NDArray[np.float32], list[str]]:
    notes = []
    if len(bits) < fmt.k:
        given = "lane 0 is" if len(bits) == 1 else f"lanes 0–{len(bits) - 1} are"
        last = fmt.k - 1
        rest = f"lane {last} is" if len(bits) == last else f"lanes {len(bits)}–{last} are"
        notes.append(f"{given} given, {rest} padded with zeros")
    padded = np.array([*bits, *[0] * (fmt.k - len(bits))], np.uint32)
    return padded.view(np.float32), notes


def _read_rows(path: Path) -> npt.NDArray[np.float32]:
    """The rows of a .npy file, any leading axes flattened."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a .npy file that can be read: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"{path} holds several arrays; save one of them with numpy.save")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{path} has shape {array.shape}; at least one row of values is needed")
    try:
        values = as_float32(array, name=path.name)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return np.ascontiguousarray(values).reshape(-1, array.shape[-1])


def _block_from_rows(
    rows: npt.NDArray[np.float32], row: int, block: int, fmt: BlockFormat, name: str
) -> tuple[npt.NDArray[np.float32], list[str]]:
    blocks = -(-rows.shape[1] // fmt.k)
    for what, index, count in (("row", row, rows.shape[0]), ("block", block, blocks)):
        if not 0 <= index < count:
            raise ValueError(f"--{what} {index} is not in {name}; it has {what}s 0 to {count - 1}")
    part = rows[row, block * fmt.k : (block + 1) * fmt.k]
    padded, notes = _pad_block([int(b) for b in part.view(np.uint32)], fmt)
    where = f"{name}, row {row} of {rows.shape[0]}, block {block} of {blocks}"
    return padded, [where, *notes]


def _explain_checked(
    x: npt.NDArray[np.float32],
    whole: npt.NDArray[np.float32],
    fmt: BlockFormat,
    profile: str | None,
    scale: TensorScale | str | None,
) -> BlockExplanation:
    """An explanation; "auto" takes the tensor scale of the whole array.

    Raises ValueError in the command's own words where the profile and the tensor scale do not fit.
    """
    rules = get_profile(profile, fmt)
    if scale is None and rules.one_level is None:
        raise ValueError(f"profile {rules.id} has no form without a tensor scale; pass --tensor-scale auto or KIND=HEX")
    if scale is not None and rules.two_level is None:
        raise ValueError(f"profile {rules.id} has no tensor scale; leave --tensor-scale out")
    if scale == "auto" and whole.size > fmt.k:
        scale = derive_tensor_scale(whole, fmt, rules)
    try:
        return explain_block(x, fmt, profile=rules, tensor_scale=scale, convert=True)
    except ValueError as error:
        raise ValueError(f"profile {rules.id} refuses this block: {error}") from error


def _show(drawing: RenderableType) -> None:
    """Print a drawing, with colours on a terminal, in characters that the output can hold."""
    out = Console()
    text = render_text(drawing, color=out.is_terminal and not out.no_color)
    try:
        text.encode(out.encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII)
    click.echo(text, nl=False)


def _explain_numbers(name: str, values: Sequence[str], rounding: str, *, as_json: bool) -> None:
    fmt = get_scalar(name)
    numbers = np.array([parse_value(v) for v in values], np.uint32).view(np.float32)
    explanations = [explain_scalar(x, fmt, rounding=rounding) for x in numbers]
    if as_json:
        click.echo(json.dumps([scalar_dict(e) for e in explanations], indent=1))
    else:
        _show(Group(*(draw_scalar(e) for e in explanations)))


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("format_name", metavar="FORMAT")
@click.argument("values", nargs=-1, metavar="VALUES...")
@click.option("--profile", help="The profile; by default mx-floor, for nvfp4 nvfp4-te.")
@click.option("--against", help="A second profile, drawn beside the first.")
@click.option("--tensor-scale", metavar="KIND=HEX|auto", help="NVFP4's tensor scale: decode, encode or amax and bits.")
@click.option("--lane", type=int, help="Draw this lane closely.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A .npy file to take from.")
@click.option("--row", type=int, default=0, show_default=True, help="The row of the file.")
@click.option("--block", type=int, default=0, show_default=True, help="The block within the row.")
@click.option(
    "--rounding",
    type=click.Choice([r.value for r in DETERMINISTIC]),
    default="rne",
    show_default=True,
    help="Of a scalar format.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: bits and codes in hex, numbers as exact decimals.")
def explain(
    format_name: str,
    values: tuple[str, ...],
    profile: str | None,
    against: str | None,
    tensor_scale: str | None,
    lane: int | None,
    file: Path | None,
    row: int,
    block: int,
    rounding: str,
    as_json: bool,
) -> None:
    """Draw one block step by step: largest magnitude, scale, quotients, neighbours, codes.

    VALUES are decimals, the bits of a float32 (0x and eight hex digits), nan, inf. Fewer than a block are
    padded with zeros. FORMAT is a block format; with an element or scale format each value is encoded alone.
    """
    try:
        if bool(values) == (file is not None):
            raise ValueError("give VALUES or --file, one of them")
        if format_name in ELEMENTS or format_name in SCALES:
            if file is not None or profile or against or tensor_scale or lane is not None:
                raise ValueError(f"{format_name} is a scalar format; it takes VALUES, --rounding and --json only")
            _explain_numbers(format_name, values, rounding, as_json=as_json)
            return
        if format_name not in BLOCKS:
            raise ValueError(
                f"unknown format {format_name!r}; known are {', '.join(BLOCKS)}, "
                f"and for single numbers {', '.join([*ELEMENTS, *SCALES])}"
            )
        fmt = get_block(format_name)
        if lane is not None and not 0 <= lane < fmt.k:
            raise ValueError(f"--lane {lane} is not in a block of {fmt.name}; it has lanes 0 to {fmt.k - 1}")
        if lane is not None and against is not None:
            raise ValueError("--lane and --against draw different things; leave one out")
        if file is None:
            x, notes = _block_from_values(values, fmt)
            whole = x
        else:
            whole = _read_rows(file)
            x, notes = _block_from_rows(whole, row, block, fmt, file.name)
        scale = None if tensor_scale is None else parse_tensor_scale(tensor_scale)
        if scale == "auto":
            notes.append(f"the tensor scale is that of {'these values' if file is None else file.name}")
        explained = [_explain_checked(x, whole, fmt, profile, scale)]
        if against is not None:
            explained.append(_explain_checked(x, whole, fmt, against, scale))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        _print_json(explained, notes)
    elif against is None:
        _show(draw_block(explained[0], lane=lane, notes=notes))
    else:
        _show(draw_pair(*explained, notes=notes))


def _print_json(explained: Sequence[BlockExplanation], notes: Sequence[str]) -> None:
    payload: dict[str, Any] = {"notes": list(notes), "explanations": [block_dict(e) for e in explained]}
    if len(explained) == 2:
        parting = compare_blocks(*explained)
        payload["parting"] = (
            None
            if parting is None
            else {
                "stage": parting.stage.value,
                "lane": parting.lane,
                "visible": parting.visible,
                "words": parting.words,
            }
        )
    click.echo(json.dumps(payload, indent=1))


__all__ = ["draw_block", "draw_pair", "explain", "explain_difference", "explain_text"]
