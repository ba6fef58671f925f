"""Which requirements are asked for: all, or those whose id fits a glob. What no other one hangs on is not worked on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mxspec_vectors.topics import TOPICS


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requirements that are asked for."""

    #: A glob of ids; None: all.
    only: str | None = None

    def fits(self, requirement: str) -> bool:
        """Whether one is, by its id."""
        return self.only is None or fnmatchcase(requirement, self.only)

    def any_of(self, operation: str, name: str, topics: Iterable[str] = tuple(TOPICS)) -> bool:
        """Whether one of these topics is, of an operation and a format, element or layout."""
        return self.only is None or any(fnmatchcase(f"{operation}/{name}/{topic}", self.only) for topic in topics)


EVERYTHING = Wanted()
