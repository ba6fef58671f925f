"""Whole calls of one kind of content: kernels look at a tensor and take another path.

The blocks of the vectors are of every magnitude and either sign, so that a call of many of them never is what real tensors are:
activations without a negative number, weights within the range of float16, rows that are all one. What a block has to return is
what it returned among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.matrix import Matrix, extend_pool
from mxspec_conformance.judge.invariance.pace import Speed
from mxspec_conformance.judge.invariance.pools import Places, Pool, draw_places
from mxspec_conformance.targets.errors import CallError

Array = npt.NDArray[Any]

#: Blocks that are made; rows and blocks of the calls, the last for fast targets alone.
MADE, SHAPES = 192, ((40, 8), (512, 8))
#: A block counts as like others from so many on.
LEAST = 8


def judge_contents(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Calls whose numbers, or blocks, are all of one kind."""
    for number, pool in enumerate(pools):
        shapes = SHAPES[: 2 if matrix.speed is Speed.FAST and not number else 1]
        for name, whole, blocks in _list_contents(matrix, pool):
            for rows, across in shapes:
                count = rows * across
                place = blocks[draw_places(count, len(blocks), matrix.calls)]
                _enter(matrix, whole, f"{rows} x {across} blocks, {name}", place, rows, quick=rows == SHAPES[0][0] and not number)
        rows, across = SHAPES[0]
        place = matrix.draw(pool, rows * across)
        for name, repeated in _list_repeated(place.reshape(rows, across), _pick(pool)):
            _enter(matrix, pool, f"{rows} x {across} blocks, {name}", repeated.reshape(-1), rows, quick=not number)


def _enter(matrix: Matrix, pool: Pool, label: str, place: Places, rows: int, *, quick: bool) -> None:
    answered, session = pool.answered, matrix.session

    def call() -> Any:
        given = answered.arguments(place, rows=rows)
        return answered.rows(session.call(answered.function, *given, **answered.kwargs))

    matrix.calls += 1
    matrix.enter("call-size", f"{pool.name}: {label}", pool, place, call, lines=rows, quick=quick)


def _pick(pool: Pool) -> int:
    """A block of which nothing is open, with several numbers."""
    return int(pool.pinned[len(pool.pinned) // 2]) if len(pool.pinned) else len(pool) // 2


def _list_repeated(place: Places, one: int) -> Iterator[tuple[str, Places]]:
    """(content, places [rows, blocks]): blocks that come again where a kernel may look whether they do."""
    yield "all of them one", np.full_like(place, one)
    ends = place.copy()
    ends[-1] = ends[0]
    yield "the last row as the first", ends
    alike = np.repeat(place[:1], len(place), axis=0)
    alike[len(place) // 2] = place[1]
    yield "every row but one the same", alike
    columns = np.repeat(place[:, :1], place.shape[1], axis=1)
    columns[:, place.shape[1] // 2] = place[:, 1]
    yield "every column of blocks but one the same", columns


def _list_contents(matrix: Matrix, pool: Pool) -> Iterator[tuple[str, Pool, Places]]:
    """(content, a pool, places in it of blocks with that content)."""
    if pool.answered.function != "quantize":
        return
    x = pool.answered.inputs[0]
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = x.astype(np.float32)
    finite = np.isfinite(values).all(axis=1)
    largest = np.where(finite, np.abs(np.where(np.isfinite(values), values, 0)).max(axis=1), np.inf)
    for name, chosen in (
        ("finite numbers", finite),
        ("numbers of float16's range", (largest <= 65504) & (largest >= 2.0**-10)),
        ("numbers below one", (largest < 1) & (largest > 2.0**-100)),
        ("numbers of one and more", (largest >= 1) & finite),
    ):
        places = np.flatnonzero(chosen)
        if len(places) >= LEAST:
            yield name, pool, places
    near = np.flatnonzero((largest <= 65504) & (largest >= 2.0**-10))
    if len(near) < LEAST:
        return
    blocks = x[near[draw_places(MADE, len(near), 5)]]
    for name, make in _MADE:
        made = _answer_among_others(matrix, pool, np.ascontiguousarray(make(blocks).astype(x.dtype)))
        if made is not None:
            yield name, made, len(pool) + np.arange(len(blocks))


#: Content -> blocks [n, k] of it, made of others. All are numbers of every dtype.
_MADE: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("no negative number", np.abs),
    ("no positive number", lambda x: -np.abs(x)),
    ("one number", lambda x: np.full_like(x, 1.25)),
    ("whole numbers", lambda x: (np.arange(x.size) * 37 % 31 - 15).reshape(x.shape)),
    ("signs alone", lambda x: np.copysign(np.ones_like(x), x)),
)


def _answer_among_others(matrix: Matrix, pool: Pool, made: Array) -> Pool | None:
    """The pool, and behind it further blocks as they were answered between its own; None where they were not."""
    k, answered = pool.fmt.k, pool.answered
    between = answered.inputs[0][draw_places(len(made), len(pool), 6)]
    mixed = np.stack([made, between], axis=1).reshape(-1, k)
    try:
        answer = matrix.session.call(answered.function, mixed, answered.name, **answered.kwargs)
    except CallError:  # judged elsewhere
        return None
    joined = extend_pool(pool, made, answered.rows(answer)[::2])
    return replace(joined, pinned=pool.pinned)
