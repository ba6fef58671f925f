"""Packing and unpacking in calls as large as real ones, again and again, and in other memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from mxspec.layouts import Layout
from mxspec.layouts.packing import Bytes
from mxspec.layouts.schema import Field
from mxspec_conformance.judge.invariance.pace import LARGEST_OF
from mxspec_conformance.judge.invariance.reach import LOCAL, REFUSALS, SEES_SHAPES
from mxspec_conformance.judge.invariance.states import ROUNDS, THREADS
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import keeps_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import ARRANGEMENTS
from mxspec_conformance.targets.sessions import TargetSession

#: Shapes of items in order of the calls: several tiles each way, aligned and not, the same columns with other rows, long rows,
#: many rows. A layout is asked in those that it takes.
SHAPES = (
    (128, 12), (384, 12), (130, 12), (16, 12), (512, 16), (1000, 8), (5, 64), (67, 96), (128, 128), (256, 128), (64, 128), (128, 512),
    (129, 256), (33, 1024), (512, 512), (2, 8192), (300, 2048), (4096, 64), (65536, 4), (65537, 32), (1024, 1024),
    (131, 2048), (1001, 96),
)  # fmt: skip
#: Shapes that are asked in other memory, and for what is done to memory.
LAID = ((128, 128), (67, 96), (256, 16))


def judge_layout_calls(
    session: TargetSession, function: str, layout: Layout, scorecard: Scorecard, *, reads: bool
) -> dict[str, Failure]:
    """Enter calls of a packing or unpacking function; returns the first one that differs, by topic."""
    first: dict[str, Failure] = {}
    if not scorecard.wants("call-size", "memory", "state", "refusal"):
        return first
    answers = False
    largest = LARGEST_OF.get(session.transport)
    for number, (shape, parts, data) in enumerate(_list_calls(layout)):
        if largest is not None and data.size > largest:
            continue
        ways: list[tuple[str, str]] = [("call-size", "contiguous")]
        if shape in LAID and session.transport != "results-file":
            ways += [("memory", a) for a in ARRANGEMENTS[1:-2]]
        for topic, arrangement in ways:
            if answers and not scorecard.wants(topic):
                continue
            label = f"{shape[0]} x {shape[1]}, call {number}" + (f", {arrangement}" if topic == "memory" else "")
            if not keeps_call("layout", layout.name, label, quick=data.size <= (1 << 16 if topic == "call-size" else 1 << 14)):
                continue
            before = () if topic == "call-size" else ("arranged", arrangement)
            arguments: tuple[Any, ...] = (data.copy(), layout.name, shape) if reads else (*reversed(parts), layout.name)
            answer = run_once(partial(session.call, *before, function, *arguments))
            if isinstance(answer, NoAnswer):
                if topic == "call-size":
                    scorecard.count_no_answer(topic, label, answer)
                continue
            answers = True
            text = _find_mistake(layout, shape, parts, data, answer, reads=reads)
            scorecard.count(topic, label, ok=not text)
            if text and topic not in first:
                first[topic] = Failure(
                    case=label,
                    given={"layout": layout.name, "shape": f"{shape[0]}x{shape[1]}", "first bytes": data[:16].tobytes().hex()},
                    expected={"first bytes": (parts[0].reshape(-1) if reads else data)[:16].tobytes().hex()},
                    returned={"first bytes": np.asarray(answer[0] if reads else answer).reshape(-1)[:16].tobytes().hex()},
                    steps=[text],
                )  # fmt: skip
        if shape in LAID and session.transport != "results-file" and scorecard.wants("memory"):
            _probe(session, function, layout, (shape, parts, data), scorecard, first, reads=reads)
    if not answers:
        return first
    if session.transport in LOCAL and scorecard.wants("state"):
        _call_at_once(session, function, layout, scorecard, first, reads=reads)
    if session.transport in SEES_SHAPES and not reads:
        if scorecard.wants("memory"):
            _ask_equal_rows(session, function, layout, scorecard, first)
        if scorecard.wants("refusal"):
            _ask_ragged(session, function, layout, scorecard, first)
            _ask_nothing(session, function, layout, scorecard, first)
    return first


def _list_calls(layout: Layout) -> Iterator[tuple[tuple[int, int], tuple[Bytes, ...], Bytes]]:
    """(shape, parts, data) for the shapes that the layout takes; no two items that lie near each other are alike."""
    for shape in SHAPES:
        made = _make_call(layout, shape)
        if made is not None:
            yield shape, *made


@lru_cache(maxsize=len(SHAPES))  # what one layout's functions are asked
def _make_call(layout: Layout, shape: tuple[int, int]) -> tuple[tuple[Bytes, ...], Bytes] | None:
    try:
        parts = tuple(_make_items(shape[0], shape[1] // f.covers, f) for f in layout.fields)
        data = layout.pack(*parts)
    except ValueError:
        return None
    data.flags.writeable = False
    return parts, data


def _fail(scorecard: Scorecard, first: dict[str, Failure], topic: str, label: str, layout: Layout, text: str) -> None:
    """Count a call, which failed if there is a text."""
    scorecard.count(topic, label, ok=not text)
    if text and topic not in first:
        first[topic] = Failure(case=label, given={"layout": layout.name}, expected={}, returned={}, steps=[text])


def _call_at_once(
    session: TargetSession, function: str, layout: Layout, scorecard: Scorecard, first: dict[str, Failure], *, reads: bool
) -> None:  # fmt: skip
    """Several threads calling at once; a shape without padding, whose bytes are all specified."""
    label, shape = f"{THREADS} threads", (256, 128)
    if not keeps_call("layout", layout.name, label, quick=False):
        return
    try:
        parts = tuple(_make_items(shape[0], shape[1] // f.covers, f) for f in layout.fields)
        layout.pack(*parts)
    except ValueError:
        return
    if not (layout.mask(shape) == 0xFF).all():
        return
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for turn in range(THREADS):
        turned = tuple(np.ascontiguousarray(np.roll(part, 37 * turn, axis=0)) for part in parts)
        calls.append((((layout.pack(*turned), layout.name, shape) if reads else (*reversed(turned), layout.name)), {}))
    answer = run_once(partial(session.call, "threads", ROUNDS // 4, function, calls))
    if not isinstance(answer, NoAnswer):  # judged elsewhere
        wrong, made = answer
        text = f"{wrong} of {made} calls returned other bytes when threads called at once" if wrong else ""
        _fail(scorecard, first, "state", label, layout, text)


def _ask_equal_rows(
    session: TargetSession, function: str, layout: Layout, scorecard: Scorecard, first: dict[str, Failure]
) -> None:
    """Rows that are all one, which lies in memory once; a target may refuse them."""
    shape, label = (128, 128), "128 x 128, one row that is all rows"
    if len(layout.fields) != 1 or not keeps_call("layout", layout.name, label, quick=True):
        return
    try:
        row = _make_items(1, shape[1] // layout.fields[0].covers, layout.fields[0])
        items = np.repeat(row, shape[0], axis=0)
        data = layout.pack(items)
    except ValueError:
        return
    answer = run_once(partial(session.call, "arranged", "broadcast", function, items, layout.name))
    if not isinstance(answer, NoAnswer):
        _fail(scorecard, first, "memory", label, layout, _find_mistake(layout, shape, (items,), data, answer, reads=False))


def _ask_ragged(
    session: TargetSession, function: str, layout: Layout, scorecard: Scorecard, first: dict[str, Failure]
) -> None:
    """Columns that the layout cannot take: refused, or padded; never cut short."""
    if len(layout.fields) != 1:
        return
    part = layout.fields[0]
    for rows, columns in ((3, 7), (3, 10), (5, 13)):
        label = f"{rows} x {columns}, which the layout does not take"
        items = _make_items(rows, columns, part)
        try:
            layout.pack(items)
        except ValueError:
            if keeps_call("layout", layout.name, label, quick=True):
                answer = run_once(partial(session.call, function, items, layout.name))
                if isinstance(answer, NoAnswer) and answer.kind not in REFUSALS:
                    continue  # noticed by whoever gets it
                short = not isinstance(answer, NoAnswer) and 8 * answer.size < items.size * part.packing.width
                text = f"{items.size} items of {part.packing.width} bits came back in fewer bytes; refuse such a call, or pad"
                _fail(scorecard, first, "refusal", label, layout, text if short else "")


def _ask_nothing(
    session: TargetSession, function: str, layout: Layout, scorecard: Scorecard, first: dict[str, Failure]
) -> None:
    """No rows: refused, or answered; how many bytes hold nothing is not asked."""
    label = "0 x 128: no rows"
    if keeps_call("layout", layout.name, label, quick=True):
        items = [np.zeros((0, 128 // part.covers), np.uint8) for part in reversed(layout.fields)]
        answer = run_once(partial(session.call, function, *items, layout.name))
        if isinstance(answer, NoAnswer) and answer.stumbled:
            _fail(scorecard, first, "refusal", label, layout, f"{answer.message}; return no bytes, or refuse such a call")
        elif not isinstance(answer, NoAnswer) or answer.kind in REFUSALS:
            _fail(scorecard, first, "refusal", label, layout, "")


def _make_items(rows: int, columns: int, part: Field) -> Bytes:
    """Items of one kind, of the codes that can be stored; not writeable."""
    kept = range(1 << part.packing.width) if part.stored is None else [c for c, s in enumerate(part.stored) if s >= 0]
    return _draw_items(rows, columns, tuple(kept))


@lru_cache(maxsize=128)
def _draw_items(rows: int, columns: int, kept: tuple[int, ...]) -> Bytes:
    """The same for all layouts that store the same codes."""
    codes = np.array(kept, np.uint8)
    z = (np.arange(rows * columns, dtype=np.uint64) + np.uint64(columns)) * np.uint64(0x9E3779B97F4A7C15)
    items: Bytes = codes[((z >> np.uint64(40)) % np.uint64(len(codes))).astype(np.intp)].reshape(rows, columns)
    items.flags.writeable = False
    return items


def _find_mistake(
    layout: Layout, shape: tuple[int, int], parts: Sequence[Bytes], data: Bytes, answer: Any, *, reads: bool
) -> str:
    """What is wrong with an answer; nothing if it is right."""
    if reads:
        for part, got in zip(parts, answer, strict=True):
            if not np.array_equal(part, got):
                wrong = np.argwhere(part != got)
                place = ",".join(map(str, wrong[0]))
                return f"{len(wrong)} of {part.size} items differ; the first is row,column {place}"
        return ""
    if answer.shape != data.shape:
        return f"{answer.size} bytes came back; {layout.name} takes {data.size} for this shape"
    if np.array_equal(answer, data):
        return ""
    bytes_off = np.flatnonzero((answer ^ data) & layout.mask(shape))
    if not bytes_off.size:
        return ""
    return f"{bytes_off.size} of {data.size} bytes differ; the first is byte {int(bytes_off[0]):#x}"


def _probe(
    session: TargetSession, function: str, layout: Layout, call: tuple[tuple[int, int], tuple[Bytes, ...], Bytes],
    scorecard: Scorecard, first: dict[str, Failure], *, reads: bool,
) -> None:  # fmt: skip
    """Whether a call writes into its input, or changes what an earlier one returned."""
    shape, parts, data = call
    label = f"{shape[0]} x {shape[1]}: memory"
    if not keeps_call("layout", layout.name, label, quick=True):
        return
    other = tuple(np.ascontiguousarray(part[::-1]) for part in parts)
    pair: list[tuple[Any, ...]] = [(*reversed(p), layout.name) for p in (parts, other)]
    if reads:
        pair = [(d, layout.name, shape) for d in (data, layout.pack(*other))]
    answer = run_once(partial(session.call, "probe", function, *pair))
    if isinstance(answer, NoAnswer):
        return
    wrote, changed, last = answer
    text = "the call wrote into its input" if wrote else ""
    text = text or ("a later call changed what an earlier one had returned" if changed else "")
    text = text or _find_mistake(layout, shape, parts, data, last, reads=reads)
    scorecard.count("memory", label, ok=not text)
    if text:
        first.setdefault("memory", Failure(case=label, given={"layout": layout.name}, expected={}, returned={}, steps=[text]))
