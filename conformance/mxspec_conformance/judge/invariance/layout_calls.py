"""Packing and unpacking in calls as large as real ones, again and again, and in other memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from mxspec.layouts import Layout, get_layout
from mxspec.layouts.packing import Bytes
from mxspec.layouts.schema import Field
from mxspec_conformance.judge.invariance.history import Drawn, Twin, Workload, judge_history, judge_nothing, judge_refusable
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pools import Places, draw_places
from mxspec_conformance.judge.invariance.reach import SEES_SHAPES
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession

#: How many codes a call is drawn from, before those that a layout stores are taken of them; items of which a row is a multiple, of
#: which the first is taken that the layout takes in so many rows.
DRAWN, UNITS, ROWS = 1 << 12, (1, 2, 4, 8, 12, 16, 32, 64, 128, 256), 256
#: Shapes of the calls that are made for memory and history, in this order; and how many other layouts.
HELD_SHAPES, OTHERS = ((16, 12), (256, 16), (20, 32), (128, 128), (256, 128), (512, 512)), 3
#: Matrices of one call, and their shapes, of which the first that a layout takes is asked: small ones, and ones of several ragged tiles.
SEVERAL = ((3, ((20, 32), (32, 64), (64, 256), (128, 192), (256, 256))), (5, ((130, 6), (136, 96), (160, 64), (192, 256))))


def judge_layout_calls(session: TargetSession, function: str, layout: Layout, scorecard: Scorecard, *, reads: bool) -> None:
    """Enter calls of a packing or unpacking function."""
    if not scorecard.wants("call-size", "memory", "state", "refusal"):
        return
    items = _make_items(function, layout, reads=reads)
    work = _make_workload(session, function, layout, items, scorecard, reads=reads)
    judge_items(work, items)
    sized = scorecard.tallies.get("call-size")
    if sized is not None and len(sized.no_answers) == len(sized.cases):
        return
    judge_history(work)
    for count, shapes in SEVERAL:
        _ask_several(work, layout, items, count, shapes, reads=reads)
    if session.transport in SEES_SHAPES and reads and work.sizes:
        _ask_short(work, layout, list(work.sizes.values())[-1])
    if session.transport in SEES_SHAPES and not reads and work.sizes:
        _ask_ragged(work, layout)
        # How many bytes hold nothing is not asked.
        nothing = [np.zeros((0, 128 // part.covers), np.uint8) for part in reversed(layout.fields)]
        judge_nothing(work, "0 x 128: no rows", "no bytes", Drawn((*nothing, layout.name)), items.draw(next(iter(work.sizes.values())), 7))


def _make_items(function: str, layout: Layout, *, reads: bool) -> Items:
    """Codes of every value that the layout stores, in a hash of each position: each lies next to each, as a kernel may look up
    several at once."""
    kept = _list_kept(layout.main)
    special = {"zeros": kept == 0, "the largest code": kept == kept.max()}
    takes = partial(_takes, layout)
    return Items(
        width=1, unit=next((unit for unit in UNITS if takes((ROWS, unit))), 1), fill=partial(_fill, layout, reads),
        ordinary=np.arange(DRAWN), special={kind: np.flatnonzero(flags)[:1] for kind, flags in special.items()}, takes=takes,
    )  # fmt: skip


def _takes(layout: Layout, shape: tuple[int, int]) -> bool:
    """Whether the layout holds so many rows and columns."""
    try:
        layout.size(shape)
    except ValueError:
        return False
    return not any(shape[1] % field.covers for field in layout.fields)


@lru_cache(maxsize=64)
def _list_kept(field: Field) -> Bytes:
    """The codes of a field that can be stored."""
    kept = range(1 << field.packing.width) if field.stored is None else [c for c, s in enumerate(field.stored) if s >= 0]
    return np.array(kept, np.uint8)


def _draw_parts(layout: Layout, places: Places) -> tuple[Bytes, ...]:
    """The items of every field that places [rows, columns] stand for."""
    each = ((_list_kept(field), places[:, : places.shape[1] // field.covers]) for field in layout.fields)
    return tuple(kept[chosen % len(kept)] for kept, chosen in each)


def _fill(layout: Layout, reads: bool, places: Places) -> Drawn:
    """The call of these items."""
    shape, parts = places.shape, _draw_parts(layout, places)
    data = layout.pack(*parts)
    arguments: tuple[Any, ...] = (data, layout.name, shape) if reads else (*reversed(parts), layout.name)
    return _drawn(layout, arguments, shape, parts, data, reads=reads)


def _drawn(
    layout: Layout,
    arguments: tuple[Any, ...],
    shape: tuple[int, ...],
    parts: Sequence[Bytes],
    data: Bytes,
    *,
    reads: bool,
    before: str = "",
) -> Drawn:
    """A call whose answer is known; before: what stands before what is wrong with it."""

    def find(answer: Any) -> _Mistake | None:
        return _find_mistake(layout, shape, parts, data, answer if reads else answer.reshape(-1), reads=reads)

    def find_mistake(answer: Any) -> str:
        mistake = find(answer)
        return "" if mistake is None else before + mistake.text

    def show(label: str, answer: Any, _: str) -> Failure:
        mistake = find(answer)
        assert mistake is not None
        return _show(label, layout, mistake, before)

    return Drawn(arguments, find_mistake=find_mistake, show=show)


@lru_cache(maxsize=8)  # a shape is asked in several ways, one after the other
def _mask(layout: Layout, shape: tuple[int, ...]) -> Bytes:
    return layout.mask(shape)


@dataclass(frozen=True)
class _Mistake:
    """What is wrong with a call: in words, and what it should have returned, and what it did."""

    text: str
    expected: dict[str, str]
    returned: dict[str, str]


def _show(label: str, layout: Layout, mistake: _Mistake, before: str) -> Failure:
    given = {"layout": layout.name, "call": label}
    return Failure(case=label, given=given, expected=mistake.expected, returned=mistake.returned, steps=[before + mistake.text])


def _make_workload(session: TargetSession, function: str, layout: Layout, items: Items, scorecard: Scorecard, *, reads: bool) -> Workload:
    """Calls for memory and history."""
    sizes = {f"{m} x {k}": (m, k) for m, k in HELD_SHAPES if items.takes((m, k))}
    # Of bytes that mean nothing a packing function may write any.
    settled = {name for name, shape in sizes.items() if reads or bool((_mask(layout, shape) == 0xFF).all())}
    return Workload(
        session=session, function=function, scorecard=scorecard, draw=items.draw, sizes=sizes, settled=settled,
        list_twins=partial(_list_twins, session, layout, reads),
        turn=session.capabilities.layouts_of(function).index(layout),
    )  # fmt: skip


def _ask_several(work: Workload, layout: Layout, items: Items, count: int, shapes: Sequence[tuple[int, int]], *, reads: bool) -> None:
    """Matrices one behind the other, each laid out by itself; a target may refuse them."""
    shape = next((s for s in shapes if items.takes(s)), None)
    if shape is None:
        return
    each = [_draw_parts(layout, items.place(shape, 20 + turn)) for turn in range(count)]
    parts = tuple(np.stack(part) for part in zip(*each, strict=True))
    data = np.concatenate([layout.pack(*part) for part in each])
    arguments: tuple[Any, ...] = (data.copy(), layout.name, (count, *shape)) if reads else (*reversed(parts), layout.name)
    drawn = _drawn(layout, arguments, (count, *shape), parts, data, reads=reads, before="one of them is not laid out as it is alone: ")
    work.enter(work.size, f"{count} matrices", drawn, quick=True, may_refuse=True)


def _list_twins(session: TargetSession, layout: Layout, reads: bool, drawn: Drawn) -> Iterator[Twin]:
    """Calls of the same items or bytes in another layout, or in another shape with as many of them."""

    def is_alike(other: Layout) -> bool:
        return other is not layout and other.main.part is layout.main.part and len(other.fields) == len(layout.fields)

    others = [n for n in session.capabilities.layouts if is_alike(get_layout(n))][:OTHERS]
    given, tail = (drawn.arguments[:1], drawn.arguments[2:]) if reads else (drawn.arguments[:-1], ())
    yield from ((f"the layout {other}", (*given, other, *tail), drawn.options) for other in others)
    if reads:
        rows, columns = tail[0]
        for name, shape in (("its number of rows", (rows - 1, columns)), ("its shape", (rows // 2, columns * 2))):
            yield name, (*given, layout.name, shape), drawn.options
    else:
        yield "its shape", (*(items.reshape(len(items) // 2, -1) for items in given), layout.name), drawn.options


def _ask_ragged(work: Workload, layout: Layout) -> None:
    """Columns that the layout cannot take: refused, or padded; never cut short."""
    if len(layout.fields) != 1:
        return
    width = layout.fields[0].packing.width
    for rows, columns in ((3, 7), (3, 10), (5, 13)):
        (items,) = _draw_parts(layout, draw_places(rows * columns, DRAWN, columns).reshape(rows, columns))
        if not _takes(layout, items.shape):
            text = f"{items.size} items of {width} bits came back in fewer bytes; refuse such a call, or pad"
            find_mistake = partial(_find_short, text, items.size * width)
            label = f"{rows} x {columns}, which the layout does not take"
            judge_refusable(work, label, work.function, items, layout.name, find_mistake=find_mistake, lost=False, quick=True)


def _ask_short(work: Workload, layout: Layout, shape: tuple[int, int]) -> None:
    """Half of the bytes that a shape takes, where items lie in the other half, too: refused."""
    drawn = work.draw(shape, 30)
    data, half = drawn.arguments[0], len(drawn.arguments[0]) // 2
    if _mask(layout, shape)[half:].any():
        text = f"items came back for {half} of {len(data)} bytes; refuse such a call"
        label = f"{shape[0]} x {shape[1]} items in half of their bytes"
        judge_refusable(work, label, work.function, data[:half], *drawn.arguments[1:], find_mistake=lambda _: text, lost=False, quick=True)


def _find_short(text: str, bits: int, answer: Any) -> str:
    return text if 8 * answer.size < bits else ""


def _find_mistake(
    layout: Layout, shape: tuple[int, ...], parts: Sequence[Bytes], data: Bytes, answer: Any, *, reads: bool
) -> _Mistake | None:  # fmt: skip
    """What is wrong with an answer; none if it is right."""
    if reads:
        for field, part, got in zip(layout.fields, parts, answer, strict=True):
            if not np.array_equal(part, got):
                wrong = np.argwhere(part != got)
                place = tuple(int(i) for i in wrong[0])
                names = ("matrix", "row", "column")[-len(place) :]
                where = f"{','.join(names)} {','.join(map(str, place))}"
                what = f"{field.part.value} {','.join(map(str, place))}"
                text = f"{len(wrong)} of {part.size} items differ; the first is {where}"
                return _Mistake(text, {what: f"{int(part[place]):02x}"}, {what: f"{int(got[place]):02x}"})
        return None
    if answer.shape != data.shape:
        text = f"{answer.size} bytes came back; {layout.name} takes {data.size} for this shape"
        return _Mistake(text, {"bytes": f"{data.size}"}, {"bytes": f"{answer.size}"})
    if np.array_equal(answer, data):
        return None
    bytes_off = np.flatnonzero((answer ^ data) & _mask(layout, shape))
    if not bytes_off.size:
        return None
    first = int(bytes_off[0])
    text = f"{bytes_off.size} of {data.size} bytes differ; the first is byte {first:#x}"
    return _Mistake(text, {f"byte {first:#x}": f"{int(data[first]):02x}"}, {f"byte {first:#x}": f"{int(answer[first]):02x}"})
