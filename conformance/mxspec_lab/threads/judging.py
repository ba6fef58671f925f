"""Judging a pair: whether the judge separates it, and what it names as the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mxspec.enums import StrEnum
from mxspec_conformance import Report, check
from mxspec_conformance.results.report import GOOD, Requirement, Verdict
from mxspec_lab.threads.schema import Level, Thread

#: Characters of one text that a result keeps.
LONGEST = 200


class Naming(StrEnum):
    """By what the judge names a cause, the most telling first."""

    #: A known cause, by its type, and its words.
    CAUSE = "cause"
    #: How the behaviour of a format departs from the profile, in words.
    DEVIATION = "deviation"
    #: The note of a requirement: whose bits these are, or as if what were done.
    NOTE = "note"
    #: The step of the arithmetic at which the smallest failing input parts from the profile.
    STEP = "step"
    #: The requirement itself, where it is the only one that fails.
    REQUIREMENT = "requirement"


@dataclass(frozen=True, slots=True)
class Named:
    """One thing that the judge says of a cause."""

    by: Naming
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the judge said of a pair."""

    #: Verdicts of the broken one: requirement -> verdict, those that are not fine.
    failing: dict[str, Verdict] = field(default_factory=dict)
    #: The same of the mended one.
    accused: tuple[str, ...] = ()
    #: Requirements that the mended one was judged by and passes.
    passed: int = 0
    #: The profile of the mended one, and whether its bits are that profile's.
    profile: str = ""
    identical: bool = False
    named: tuple[Named, ...] = ()
    #: The first failing requirement that was expected, with its smallest input.
    shown: Requirement | None = None

    @property
    def separated(self) -> bool:
        """Whether the broken one is accused and the mended one is not."""
        return bool(self.failing) and not self.accused

    def find_cause(self, words: str) -> Named | None:
        """What of the named things says these words; None: nothing does, or there are none."""
        return next((one for one in self.named if words and words in one.text), None)


def judge(thread: Thread) -> Outcome:
    """Judge both targets of a thread by the public `check`."""
    how = (thread.only, thread.judged, thread.level)
    report, mended = check_made(thread.build_broken, *how), check_right(thread.make_fixed, *how)
    failing = {r.id: r.verdict for r in list_accused(report)}
    wanted = [r for r in report.requirements if r.id in thread.fails and r.id in failing]
    shown = next((r for r in wanted if r.first is not None), next(iter(wanted), None))
    entry = next(iter(mended.formats), None)
    return Outcome(
        failing=failing, accused=tuple(r.id for r in list_accused(mended)), passed=sum(r.verdict is Verdict.PASS for r in mended.requirements),
        profile="" if entry is None else entry.judged_against, identical=entry is not None and entry.judged_against in entry.identical_to,
        named=tuple(list_named(report, shown)), shown=shown,
    )  # fmt: skip


def check_made(maker: Callable[[], Any], only: str, formats: tuple[str, ...], level: Level) -> Report:
    """The report of what a maker makes."""
    return check(maker(), only=only, formats=formats or None, quick=level is Level.QUICK)


#: The same of a mended target; several threads share one.
check_right = cache(check_made)


def list_accused(report: Report) -> list[Requirement]:
    """Requirements that do not pass, and are not open."""
    return [r for r in report.requirements if r.verdict not in GOOD]


def list_named(report: Report, shown: Requirement | None) -> Iterator[Named]:
    """What a report says of the cause, the most telling first, each text once."""
    found = [
        Named(Naming.CAUSE if number < len(entry.causes) else Naming.DEVIATION, text)
        for entry in report.formats for number, text in enumerate(entry.deviations)
    ]  # fmt: skip
    # What is open may still be named: by which rounding, whose bits.
    found += [Named(Naming.NOTE, r.note) for r in report.requirements if r.failing and r.verdict is not Verdict.ERROR]
    if shown is not None and shown.first is not None:
        found += [Named(Naming.STEP, step) for step in shown.first.steps]
    if shown is not None and list_accused(report) == [shown]:
        found.append(Named(Naming.REQUIREMENT, shown.text))
    first = {one.text: one for one in reversed(found) if one.text}
    return (one for one in found if first.get(one.text) is one)


def show_smallest(requirement: Requirement | None) -> dict[str, Any] | None:
    """The requirement with its smallest failing input, as a result holds it; None: there is none.

    Without what only other commands read; long texts, such as all numbers of a call, are cut.
    """
    if requirement is None or requirement.first is None:
        return None
    first = requirement.first
    shown = {
        "case": first.case, "given": _cut(first.given), "expected": _cut(first.expected), "returned": _cut(first.returned), "steps": first.steps[:6],
        "also": first.also[:6],
    }  # fmt: skip
    return {
        "id": requirement.id, "level": requirement.level, "text": requirement.text, "verdict": requirement.verdict.value, "cases": requirement.cases,
        "failing": requirement.failing, "note": requirement.note, "first": shown,
    }  # fmt: skip


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner) for key, inner in value.items()}
    return value if not isinstance(value, str) or len(value) <= LONGEST else value[:LONGEST] + "…"
