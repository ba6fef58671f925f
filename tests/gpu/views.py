"""Views of arrays, made the same way of NumPy's, CuPy's and torch's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at an array of `shape`: ("permute", order), ("index", index) and ("expand", shape) in turn."""

    name: str
    shape: tuple[int, ...]
    steps: tuple[tuple[str, Any], ...] = ()

    @property
    def negative(self) -> bool:
        """Whether a stride is negative, which torch has not."""
        return "reversed" in self.name


def apply(view: View, x: Any) -> Any:
    """The view of an array of its shape."""
    torch = type(x).__module__.startswith("torch")
    for kind, what in view.steps:
        if kind == "index":
            x = x[what]
        elif kind == "permute":
            x = x.permute(what) if torch else x.transpose(what)
        elif torch:
            x = x.expand(what)
        elif isinstance(x, np.ndarray):
            x = np.broadcast_to(x, what)
        else:
            import cupy

            x = cupy.broadcast_to(x, what)
    return x


def _permute(*order: int) -> tuple[str, Any]:
    return "permute", order


def _index(*index: Any) -> tuple[str, Any]:
    return "index", index


def _expand(*shape: int) -> tuple[str, Any]:
    return "expand", shape


_ALL, _EVEN, _BACK = slice(None), slice(None, None, 2), slice(None, None, -1)

VIEWS: tuple[View, ...] = (
    View("1-d", (96,)),
    View("1-d ragged", (33,)),
    View("1-d every second", (128,), (_index(_EVEN),)),
    View("1-d reversed", (64,), (_index(_BACK),)),
    View("1-d expanded", (1,), (_expand(64),)),
    View("2-d", (6, 64)),
    View("2-d transposed", (64, 6), (_permute(1, 0),)),
    View("2-d pitched", (8, 96), (_index(_ALL, slice(0, 64)),)),
    View("2-d pitched and misaligned", (8, 97), (_index(_ALL, slice(1, 65)),)),
    View("2-d rows reversed", (6, 64), (_index(_BACK),)),
    View("2-d columns reversed", (6, 64), (_index(_ALL, _BACK),)),
    View("2-d every second of both", (8, 128), (_index(_EVEN, _EVEN),)),
    View("2-d rows expanded", (1, 64), (_expand(5, 64),)),
    View("2-d columns expanded", (5, 1), (_expand(5, 64),)),
    View("2-d one element expanded", (1, 1), (_expand(32, 32),)),
    View("2-d column", (64, 5), (_index(_ALL, slice(2, 3)),)),
    View("3-d", (2, 3, 64)),
    View("3-d first axes exchanged", (4, 16, 64), (_permute(1, 0, 2),)),
    View("3-d last axes exchanged", (4, 64, 16), (_permute(0, 2, 1),)),
    View("3-d all axes turned", (64, 4, 6), (_permute(1, 2, 0),)),
    View("3-d cut in the middle", (4, 16, 64), (_index(_ALL, slice(0, 10)),)),
    View("3-d shifted in the middle", (4, 16, 64), (_index(_ALL, slice(1, None)),)),
    View("3-d every second of the first", (4, 16, 64), (_index(_EVEN),)),
    View("3-d every second in the middle", (4, 16, 64), (_index(_ALL, _EVEN),)),
    View("3-d cut at the end", (4, 6, 96), (_index(_ALL, _ALL, slice(0, 64)),)),
    View("3-d cut everywhere", (4, 9, 97), (_index(slice(1, 3), slice(2, 7), slice(3, 67)),)),
    View("3-d middle reversed", (3, 5, 64), (_index(_ALL, _BACK),)),
    View("3-d all reversed", (3, 5, 64), (_index(_BACK, _BACK, _BACK),)),
    View("3-d first expanded", (16, 64), (_expand(4, 16, 64),)),
    View("3-d middle expanded", (4, 1, 64), (_expand(4, 5, 64),)),
    View("3-d last expanded", (4, 5, 1), (_expand(4, 5, 32),)),
    View("3-d single axes", (4, 1, 64), (_permute(1, 0, 2),)),
    View("3-d one row", (3, 3, 64), (_index(slice(1, 2), slice(2, 3)),)),
    View("3-d ragged and permuted", (3, 4, 40), (_permute(1, 0, 2),)),
    View("4-d heads", (2, 16, 8, 64), (_permute(0, 2, 1, 3),)),
    View("4-d channels last", (2, 6, 5, 32), (_permute(0, 2, 3, 1),)),
    View("4-d permuted", (2, 3, 4, 32), (_permute(2, 1, 0, 3),)),
    View("4-d cut and expanded", (2, 1, 6, 64), (_expand(2, 3, 6, 64), _index(_ALL, _ALL, slice(1, 5)))),
    View("4-d every second, reversed", (4, 3, 4, 64), (_index(_EVEN, _BACK, _EVEN, _EVEN),)),
    View("5-d", (2, 2, 2, 3, 32)),
    View("5-d permuted", (2, 3, 2, 4, 32), (_permute(3, 0, 2, 1, 4),)),
    View("5-d expanded and permuted", (2, 1, 2, 3, 32), (_expand(2, 4, 2, 3, 32), _permute(1, 0, 3, 2, 4))),
)
