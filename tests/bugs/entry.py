"""An entry of the catalogue: a target, and exactly what the judge must say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mxspec.enums import StrEnum
from mxspec_conformance.results.report import Verdict


class Kind(StrEnum):
    """What a target is."""

    BUG = "bug"
    #: Right, by other means or in another form than usual.
    UNUSUAL = "unusual"
    #: It takes one of several answers that the specification leaves open.
    OPEN = "open"


#: Topics of one behaviour: an answer that hangs on the call.
OF_CALLS = ("call-size", "memory", "state", "axis", "tail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzed:
    """What a short fuzzing campaign finds."""

    #: Part of the cause as the finding states it.
    text: str
    #: At most so many lanes of the smallest counterexample are not zero.
    lanes: int
    #: At most so many findings come of the one bug.
    findings: int = 1
    #: The call pattern in which it shows; "" for any.
    pattern: str = "block"
    batches: int = 4
    #: Whether the campaign ends with its first finding.
    stop: bool = True
    #: Against which profile; None for the nearest.
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One target.

    Requirements are written `operation/topic,topic`, which stands for each topic in each of the formats, or, for one format alone,
    `operation/format/topic,topic`.
    """

    id: str
    #: In one sentence: what is wrong, or what is unusual.
    what: str
    #: Makes the target anew, with no state of earlier ones.
    target: Callable[[], Any]
    #: What `operation/topic` stands for: block formats, or elements for functions of single numbers.
    formats: tuple[str, ...]
    kind: Kind = Kind.BUG
    #: Requirements that must fail, and further ones that may; no other one does.
    must_fail: tuple[str, ...] = ()
    may_fail: tuple[str, ...] = ()
    #: The profile that it is judged against; "" for the nearest.
    profile: str = ""
    #: The profile that is nearest to a target that is no bug; "" for the format's default.
    nearest: str = ""
    #: The verdicts that failing requirements have.
    verdicts: tuple[Verdict, ...] = (Verdict.FAIL,)
    #: What the notes of failing requirements contain.
    note: str = ""
    #: The mutant of `mxspec_lab` that this restates.
    mutant: str = ""
    #: What fuzzing finds, where that is tested.
    fuzzed: Fuzzed | None = None

    def __post_init__(self) -> None:
        if self.kind is not Kind.BUG and (self.must_fail or self.may_fail):
            raise ValueError(f"{self.id!r} is no bug; nothing of it may fail")
        if self.kind is Kind.BUG and not self.must_fail and self.fuzzed is None:
            raise ValueError(f"{self.id!r}: nothing says how this bug is found")

    @property
    def musts(self) -> frozenset[str]:
        """Ids of the requirements that must fail."""
        return self._in_full(self.must_fail)

    @property
    def mays(self) -> frozenset[str]:
        """Ids of the further requirements that may fail.

        What hangs on the call fails some of its topics, which ones hangs on the blocks that a call happens to hold.
        """
        given = self.musts | self._in_full(self.may_fail)
        of_calls = {i.rsplit("/", 1)[0] for i in given if i.rsplit("/", 1)[1] in OF_CALLS}
        return (given | {f"{subject}/{topic}" for subject in of_calls for topic in OF_CALLS}) - self.musts

    def _in_full(self, requirements: Iterable[str]) -> frozenset[str]:
        found = set()
        for requirement in requirements:
            operation, *fmt, topics = requirement.split("/")
            found |= {f"{operation}/{f}/{topic}" for f in fmt or self.formats for topic in topics.split(",")}
        return frozenset(found)
