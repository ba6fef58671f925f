"""When something is a cause: it explains all, and some of that is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Compared(NamedTuple):
    """Some of what a target returned, compared with what it would return under a cause."""

    explained: bool
    #: Whether the profile says otherwise.
    wrong: bool


def is_cause(compared: Iterable[Compared]) -> bool:
    """Whether all is explained, and some of it is wrong; what follows the first that is not explained is not computed."""
    wrong = False
    for one in compared:
        if not one.explained:
            return False
        wrong |= one.wrong
    return wrong
