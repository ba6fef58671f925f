"""Blocks whose lanes are alike, made of others: what votes among lanes sees them all agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _stretch(x: Array, negative: int, positive: int) -> Array:
    """Whole numbers up to 15 in as many blocks, times a factor for each sign."""
    whole = (np.arange(x.size) * 37 % 31 - 15).reshape(x.shape)
    return np.where(whole < 0, negative * whole, positive * whole)


#: Content -> blocks [n, k] of it, made of others. All are numbers of every dtype.
ALIKE: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("no negative number", np.abs),
    ("no positive number", lambda x: -np.abs(x)),
    ("one number", lambda x: np.full_like(x, 1.25)),
    ("whole numbers", lambda x: _stretch(x, 1, 1)),
    ("signs alone", lambda x: np.copysign(np.ones_like(x), x)),
    ("one magnitude", lambda x: np.copysign(np.full_like(x, 2.5), x)),
)
#: More of them, of which whole calls are made.
WHOLE_NUMBERS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("whole numbers, the negative ones beyond 8 bits", lambda x: _stretch(x, 20, 1)),
    ("whole numbers, the positive ones beyond 8 bits", lambda x: _stretch(x, 1, 20)),
    ("whole numbers beyond 16 bits", lambda x: _stretch(x, 4096, 4096)),
)
