"""Levels: all cases, or the few that find the same mutants.

The quick level is data: for each vector file the cases that a greedy cover of the kill matrix needs. Ids of cases are permanent,
so it stays valid when vectors grow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Some cases: (operation, format) -> their labels. What is not listed is judged in full."""

    labels: Mapping[tuple[str, str], frozenset[str]]
    #: Whether the target is also judged by calls that differ in size, memory and order, not in numbers.
    calls: bool = True

    def chosen(self, operation: str, fmt: str) -> frozenset[str] | None:
        """The labels of one file; None: all."""
        return self.labels.get((operation, fmt))


EVERYTHING = Selection({})
#: What a target answers for numbers, however it is called: the part of a verdict that a recording can hold.
NUMBERS_ALONE = Selection({}, calls=False)
_active: ContextVar[Selection] = ContextVar("selection", default=EVERYTHING)


@contextmanager
def use_selection(selection: Selection) -> Iterator[None]:
    """Judge only these cases within the context."""
    token = _active.set(selection)
    try:
        yield
    finally:
        _active.reset(token)


def selects() -> bool:
    """Whether some cases are left out."""
    return bool(_active.get().labels)


def selects_calls() -> bool:
    """Whether calls that differ in size, memory and order are made."""
    return _active.get().calls


def keeps(operation: str, fmt: str, label: str) -> bool:
    """Whether a case is judged."""
    chosen = _active.get().chosen(operation, fmt)
    return chosen is None or label in chosen


def makes_call(*, quick: bool) -> bool:
    """Whether a call is made that follows from earlier answers; quick: whether it is made where cases are left out, too."""
    return quick or not selects()


def kept_lanes(operation: str, fmt: str, case: str, count: int) -> Sequence[int]:
    """The lanes of a case that are judged; their labels are `case[lane]`."""
    chosen = _active.get().chosen(operation, fmt)
    return range(count) if chosen is None else [i for i in range(count) if f"{case}[{i}]" in chosen]


@lru_cache(maxsize=1)
def read_quick() -> dict[str, Any]:
    """The quick level's file."""
    text = files("mxspec_conformance").joinpath("observations/quick.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


@lru_cache(maxsize=1)
def quick_selection() -> Selection:
    """The quick level."""
    return Selection({(entry["operation"], entry["format"]): frozenset(entry["cases"]) for entry in read_quick()["files"]})
