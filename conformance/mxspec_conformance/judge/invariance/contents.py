"""Whole calls of one kind of content: kernels look at a tensor and take another path.

The blocks of the vectors are of every magnitude and either sign, so that a call of many of them never is what real tensors are:
activations without a negative number, weights within the range of float16, rows of padding, one number among zeros. What a block has to
return is what it returned among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from zlib import crc32

import ml_dtypes
import numpy as np

from mxspec_conformance.judge.alike import ALIKE, WHOLE_NUMBERS
from mxspec_conformance.judge.invariance.pools import Array, Places, Pool, draw_places
from mxspec_conformance.judge.invariance.whole import list_whole

#: Blocks that are made.
MADE = 192
#: A block counts as like others from so many on.
LEAST = 8
#: Numbers below are tiny, and those above its inverse huge.
TINY = 2.0**-100


def list_contents(pool: Pool, shape: tuple[int, int], answer: Callable[[Array], Pool | None]) -> Iterator[tuple[str, Pool, Places]]:
    """(content, pool, places in it [rows, blocks]) of calls of `quantize`.

    answer: makes a pool with further blocks behind its own, as they were answered among these; None where they were not.
    """
    rows, wide = shape
    for name, found, places in _list_kinds(pool, answer):
        yield name, found, places[draw_places(rows * wide, len(places), crc32(name.encode()))].reshape(shape)
    for name, x in list_whole(rows, wide, pool.fmt.k):
        made = answer(x.reshape(-1, pool.fmt.k).astype(pool.answered.inputs[0].dtype))
        if made is not None:
            yield name, made, np.arange(len(pool), len(made)).reshape(len(x), -1)


def _list_kinds(pool: Pool, answer: Callable[[Array], Pool | None]) -> Iterator[tuple[str, Pool, Places]]:
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
        made = answer(np.ascontiguousarray(make(blocks).astype(x.dtype)))
        if made is not None:
            yield name, made, np.arange(len(pool), len(made))
