"""Rows of other lengths than those of the vectors, and tensors of other shapes, where a whole row or tensor has one scale.

Each holds the largest number of one answered block, once, and others of it, as often as it has room: so scale and codes are the block's.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from mxspec.formats import Extent
from mxspec_conformance.judge.invariance.blocks import BlockCalls, Way, measure_budget
from mxspec_conformance.judge.invariance.history import Drawn
from mxspec_conformance.judge.invariance.pools import Array, Pool
from mxspec_conformance.targets.capabilities import ShapeLimits

#: Lengths at which kernels change their path: of vectors, of warps, of what a thread block holds, those of models, and the adjacent ones.
LENGTHS = (
    1, 2, 3, 8, 16, 31, 32, 33, 64, 127, 129, 192, 255, 256, 257, 320, 511, 512, 513, 1000, 1024, 1025, 2048, 4096, 4097, 5120, 7168, 8192, 16384, 28673,
)  # fmt: skip
#: (rows, columns): of short ones so many that every block comes into some; more than a grid holds.
ROWS = (
    *((min(1 + i % 5 * 3 + (1 << 12) // n, max((1 << 16) // n, 1)), n) for i, n in enumerate(LENGTHS)), (65537, 3), (70001, 2),
)  # fmt: skip
SHAPES = (
    (1, 1), (1, 127), (1, 4096), (2, 64), (2, 128), (3, 5), (4, 256), (5, 129), (16, 64), (33, 128), (64, 7), (128, 1), (128, 128), (129, 384),
    (7, 1000), (256, 512), (1000, 3), (1027, 1031), (65537, 3),
)  # fmt: skip

#: Where the largest number of a tensor lies; in rows it lies there by turns.
PLACES = ("the last place", "the first place", "any place")


def judge_extents(calls: BlockCalls) -> None:
    """Enter calls of `quantize` or `dequantize` with rows and tensors of many sizes."""
    session = getattr(calls.session, "inner", calls.session)  # what lays blocks into rows would lay these, too
    limits = getattr(calls.session, "limits", {}).get(calls.function, ShapeLimits())
    # Blocks of tensors are asked in few calls, however fast they are.
    budget = measure_budget(session, calls.pools[0]) if calls.extent is Extent.TENSOR else calls.budget
    for pool in calls.pools:
        shapes = SHAPES if calls.extent is Extent.TENSOR else ROWS
        for rows, columns in shapes:
            if not limits.allow((rows, columns)) or rows * columns > budget.largest:
                continue
            work = calls.make_workload([Way(pool)], session=session)
            for place in PLACES if calls.extent is Extent.TENSOR else ("each place",):
                what = f"a tensor of {rows} x {columns}, the largest in {place}" if place in PLACES else f"{rows} rows of {columns}"
                label = f"{pool.name}: {what}"
                drawn = partial(_draw, pool, rows, columns, place, crc32(label.encode()))
                work.enter("call-size", label, drawn, quick=rows * columns <= budget.cheap)


def _draw(pool: Pool, rows: int, columns: int, largest: str, salt: int) -> Drawn:
    """A call of as many blocks as rows, one to each, or of one in all of a tensor, whose largest number lies in a place."""
    count = 1 if largest in PLACES else rows
    k, total = pool.fmt.k, rows * columns // count
    place = pool.draw(count, salt, count)
    given = pool.answered.inputs[0][place]
    if pool.answered.function == "quantize":
        place = pool.pinned[place % len(pool.pinned)] if len(pool.pinned) else place
        alone = np.concatenate([pool.leading, pool.trailing])  # whose largest number is so by far
        place[:1] = alone[place[:1] % len(alone)] if len(alone) else place[:1]
        given = pool.answered.inputs[0][place]
        first = np.abs(given.astype(np.float32)).argmax(axis=1)
    else:
        first = np.arange(count) % k
    lanes = (first[:, None] + 1 + np.arange(total) * (k - 1) // total) % k
    turn = np.arange(count) + (PLACES.index(largest) if largest in PLACES else 0)  # of a single row, too, the last place
    lanes[np.arange(count), np.select([turn % 3 == 0, turn % 3 == 1], [total - 1, 0], (salt + 7 * turn) % total)] = first
    x = np.take_along_axis(given, lanes, axis=1).reshape(rows, columns)
    before = pool.answered.before[place]

    def find_mistake(answer: Array | tuple[Array, Array]) -> str:
        values = np.asarray(answer[0] if isinstance(answer, tuple) else answer).reshape(count, -1)
        own = before[:, 1:] if isinstance(answer, tuple) else before
        wrong = np.asarray(pool.answered.differ(values, np.take_along_axis(own, lanes, axis=1)))
        text = f"{int(wrong.sum())} of {wrong.size} {'codes' if isinstance(answer, tuple) else 'values'}" if wrong.any() else ""
        if isinstance(answer, tuple) and (bad := answer[1].reshape(count, -1) != before[:, :1]).any():
            text = f"{int(bad.any(axis=1).sum())} of {count} scales" + f", and {text}," * bool(text)
        return text and f"{text} are not those of the same numbers in a row of {k}"

    arguments: tuple[Any, ...] = (x, pool.answered.name)
    if pool.answered.function == "dequantize":
        scales = pool.answered.inputs[1][place]
        arguments = (x, np.repeat(scales, rows // count, axis=0), pool.answered.name)
    return Drawn(arguments, pool.answered.kwargs, find_mistake)
