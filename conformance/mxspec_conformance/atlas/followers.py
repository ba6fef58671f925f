"""Which implementations follow a profile, and which have its bits while something else of the format fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mxspec_conformance.atlas.entries import Entry
from mxspec_conformance.judge.wanted import OF_CALLS
from mxspec_conformance.results.conclusion import Stand, conclude
from mxspec_conformance.results.report import GOOD, FormatResult, Verdict


@dataclass(frozen=True, slots=True)
class Follower:
    """An implementation of a format that has a profile's bits."""

    profile: str
    entry: Entry
    format: str
    #: Whether it has the bits of every case, and not of those alone that no text leaves open.
    identical: bool
    #: Topics of the requirements that fail; none where it follows the profile.
    failing: tuple[str, ...]

    @property
    def key(self) -> tuple[str, bool, tuple[str, ...]]:
        """Formats of one implementation that have this in common are one line."""
        return self.entry.slug, not self.identical, self.failing


def list_followers(entry: Entry, result: FormatResult) -> Iterator[Follower]:
    """How a format stands to the profiles whose bits it has.

    The judged one decides all requirements. Of another one only the calls of `operations` were compared: what fails of calls of
    other sizes, and of other operations such as `tensor_scale` where it does not explain that, stands against it, too.
    """
    stand = conclude(result, entry.report.requirements).stand
    bad = [r for r in entry.report.requirements if r.format == result.format and (r.verdict not in GOOD or r.verdict is Verdict.WAIVED)]
    lost = (Verdict.ERROR, Verdict.TIMEOUT)
    for name in dict.fromkeys((result.judged_against, *result.identical_to)):
        identical = name in result.identical_to and not result.partial and stand is not Stand.SILENT
        if identical or (name == result.judged_against and stand in (Stand.CONFORMS, Stand.MATCHES)):
            apart = [
                r for r in bad
                if r.topic in OF_CALLS or r.verdict in lost or (r.operation not in result.operations and r.explained_by != name)
            ]  # fmt: skip
            failing = dict.fromkeys(r.topic for r in (bad if name == result.judged_against else apart))
            yield Follower(name, entry, result.format, identical, tuple(failing))
