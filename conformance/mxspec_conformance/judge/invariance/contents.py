"""Whole calls of one kind of content: kernels look at a tensor and take another path.

The blocks of the vectors are of every magnitude and either sign, so that a call of many of them never is what real tensors are:
activations without a negative number, weights within the range of float16, rows of padding, one number among zeros. What a block has to
return is what it returned among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.alike import ALIKE, WHOLE_NUMBERS
from mxspec_conformance.judge.invariance.matrix import Matrix, extend_pool
from mxspec_conformance.judge.invariance.pace import Speed
from mxspec_conformance.judge.invariance.placed import PLACED, list_passed_over, list_repeated
from mxspec_conformance.judge.invariance.pools import Places, Pool, draw_places
from mxspec_conformance.judge.invariance.whole import list_whole
from mxspec_conformance.targets.errors import CallError

Array = npt.NDArray[Any]

#: Blocks that are made; rows of the calls, the last for fast targets alone, and blocks in a row.
MADE, ROWS, ACROSS = 192, (40, 512), 8
#: A block counts as like others from so many on.
LEAST = 8
#: Numbers below are tiny, and those above its inverse huge.
TINY = 2.0**-100


def judge_contents(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Calls whose numbers, or blocks, are all of one kind."""
    for number, pool in enumerate(pools):
        # Of what loops in an interpreter as many rows as it is asked for.
        few = min(ROWS[0], matrix.largest // (ACROSS * pool.fmt.k) // 4 * 4)
        if not few:
            continue
        enter = partial(_enter, matrix, quick=not number)
        if pool.answered.function == "quantize":
            every = (few, *(ROWS[1:] if matrix.speed is Speed.FAST and not number else ()))
            _judge_chosen(matrix, pool, every, enter)
            _judge_whole(matrix, pool, few, enter)
        place = matrix.draw(pool, few * ACROSS).reshape(few, ACROSS)
        ordinary = pool.pinned if len(pool.pinned) else np.arange(len(pool))  # no NaN equals itself
        for name, repeated in list_repeated(ordinary[place % len(ordinary)], _pick(pool)):
            enter(pool, name, repeated.reshape(-1), few)
        _judge_placed(matrix, pool, place, enter)


def _enter(matrix: Matrix, pool: Pool, name: str, place: Places, rows: int, *, quick: bool) -> None:
    answered, session = pool.answered, matrix.session

    def call() -> Any:
        given = answered.arguments(place, rows=rows)
        return answered.rows(session.call(answered.function, *given, **answered.kwargs))

    matrix.calls += 1
    label = f"{pool.name}: {rows} x {len(place) // rows} blocks, {name}"
    matrix.enter("call-size", label, pool, place, call, lines=rows, quick=quick and rows <= ROWS[0])


#: (a pool, content, places in it, rows) -> the call is made and counted.
Enter = Callable[[Pool, str, Places, int], None]


def _judge_chosen(matrix: Matrix, pool: Pool, every: Sequence[int], enter: Enter) -> None:
    """Blocks of one content alone, drawn again and again."""
    for name, whole, blocks in _list_contents(matrix, pool):
        for rows in every:
            enter(whole, name, blocks[draw_places(rows * ACROSS, len(blocks), matrix.calls)], rows)


def _judge_whole(matrix: Matrix, pool: Pool, rows: int, enter: Enter) -> None:
    """Matrices that mean something as a whole."""
    k, dtype = pool.fmt.k, pool.answered.inputs[0].dtype
    for name, x in list_whole(rows, ACROSS, k):
        blocks = x.reshape(-1, k).astype(dtype)
        made = _answer_among_others(matrix, pool, blocks)
        if made is not None:
            enter(made, name, len(pool) + np.arange(len(blocks)), len(x))


def _judge_placed(matrix: Matrix, pool: Pool, place: Places, enter: Enter) -> None:
    """Blocks that kernels pass over, among others."""
    rows, across = place.shape
    for name, block in list_passed_over(pool):
        made = _answer_among_others(matrix, pool, *block)
        if made is None:
            continue
        for where, flag in PLACED:
            mixed = np.where(flag(rows, across), len(pool), place)
            if where == PLACED[-1][0]:
                mixed[mixed != len(pool)] = _pick(pool)
            enter(made, f"{name} {where}", mixed.reshape(-1), rows)


def _pick(pool: Pool) -> int:
    """A block of which nothing is open, with several numbers."""
    return int(pool.pinned[len(pool.pinned) // 2]) if len(pool.pinned) else len(pool) // 2


def _list_contents(matrix: Matrix, pool: Pool) -> Iterator[tuple[str, Pool, Places]]:
    """(content, a pool, places in it of blocks with that content)."""
    x = pool.answered.inputs[0]
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = x.astype(np.float32)
    finite = np.isfinite(values).all(axis=1)
    smallest = float(ml_dtypes.finfo(x.dtype).smallest_normal)
    largest = np.where(finite, np.abs(np.where(np.isfinite(values), values, 0)).max(axis=1), np.inf)
    for name, chosen in (
        ("finite numbers", finite),
        ("numbers of float16's range", (largest <= 65504) & (largest >= 2.0**-10)),
        ("numbers below one", (largest < 1) & (largest > 2.0**-100)),
        ("numbers of one and more", (largest >= 1) & finite),
        ("subnormal numbers", (largest < smallest) & (largest > 0)),
        ("tiny numbers", (largest < TINY) & (largest > 0)),
        ("huge numbers", (largest > 1 / TINY) & finite),
    ):
        places = np.flatnonzero(chosen)
        if len(places) >= LEAST:
            yield name, pool, places
    near = np.flatnonzero((largest <= 65504) & (largest >= 2.0**-10))
    if len(near) < LEAST:
        return
    blocks = x[near[draw_places(MADE, len(near), 5)]]
    for name, make in (*ALIKE, *WHOLE_NUMBERS):
        made = _answer_among_others(matrix, pool, np.ascontiguousarray(make(blocks).astype(x.dtype)))
        if made is not None:
            yield name, made, len(pool) + np.arange(len(blocks))


def _answer_among_others(matrix: Matrix, pool: Pool, *made: Array) -> Pool | None:
    """The pool, and behind it further blocks as they were answered between its own; None where they were not.

    made: what the function takes, each with a block in each row.
    """
    answered = pool.answered
    between = draw_places(len(made[0]), len(pool), 6)
    mixed = tuple(np.stack([m, a[between]], axis=1).reshape(2 * len(m), -1) for m, a in zip(made, answered.inputs, strict=True))
    asked = replace(answered, inputs=mixed)
    try:
        answer = matrix.session.call(answered.function, *asked.arguments(np.arange(2 * len(between))), **answered.kwargs)
    except CallError:  # judged elsewhere
        return None
    joined = extend_pool(pool, answered.rows(answer)[::2], *made)
    return replace(joined, pinned=pool.pinned)
