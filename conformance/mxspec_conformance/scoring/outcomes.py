"""The outcome of one run of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mxspec.enums import StrEnum


class Verdict(StrEnum):
    """What a test said of an implementation."""

    ACCEPTS = "accepts"
    REJECTS = "rejects"
    #: It called nothing of the implementation, or said that it cannot.
    SKIPPED = "skipped"
    #: It ended its process without a verdict.
    ENDED = "ended"
    TIMEOUT = "timeout"
    #: It cannot be run at all.
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, the reason in the test's own words, and the functions that it called."""

    verdict: Verdict
    reason: str = ""
    calls: tuple[str, ...] = ()
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For the wire."""
        return {"verdict": self.verdict.value, "reason": self.reason, "calls": list(self.calls), "seconds": self.seconds}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Outcome:
        """The inverse of `as_dict`."""
        return cls(Verdict(entry["verdict"]), str(entry["reason"]), tuple(entry["calls"]), float(entry["seconds"]))
