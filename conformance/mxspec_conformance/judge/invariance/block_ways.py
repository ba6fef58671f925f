"""Blocks that lie in other ways than along whole rows: along the first axis, in lines that end within a block, and in square tiles."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mxspec_conformance.judge.invariance.blocks import BlockCalls, Way, along, answer_rows
from mxspec_conformance.judge.invariance.calls import (
    CUT_GRIDS,
    GRIDS,
    LAID,
    LARGE_GRIDS,
    Laid,
    list_laid,
    list_ragged,
    list_squares,
    list_weights,
)
from mxspec_conformance.judge.invariance.history import Drawn, Verb, judge_history
from mxspec_conformance.judge.invariance.items import Shape
from mxspec_conformance.judge.invariance.pools import Array, Places, Pool, draw_places

#: Square tiles that are answered alone, and blocks that are cut short.
TILES, CUT = 12, 256
#: Tiles that lie in views.
TILED: tuple[Shape, ...] = ((2, 5), (3, 3))


def judge_axes(calls: BlockCalls) -> None:
    """Blocks along the first axis, by either of its names, and along the last one by its other name."""
    for number, pool in enumerate(calls.pools):
        all_laid = list_laid(pool.fmt.k)[:: 1 if not number else 4]
        if not number and calls.asks_largest:
            all_laid += list_weights(pool.fmt.k)
        turned = [(laid, (0, -2)[i % 3 == 1]) for i, laid in enumerate(all_laid)]
        turned += [(laid, 1) for laid in (*LAID[2:12:3], *list_squares(pool.fmt.k)[::2])]
        for laid, axis in turned:
            sides = laid.lines, laid.count * pool.fmt.k
            label = f"{pool.name}: {' x '.join(map(str, sides if axis == 1 else sides[::-1]))}, axis {axis}"
            calls.enter("axis", label, along(pool, axis), (laid.lines, laid.count), quick=laid.quick)
        square = max(64, pool.fmt.k)
        for shape in ((67, 5), (square, square // pool.fmt.k)):
            judge_history(calls.make_workload([along(pool, 0)], [shape], memory="axis"), {Verb.VIEWS})


def judge_ragged(calls: BlockCalls, *, axis: int) -> None:
    """Lines that end within a block: as if zeros followed."""
    for number, pool in enumerate(calls.pools):
        k = pool.fmt.k
        # By its two names an axis is one path or two; a few calls tell.
        asked = [*list_ragged(k)[:: 1 if not number and axis in (-1, 0) else 4], Laid(6, 3, k // 4)]
        for laid in asked:
            way = _cut_short(calls, pool, laid.end, axis)
            if way is None:
                continue
            sides = laid.lines, laid.count * k - (k - laid.end if laid.end else 0)
            label = f"{pool.name}: {' x '.join(map(str, sides if axis in (-1, 1) else sides[::-1]))}{way.name}"
            calls.enter("tail", label, way, (laid.lines, laid.count), quick=laid.quick)
            if laid is asked[-1] and axis in (-1, 0):
                judge_history(calls.make_workload([way], [(laid.lines, laid.count)], memory="tail"), {Verb.VIEWS})


def _cut_short(calls: BlockCalls, pool: Pool, end: int, axis: int) -> Way | None:
    """Lines that end in blocks of which `end` elements are given: these were answered alone with zeros written out."""
    x = pool.answered.inputs[0][draw_places(CUT, len(pool), end)]
    x[:, end or pool.fmt.k :] = 0
    rows = answer_rows(calls, pool, x)
    if rows is None:
        return None
    ends = np.arange(len(pool), len(pool) + CUT)
    options = {"pad": True} | ({} if axis == -1 else {"axis": axis})
    return Way(pool.extend(rows, x), f", axis {axis}" * (axis != -1) + ", padded", options, end, ends)


def judge_grids(calls: BlockCalls) -> None:
    """Square tiles in grids of every shape, each tile as it was answered alone."""
    for number, pool in enumerate(calls.pools):
        way = _answer_tiles(calls, pool)
        if way is None:
            continue
        for down, across in (*GRIDS, *(LARGE_GRIDS if not number and calls.asks_largest else ())):
            label = f"{pool.name}: {down} x {across} tiles"
            calls.enter("position", label, way, (down, across), quick=down * across == 9)
            if calls.offers("axis") and (down, across) in GRIDS:
                upright = replace(way, options={**way.options, "axis": 0})
                calls.enter("axis", f"{label}, axis 0", upright, (down, across))
        judge_history(calls.make_workload([way], TILED, settled=()), {Verb.PROBE, Verb.VIEWS})


def _answer_tiles(calls: BlockCalls, pool: Pool) -> Way | None:
    """Some tiles, as each was answered alone."""
    side, k = pool.fmt.shapes[1]
    finite = np.flatnonzero(np.isfinite(pool.answered.inputs[0].astype(np.float32)).all(axis=1))
    if len(finite) < side:
        return None
    x = pool.answered.inputs[0][finite[draw_places(TILES * side, len(finite), 7)]]
    rows = [answer_rows(calls, pool, tile, block=(side, k)) for tile in x.reshape(TILES, side, k)]
    if any(row is None for row in rows):
        return None
    tiles = len(pool) + np.arange(len(x)).reshape(TILES, side)
    return Way(pool.extend(np.concatenate(rows), x), options={"block": (side, k)}, tiles=tiles)  # type: ignore[arg-type]


def judge_cut_grids(calls: BlockCalls) -> None:
    """Square tiles of which the last ones are cut short, with padding: as if zeros followed; a target may refuse them.

    What lies in the rows that padding adds is not judged.
    """
    for pool in calls.pools:
        way = _answer_tiles(calls, pool)
        for down, across, rows, columns in CUT_GRIDS if way is not None else ():
            assert way is not None
            place = way.place((down, across), down * across)
            x = way.pool.answered.inputs[0][place.reshape(-1)].reshape(len(place), -1)
            kept, wide = len(x) - rows, x.shape[1] - columns
            x[kept:], x[:, wide:] = 0, 0
            whole = answer_rows(calls, pool, x, block=pool.fmt.shapes[1])
            if whole is None:
                continue
            blocks = pool.extend(whole, x.reshape(-1, pool.fmt.k))
            for axis in (-1, 0) if calls.offers("axis") else (-1,):
                label = f"{pool.name}: {down} x {across} tiles less {rows} rows and {columns} columns" + ", axis 0" * (axis == 0)
                drawn = partial(_fill_cut, blocks, x[:kept, :wide], len(pool) + np.arange(kept * across), axis)
                calls.enter("tail", label, way, (down, across), quick=(down, across, axis) == (8, 8, -1), may_refuse=True, drawn=drawn)


def _fill_cut(pool: Pool, x: Array, place: Places, axis: int) -> Drawn:
    """A padded call of tiles, of whose answer the first blocks count."""
    options: dict[str, Any] = {"block": pool.fmt.shapes[1], "pad": True} | ({} if axis == -1 else {"axis": axis})

    def find_mistake(answer: Any) -> str:
        upright = tuple(np.ascontiguousarray(a if axis == -1 else a.T) for a in answer)
        wrong = pool.find_wrong(place, pool.answered.rows(upright)[: len(place)])
        return f"{int(wrong.sum())} of {wrong.size} blocks got other bits than with zeros written out" if wrong.any() else ""

    return Drawn((np.ascontiguousarray(x if axis == -1 else x.T), pool.fmt.name), pool.answered.kwargs | options, find_mistake)
