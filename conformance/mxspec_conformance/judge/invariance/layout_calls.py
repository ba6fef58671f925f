"""Packing and unpacking in calls as large as real ones, again and again, and in other memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from mxspec.layouts import Layout
from mxspec.layouts.packing import Bytes
from mxspec.layouts.schema import Field
from mxspec_conformance.judge.invariance.pace import LARGEST_OF
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
)  # fmt: skip
#: Shapes that are asked in other memory, and for what is done to memory.
LAID = ((128, 128), (67, 96), (256, 16))


def judge_layout_calls(
    session: TargetSession, function: str, layout: Layout, scorecard: Scorecard, *, reads: bool
) -> dict[str, Failure]:
    """Enter calls of a packing or unpacking function; returns the first one that differs, by topic."""
    first: dict[str, Failure] = {}
    largest = LARGEST_OF.get(session.transport)
    for number, (shape, parts, data) in enumerate(_list_calls(layout)):
        if largest is not None and data.size > largest:
            continue
        ways: list[tuple[str, str]] = [("call-size", "contiguous")]
        if shape in LAID and session.transport != "results-file":
            ways += [("memory", a) for a in ARRANGEMENTS[1:-2]]
        for topic, arrangement in ways:
            label = f"{shape[0]} x {shape[1]}, call {number}" + (f", {arrangement}" if topic == "memory" else "")
            if not keeps_call("layout", layout.name, label, quick=topic == "call-size" and data.size <= 1 << 16):
                continue
            before = () if topic == "call-size" else ("arranged", arrangement)
            arguments: tuple[Any, ...] = (data, layout.name, shape) if reads else (*reversed(parts), layout.name)
            answer = run_once(partial(session.call, *before, function, *arguments))
            if isinstance(answer, NoAnswer):
                if topic == "call-size":
                    scorecard.count_no_answer(topic, label, answer)
                continue
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
        if shape in LAID and session.transport != "results-file":
            _probe(session, function, layout, (shape, parts, data), scorecard, first, reads=reads)
    return first


def _list_calls(layout: Layout) -> Iterator[tuple[tuple[int, int], tuple[Bytes, ...], Bytes]]:
    """(shape, parts, data) for the shapes that the layout takes; no two items that lie near each other are alike."""
    for shape in SHAPES:
        try:
            parts = tuple(_make_items(shape[0], shape[1] // f.covers, f) for f in layout.fields)
            data = layout.pack(*parts)
        except ValueError:
            continue
        yield shape, parts, data


def _make_items(rows: int, columns: int, part: Field) -> Bytes:
    """Items of one kind, of the codes that can be stored."""
    kept = range(1 << part.packing.width) if part.stored is None else [c for c, s in enumerate(part.stored) if s >= 0]
    codes = np.array(kept, np.uint8)
    z = (np.arange(rows * columns, dtype=np.uint64) + np.uint64(columns)) * np.uint64(0x9E3779B97F4A7C15)
    items: Bytes = codes[((z >> np.uint64(40)) % np.uint64(len(codes))).astype(np.intp)].reshape(rows, columns)
    return items


def _find_mistake(
    layout: Layout, shape: tuple[int, int], parts: Sequence[Bytes], data: Bytes, answer: Any, *, reads: bool
) -> str:
    """What is wrong with an answer; nothing if it is right."""
    if reads:
        for part, got in zip(parts, answer, strict=True):
            wrong = np.argwhere(part != got)
            if len(wrong):
                place = ",".join(map(str, wrong[0]))
                return f"{len(wrong)} of {part.size} items differ; the first is row,column {place}"
        return ""
    if answer.shape != data.shape:
        return f"{answer.size} bytes came back; {layout.name} takes {data.size} for this shape"
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
    if not keeps_call("layout", layout.name, label, quick=False):
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
