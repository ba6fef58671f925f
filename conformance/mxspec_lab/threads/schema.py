"""What a replayed thread is: a public report of a bug, and two small targets, one with the mistake and one without."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: Makes a target anew, with no state of earlier ones.
Maker = Callable[[], Any]
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+#[1-9][0-9]*")


class Family(StrEnum):
    """What a mistake is about."""

    SCALES = "block scales"
    ROUNDING = "elements and casts"
    DECODING = "decoding"
    TENSOR_SCALES = "tensor scales"
    LAYOUTS = "layouts"
    PRODUCTS = "products"
    STOCHASTIC = "stochastic rounding"
    CALLS = "shapes, calls and state"
    AFFINE = "affine integers"


class Source(StrEnum):
    """How the mistake is known. No pair is the project's own code: each is written anew."""

    #: From what the thread itself says: its formula, its table or its example.
    READ = "thread"
    #: From a note that sums the thread up in a line.
    NOTE = "note"


class Level(StrEnum):
    """Which cases of the vectors a pair is asked for: all, where the quick ones do not tell its mistake from another."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread as a runnable pair."""

    #: `repository-number`.
    id: str
    family: Family
    #: owner/repository#number.
    reference: str
    #: Threads about the same mistake.
    also: tuple[str, ...] = ()
    #: The report in the words of this project.
    title: str
    #: What was wrong, in one sentence.
    wrong: str
    source: Source = Source.READ
    #: Where the pair differs from the report: another format or operation, a part of it alone; "": nowhere.
    differs: str = ""
    formats: tuple[str, ...]
    operations: tuple[str, ...]
    broken: Maker
    fixed: Maker
    #: Requirements of which each must fail.
    fails: tuple[str, ...]
    #: What the judge's words of the cause contain; "": it is known to name none.
    names: str
    #: Glob of the requirements that are judged.
    only: str
    #: The block formats that are judged; none: those that the target lists.
    judged: tuple[str, ...] = ()
    level: Level = Level.FULL
    #: The profile whose bits the mended one has; "": it conforms.
    profile: str = ""

    def __post_init__(self) -> None:
        for reference in (self.reference, *self.also):
            check_reference(reference)
        if not self.fails:
            raise ValueError(f"{self.id}: nothing says which requirement fails")

    @property
    def url(self) -> str:
        """Where the thread is."""
        owner, _, number = self.reference.partition("#")
        return f"https://github.com/{owner}/issues/{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A thread that is no pair, and why."""

    reference: str
    what: str
    reason: str

    def __post_init__(self) -> None:
        check_reference(self.reference)


def check_reference(reference: str) -> None:
    """Raise ValueError for what is not owner/repository#number."""
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"{reference!r} is no owner/repository#number")
