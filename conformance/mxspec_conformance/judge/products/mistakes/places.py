"""Mistakes along k: products that are dropped, or counted twice; a tile that stands for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from mxspec.dot import OperandContract
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.mistakes.mistake import Floats, Mistake, keep_case
from mxspec_conformance.judge.products.mistakes.sides import SIDES
from mxspec_conformance.judge.products.reference import Sides, change_parts

#: Length of a block, roughly: places are the same for every format.
_RUN = 32


def _scale_places(where: Callable[[int, int], slice], by: int, _case: ProductCase, found: Sides, _: OperandContract) -> Sides | None:
    """The products at some places counted so many times; one k is no case for it."""
    a, b = found
    if a.k < 2:
        return None
    chosen = where(a.k, _RUN)

    def scale(part: Floats) -> Floats:
        values = part.copy()
        values[:, chosen] = values[:, chosen] * by if by else 0  # what is left out leaves no NaN
        return values

    return change_parts(a, scale), b


PLACES: tuple[tuple[str, Callable[[int, int], slice]], ...] = (
    ("the last k", lambda k, _: slice(k - 1, k)),
    ("the first k", lambda k, _: slice(0, 1)),
    ("the last block", lambda k, run: slice(max(k - run, 0), k)),
    ("the last half block", lambda k, run: slice(max(k - run // 2, 0), k)),
    ("the first block", lambda k, run: slice(0, min(run, k))),
    ("every odd k", lambda k, _: slice(1, k, 2)),
    ("every even k", lambda k, _: slice(0, k, 2)),
    ("the second half of k", lambda k, _: slice(k // 2, k)),
    ("the first half of k", lambda k, _: slice(0, k // 2)),
    ("what lies beyond a multiple of 64", lambda k, _: slice(k // 64 * 64, k)),
    ("what lies beyond a multiple of 128", lambda k, _: slice(k // 128 * 128, k)),
    ("what lies beyond a multiple of 256", lambda k, _: slice(k // 256 * 256, k)),
)


def list_dropped() -> Iterator[Mistake]:
    """What a kernel leaves out of its sums."""
    for text, places in PLACES:
        words = f"{text} along k is dropped" if "what" in text else f"{text} is dropped"
        yield Mistake(words, keep_case, partial(_scale_places, places, 0))


def list_counted_twice() -> Iterator[Mistake]:
    """What a kernel adds twice."""
    for text, places in PLACES:
        yield Mistake(f"{text} counts twice", keep_case, partial(_scale_places, places, 2))


def _repeat_first(run: int, sides: str, _case: ProductCase, found: Sides, _: OperandContract) -> Sides | None:
    """The first numbers of each row again and again, on some sides."""
    a, b = found
    if a.k <= run:
        return None
    a_part, b_part = (change_parts(factor, lambda part: part[:, np.arange(part.shape[1]) % run]) for factor in found)
    return a_part if "a" in sides else a, b_part if "b" in sides else b


def list_repeated() -> Iterator[Mistake]:
    """A tile along k that is not loaded again."""
    for run in (16, 32, 64, 128):
        for sides, words in SIDES:
            text = f"the first {run} numbers of a row of {words} are used for all of k"
            yield Mistake(text, keep_case, partial(_repeat_first, run, sides))
