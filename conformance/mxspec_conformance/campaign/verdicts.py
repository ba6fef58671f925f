"""From counts to verdicts, for all that campaigns ask: cases here are millions of blocks, lanes and outputs, which have no labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from mxspec_conformance.results.report import GOOD, Failure, Requirement, Verdict
from mxspec_conformance.targets.errors import FailureKind
from mxspec_vectors.topics import Level


@dataclass(slots=True)
class Count:
    """What was counted for one requirement."""

    cases: int = 0
    failing: int = 0
    labels: list[str] = field(default_factory=list)
    note: str = ""
    first: Failure | None = None
    #: The profile or class of additions that explains all that differs.
    explained_by: str = ""
    #: Calls without an answer, their verdict where nothing differs, and the note on them.
    unanswered_cases: int = 0
    unanswered: Verdict | None = None
    no_answer_note: str = ""


def judge_count(name: str, level: Level, text: str, count: Count) -> Requirement:
    """The requirement's verdict: what differs weighs more than calls without an answer."""
    verdict, note = count.unanswered or Verdict.PASS, count.no_answer_note or count.note
    if count.failing:
        verdict = Verdict.DEVIATION if count.explained_by else Verdict.OPEN if level is Level.OPEN else Verdict.FAIL
        note = count.note
    return Requirement(
        id=name, level=level.value, text=text, verdict=verdict, cases=count.cases, failing=count.failing + count.unanswered_cases, note=note,
        failing_cases=count.labels[:20], first=count.first, explained_by=count.explained_by,
    )  # fmt: skip


def judge_no_answers(kinds: Collection[str], *, timeouts: bool = False) -> Verdict:
    """The verdict on calls without an answer; timeouts: whether one that took too long has a verdict of its own."""
    if all(kind == FailureKind.UNSUPPORTED for kind in kinds):
        return Verdict.UNSUPPORTED
    return Verdict.TIMEOUT if timeouts and FailureKind.TIMEOUT in kinds else Verdict.ERROR


def worst_rows(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Of (cases, failing, verdict, level, note) of one topic in several batches, those with the worst kind of verdict."""
    bad = [row for row in rows if Verdict(row[2]) not in GOOD]
    return bad or [row for row in rows if Verdict(row[2]) is Verdict.OPEN] or rows
