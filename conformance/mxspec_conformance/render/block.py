"""One block drawn step by step, one lane closely, or one number through one encoder."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mxspec.explain import BlockExplanation, Place, ScalarExplanation, Where, lane_words, scalar_words, scale_words
from mxspec.explain.text import code_text, number_text, plain_text, value_text
from mxspec.explain.words import scaled_label
from mxspec.expressions import Domain
from mxspec.formats import FLOAT32, ScalarFormat
from mxspec.reals import Real, decode_real
from mxspec_conformance.render.cells import (
    WHERE_STYLES,
    WIDTH,
    bits_text,
    draw_header,
    equal_runs,
    float32_fields,
    given_value,
    labelled,
    lane_key,
    lanes_text,
    near_cell,
    steps_table,
    value_cell,
)


def _draw_tensor(e: BlockExplanation) -> list[RenderableType]:
    scale = e.tensor_scale
    if scale is None:
        return []
    text = f"{scale.kind.value} {scale.bits:08x} = {number_text(scale.real)}"
    if scale.converted_from is not None:
        kind, bits = scale.converted_from
        text += f", converted from {kind.value} {bits:08x}"
    return [labelled("tensor", Text(text), steps_table(e.tensor_steps)), Text("")]


def _draw_amax(e: BlockExplanation) -> list[RenderableType]:
    lane = "in no lane of its own" if e.amax_lane is None else f"lane {e.amax_lane}"
    lines: list[RenderableType] = [Text.assemble((number_text(e.amax), "bold"), f"  {lane}")]
    if e.amax_bits is not None:
        lines[0] = Text.assemble((number_text(e.amax), "bold"), f" = 0x{e.amax_bits:08x}, {lane}")
        lines.append(float32_fields(e.amax_bits))
    return [labelled("amax", *lines), Text("")]


def _draw_scale(e: BlockExplanation) -> list[RenderableType]:
    scale = e.scale
    lines: list[RenderableType] = [steps_table(scale.steps)] if scale.steps else []
    lines.append(Text(scale_words(e)))
    for c in e.candidates:
        kept = "kept" if c.chosen else "not kept"
        code = code_text(c.scale_code, scale.format)
        lines.append(Text(f"candidate {code}: error {number_text(c.error)}, {kept}", style="" if c.chosen else "dim"))
    lines.append(
        Text.assemble(
            (code_text(scale.code, scale.format), "bold cyan"),
            f" = {bits_text(scale.code, scale.format)} = ",
            (value_text(scale.decoded, scale.format), "bold"),
        )
    )
    if scale.decoded.nan and e.profile.unspecified_nan_block_codes:
        lines.append(Text("the stack's codes under a NaN scale vary; the ones below are a choice", style="yellow"))
    return [labelled("scale", *lines), Text("")]


def _draw_scaled(e: BlockExplanation) -> list[RenderableType]:
    """What is the same for every lane on the way to its scaled value."""
    if scaled_label(e.quantization) == "x / scale":
        return []
    lines: list[RenderableType] = [steps_table(e.shared_steps)] if e.shared_steps else []
    last = next((lane.steps[-1].operation for lane in e.lanes if lane.steps), plain_text(e.quantization.scaled))
    lines.append(Text(f"scaled x = {last}"))
    return [labelled("scaled", *lines), Text("")]


def _lanes_table(e: BlockExplanation) -> Table:
    """A row for each lane, or for a run of equal ones."""
    element = e.format.element
    rows = []
    for first, last in equal_runs(e.lanes, lane_key(e)):
        lane = e.lanes[first]
        mark = "*" if first == e.amax_lane else ""
        rows.append((
            lane,
            (
                lanes_text(first, last) + mark,
                number_text(given_value(lane), 11),
                number_text(lane.scaled, 11),
                near_cell(lane.place.lower, element),
                "" if lane.place.where is Where.EXACT else near_cell(lane.place.upper, element),
                lane.place.where.value,
                code_text(lane.code, element),
                bits_text(lane.code, element),
                number_text(decode_real(lane.value_bits, FLOAT32), 11),
            ),
        ))  # fmt: skip
    heads = ("lane", "x", scaled_label(e.quantization), "toward 0", "away", "where", "code", "bits", "back")
    widths = [max(len(row[i]) for row in (heads, *(cells for _, cells in rows))) for i in range(len(heads))]
    kept = len(heads) if sum(widths) + len(heads) - 1 <= WIDTH else len(heads) - 1
    gap = 2 if sum(widths[:kept]) + 2 * (kept - 1) <= WIDTH else 1
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for head in heads[:kept]:
        left = head in ("lane", "where", "bits")
        table.add_column(head, no_wrap=True, justify="left" if left else "right", overflow="crop")
    for lane, cells in rows:
        styles = ["", "", "", "dim", "dim", WHERE_STYLES.get(lane.place.where, ""), "bold cyan", "cyan", ""]
        if lane.place.lower is not None and lane.place.lower.code == lane.code:
            styles[3] = ""
        if lane.place.upper is not None and lane.place.upper.code == lane.code:
            styles[4] = ""
        table.add_row(*(Text(cell, style=style) for cell, style in zip(cells[:kept], styles[:kept], strict=True)))
    return table


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
        text = str(lane.rule)
        if not (lane.rule.is_exact and not lane.rule.note) and where not in by_rule.setdefault(text, []):
            by_rule[text].append(where)
    parts = [f"{', '.join(places)} → {_SHORT_RULES.get(rule, rule)}" for rule, places in by_rule.items()]
    star = ["* largest magnitude"] if e.amax_lane is not None else []
    return Text("; ".join([*star, *parts]), style="dim")


def draw_block(e: BlockExplanation, *, lane: int | None = None, notes: Sequence[str] = ()) -> Group:
    """One block: tensor scale, largest magnitude, scale, then every lane, or one of them closely."""
    parts = draw_header(f"{e.format.name}, a block of {e.format.k}", [e.profile], notes)
    parts += _draw_tensor(e) + _draw_amax(e) + _draw_scale(e) + _draw_scaled(e)
    if lane is None:
        return Group(*parts, _lanes_table(e), _rules_line(e))
    return Group(*parts, draw_lane(e, lane))


def draw_lane(e: BlockExplanation, index: int) -> Group:
    """One lane closely: its operations, a number line with its neighbours, what decides, and back."""
    lane, element = e.lanes[index], e.format.element
    lines: list[RenderableType] = [
        Text.assemble((number_text(given_value(lane)), "bold"), f" = 0x{lane.bits:08x}"),
        float32_fields(lane.bits),
    ]
    if scaled_label(e.quantization) == "x / scale":
        sf = value_text(e.scale.decoded, e.format.scale)
        lines.append(Text(f"x / scale = {number_text(lane.x)} / {sf} = {number_text(lane.scaled)}"))
    if any(step.domain is not Domain.EXACT for step in lane.steps):
        lines.append(steps_table(lane.steps))
    line = _number_line(lane.scaled, lane.place, lane.code, element)
    lines += [Text(""), *line, Text("")] if line else []
    lines.append(Text(lane_words(e, lane)))
    if lane.errors:
        errors = ", ".join(f"code {code_text(c, element)}: {number_text(error)}" for c, error in lane.errors)
        lines.append(Text(f"errors: {errors}"))
    lines.append(Text.assemble((code_text(lane.code, element), "bold cyan"), f" = {bits_text(lane.code, element)}"))
    back = decode_real(lane.value_bits, FLOAT32)
    rounded = "" if back == lane.value or back.nan else f"{number_text(lane.value)} → "
    lines.append(Text(f"comes back as {rounded}{number_text(back)} = 0x{lane.value_bits:08x}"))
    return Group(labelled(f"lane {index}", *lines))


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
    ends = [value_cell(n.value, fmt) for n in (lower, upper)]
    codes = ["none" if n.code is None else f"code {code_text(n.code, fmt)}" for n in (lower, upper)]
    midpoint = number_text(sign * place.midpoint)
    lines = [
        (_spread(ends[0], midpoint, ends[1], inner + 1), "dim"),
        ("".join(bar), ""),
        (_spread(codes[0], "midpoint", codes[1], inner + 1), "dim"),
    ]
    drawn = [Text(text, style=style) for text, style in lines]
    drawn[1].stylize(WHERE_STYLES.get(place.where, "bold") or "bold", position, position + 1)
    for n, start, end in ((lower, 0, len(codes[0])), (upper, inner + 1 - len(codes[1]), inner + 1)):
        if n.code == code:
            drawn[2].stylize("not dim bold cyan", start, end)
    return list(drawn)


def _spread(left: str, middle: str, right: str, width: int) -> str:
    """Three texts at the left, middle and right of a line."""
    start = (width - len(middle)) // 2
    return left.ljust(start)[:start] + middle + right.rjust(width - start - len(middle))


def draw_scalar(e: ScalarExplanation) -> Group:
    """One number through one encoder."""
    fmt = e.format
    lines: list[RenderableType] = [
        Text.assemble((number_text(e.x), "bold"), f" = 0x{e.bits:08x}"),
        *_number_line(e.x, e.place, e.code, fmt),
        Text(scalar_words(e)),
        Text.assemble((code_text(e.code, fmt), "bold cyan"), f" = {bits_text(e.code, fmt)} = {value_cell(e.value, fmt)}"),
    ]
    return Group(labelled(fmt.name, *lines), Text(""))
