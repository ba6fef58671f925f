"""Blocks on the axis of history: calls of `quantize` and `dequantize` in every dtype and tensor scale, along both axes, and padded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.changes import narrow
from mxspec_conformance.judge.invariance.history import THREADS, Drawn, Twin, Verb, Workload, judge_history
from mxspec_conformance.judge.invariance.matrix import Matrix, draw_call
from mxspec_conformance.judge.invariance.others import ROWS, find_width
from mxspec_conformance.judge.invariance.pace import Speed
from mxspec_conformance.judge.invariance.pools import Pool
from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.shapes import find_first_call
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS
from mxspec_conformance.targets.dtypes import DTYPES

Array = npt.NDArray[Any]
#: Rows and blocks to a row.
Shape = tuple[int, int]

#: Calls whose inputs and answers are watched: odd ones, tiles, one long row, and powers of two, of which a kernel may keep a
#: buffer each.
PROBED: tuple[Shape, ...] = (
    (1, 1),
    (1, 7),
    (5, 3),
    (128, 4),
    (130, 9),
    (64, 64),
    (600, 2),
    (8, 4),
    (16, 8),
    (32, 8),
    (64, 16),
    (256, 8),
    (1, 256),
)
#: The same for fast targets: from 2^18 numbers on in every format.
LARGE_PROBED: Shape = (512, 32)
#: Calls that are made again and again, or whose answers are held: of some sizes a kernel may keep a few buffers.
HELD: tuple[Shape, ...] = ((1, 3), (16, 4), (64, 4), (1, 128))
#: Calls in the memory of an earlier one; from several threads.
REUSED: tuple[Shape, ...] = ((4, 3), (128, 8))
THREADED: tuple[Shape, ...] = ((4, 3), (64, 8), (256, 16))
#: Calls after ones that are the same but for one thing, the last of them so many blocks that one number may tell; from threads of
#: several sizes.
SEVERAL: tuple[Shape, ...] = ((4, 3), (16, 8), (1, 40), (64, 2))
MANY: Shape = (64, 16)
#: Speeds of targets that are asked so in their smallest calls alone.
SLOW = (Speed.SLOW, Speed.CRAWLING)
#: The same call so many times, and the seconds that it may take; calls of each thread.
REPEATS, REPEAT_SECONDS, ROUNDS = 3200, 1.0, 24
#: Factor of a tensor scale that is another one, and the same in three digits.
NEAR = np.float32(1 + 2.0**-12)


def judge_history_of_blocks(matrix: Matrix, pools: Sequence[Pool], *topics: str) -> None:
    """Enter what calls show of each other.

    topics: of these, whether of memory or of state.
    """
    session, speed = matrix.session, matrix.speed
    has, function = session.capabilities.has, pools[0].answered.function
    for number, pool in enumerate(pools):
        work = partial(_make_workload, matrix, [pool])
        if "memory" in topics:
            large = (LARGE_PROBED,) if not number and speed is Speed.FAST else ()
            for axis in (-1, 0) if has(function, "axis") else (-1,):
                judge_history(work((*PROBED[:: 2 if number else 1], *large), axis=axis, settled=False), {Verb.PROBE})
                if has(function, "pad"):
                    judge_history(work(PROBED[:: 2 if number else 1], axis=axis, pad=True, settled=False), {Verb.PROBE})
            if not number and matrix.is_first_format and speed is not Speed.CRAWLING:
                judge_history(work(HELD), {Verb.HOLD})
        if "state" in topics:
            judge_history(work(REUSED), {Verb.REUSE})
            judge_history(work(SEVERAL[: 1 if speed in SLOW else 2]), {Verb.TWINS})
            if not number:
                judge_history(work(((ROWS, find_width(session.capabilities) // pool.fmt.k),)), {Verb.OTHERS})
            judge_history(work(((2 * pool.fmt.k, 2),), twins=_list_turned_twins), {Verb.TWINS})
            judge_history(work(() if speed in SLOW else (MANY,), twins=_list_near_twins), {Verb.TWINS})
            if not number and matrix.is_first_format and speed is not Speed.CRAWLING:
                judge_history(work(HELD[:1]), {Verb.REPEAT})
    if "state" in topics:
        # What loops in an interpreter shares little between formats, and takes long.
        brief = speed is not Speed.FAST and not matrix.is_first_format
        judge_history(_make_workload(matrix, pools[:1], THREADED[: 1 if brief else None]), {Verb.THREADS})
        if not brief:
            judge_history(_make_workload(matrix, pools[:1], SEVERAL), {Verb.SIZES})
            if has(function, "axis"):
                judge_history(_make_workload(matrix, pools[:1], THREADED[1:2], axis=0), {Verb.THREADS})
            if len(pools) > 1:
                judge_history(
                    _make_workload(matrix, [pools[i * len(pools) // THREADS] for i in range(THREADS)], ((8, 5),)),
                    {Verb.THREADS},
                )


def _make_workload(
    matrix: Matrix, pools: Sequence[Pool], shapes: Collection[Shape], *, axis: int = -1, pad: bool = False, settled: bool = True,
    twins: Callable[[Matrix, Pool, Drawn], Iterator[Twin]] | None = None,
) -> Workload:  # fmt: skip
    """Calls of blocks of one pool, or of each in turn; along an axis, or with rows that end within a block."""
    pool, card = pools[0], matrix.scorecard
    added = {**({} if axis == -1 else {"axis": axis}), **({"pad": True} if pad else {})}
    label = pool.name if len(pools) == 1 else f"{len({p.name for p in pools})} kinds of input"

    def draw(shape: Shape, number: int) -> Drawn:
        return _draw(pools[number % len(pools)], shape, number, axis, added)

    taken = {s: s[0] * s[1] * pool.fmt.k for s in shapes if s[0] * s[1] * pool.fmt.k <= matrix.largest}
    names = {
        f"{label}: {rows} rows of {blocks} blocks" + ("" if axis == -1 else f", axis {axis}") + ", padded" * pad: (
            rows,
            blocks,
        )
        for rows, blocks in taken
    }
    cheap = {name for name, shape in names.items() if taken[shape] <= matrix.cheap_for(pool)}
    list_twins = twins or _list_twins
    return Workload(
        session=matrix.session, function=pool.answered.function, scorecard=card, draw=draw, sizes=names, quick=cheap, first=matrix.first,
        list_twins=partial(list_twins, matrix, pool), settled=None if settled else (), repeats=(REPEATS, REPEAT_SECONDS), rounds=ROUNDS,
        changes_arrays=twins is None, chosen_by=(CALLS, f"{card.operation}/{card.format}"),
    )  # fmt: skip


def _draw(pool: Pool, shape: Shape, number: int, axis: int, added: dict[str, Any]) -> Drawn:
    rows, blocks = shape
    place, answered = pool.draw(rows * blocks, 1000 + number, rows), pool.answered
    given = answered.arguments(place, rows=rows)
    options = {**answered.kwargs, **added}
    if axis == 0:
        given = (np.ascontiguousarray(given[0].T), *given[1:])
    if "pad" in added:
        return Drawn((_cut(given[0], axis), *given[1:]), options)

    def rows_of(answer: Any) -> Array:
        return answered.rows(tuple(np.ascontiguousarray(a.T) for a in answer) if axis == 0 else answer)

    def find_mistake(answer: Any) -> str:
        wrong = pool.find_wrong(place, rows_of(answer))
        return f"{int(wrong.sum())} of {wrong.size} blocks got other bits than in another call" if wrong.any() else ""

    def show(label: str, answer: Any) -> Any:
        got = rows_of(answer)
        wrong = pool.find_wrong(place, got)
        failure = draw_call(label, pool, place, got, wrong, rows)
        at = int(np.argmax(wrong))
        return answered.keep_call(failure, place, at, got[at], width=blocks, axis=axis)

    return Drawn(given, options, find_mistake, show)


def _cut(x: Array, axis: int) -> Array:
    """A matrix whose lines end within a block."""
    return np.ascontiguousarray(x[:, :-3] if axis == -1 else x[:-3])


def _list_twins(matrix: Matrix, pool: Pool, drawn: Drawn) -> Iterator[Twin]:
    """Calls whose bytes are the same."""
    x, *rest = drawn.arguments
    for dtype in matrix.session.capabilities.dtypes if pool.answered.function == "quantize" else ():
        if np.dtype(DTYPES[dtype]).itemsize == x.dtype.itemsize and np.dtype(DTYPES[dtype]) != x.dtype:
            yield f"the dtype {dtype}", (x.view(DTYPES[dtype]), *rest), drawn.options


def _list_turned_twins(matrix: Matrix, pool: Pool, drawn: Drawn) -> Iterator[Twin]:
    """Calls whose shapes are the same, in blocks that lie otherwise."""
    has = partial(matrix.session.capabilities.has, pool.answered.function)
    if has("axis"):
        yield "the axis", drawn.arguments, {**drawn.options, "axis": 0}
    if has("block") and len(pool.fmt.shapes) > 1:
        yield "square blocks", drawn.arguments, {**drawn.options, "block": pool.fmt.shapes[1]}


def _list_near_twins(matrix: Matrix, pool: Pool, drawn: Drawn) -> Iterator[Twin]:
    """Calls that differ so little that few blocks tell."""
    (x, *rest), options = drawn.arguments, drawn.options
    if options.get("tensor_scale"):
        with np.errstate(over="ignore"):
            near = float(np.float32(options["tensor_scale"]) * NEAR)
        if np.isfinite(near):
            yield "a tensor scale next to it", drawn.arguments, {**options, "tensor_scale": near}
    for dtype in ("float16", "bfloat16") if pool.answered.function == "quantize" and x.dtype == np.float32 else ():
        yield f"what {dtype} does not hold", (narrow(dtype, x), *rest), options


def judge_gaps(matrix: Matrix, pool: Pool) -> None:
    """Calls that write into the memory between the numbers of a view."""
    session = matrix.session
    if session.transport not in LOCAL:
        return
    for arrangement in ("padded", "rows", "columns"):
        label = f"{pool.name}: between the numbers of 6 rows of 3 blocks, {arrangement}"
        if not matrix.asks(pool, label, 18 * pool.fmt.k):
            continue
        arguments = pool.answered.arguments(matrix.draw(pool, 18), rows=6)
        answer = run_once(
            partial(
                session.call,
                "arranged",
                arrangement,
                "wrote",
                pool.answered.function,
                *arguments,
                **pool.answered.kwargs,
            )
        )
        if not isinstance(answer, NoAnswer):  # a target may refuse it
            matrix.settle("memory", label, ok=not answer, text="the call wrote into its input, or between its numbers")


def judge_first_call(matrix: Matrix, pool: Pool) -> None:
    """The first call of all once more: what is set up by it may be set up too late for it."""
    session, card = matrix.session, matrix.scorecard
    label = "the first call of all, again"
    first = find_first_call(session)
    if (
        first is None
        or first.function != pool.answered.function
        or not matrix.is_first_format
        or session.transport not in LOCAL
    ):
        return
    if not matrix.asks(pool, label, 0):
        return
    answer = run_once(partial(session.call, first.function, *first.arguments, **first.options))
    if isinstance(answer, NoAnswer):
        card.count_no_answer("state", label, answer)
        return
    ok = _as_bytes(answer) == _as_bytes(first.answer)
    matrix.settle(
        "state", label, ok=ok, text="a small matrix was answered otherwise in the first call of the process than now"
    )


def _as_bytes(answer: Any) -> list[bytes]:
    return [np.asarray(part).tobytes() for part in (answer if isinstance(answer, (tuple, list)) else (answer,))]
