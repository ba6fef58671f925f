"""Where searches for a smallest example end.

Hypothesis draws constants of the modules that happen to be loaded, so one search ends elsewhere together with other tests,
whatever its seed, and about one in ten stops at an example that no single step makes smaller. What a strategy
promises is that a failure shrinks to little: one search of a few reaches it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from hypothesis import find, settings
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")
SEARCHES = 8


def shrink_to(strategy: SearchStrategy[T], condition: Callable[[T], bool], small: Callable[[T], bool], *, limits: settings) -> T:
    """The end of the first search that is `small`; AssertionError where none of SEARCHES is."""
    ends = []
    for start in range(SEARCHES):
        end = find(strategy, condition, settings=limits, random=Random(start))
        if small(end):
            return end
        ends.append(end)
    raise AssertionError(f"none of {SEARCHES} searches ended at a small example: {ends}")
