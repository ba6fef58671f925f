"""Counting: cases and failures for each requirement, then verdicts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field

from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_vectors.topics import TOPICS, topic_level, topic_text


@dataclass(slots=True)
class Tally:
    """One requirement while it is being judged."""

    operation: str
    format: str
    topic: str
    cases: set[str] = field(default_factory=set)
    failing: dict[str, None] = field(default_factory=dict)
    no_answers: dict[str, NoAnswer] = field(default_factory=dict)
    #: Failing case -> profiles that would have returned the same bits.
    equals: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """operation/format/topic."""
        return f"{self.operation}/{self.format}/{self.topic}"


class Scorecard:
    """All tallies of one run of one format."""

    def __init__(self, operation: str, fmt: str) -> None:
        self.operation, self.format = operation, fmt
        self.tallies: dict[str, Tally] = {}

    def tally(self, topic: str) -> Tally:
        """The tally of a topic."""
        if topic not in TOPICS:
            raise ValueError(f"{topic!r} is not a topic; known are {', '.join(TOPICS)}")
        if topic not in self.tallies:
            self.tallies[topic] = Tally(self.operation, self.format, topic)
        return self.tallies[topic]

    def count(self, topic: str, case: str, *, ok: bool, equals: Iterable[str] = ()) -> None:
        """Enter one case of one topic."""
        tally = self.tally(topic)
        tally.cases.add(case)
        if not ok:
            named = frozenset(equals)
            tally.failing[case] = None
            tally.equals[case] = tally.equals.get(case, named) & named

    def count_no_answer(self, topic: str, case: str, no_answer: NoAnswer) -> None:
        """Enter a case that has no answer."""
        tally = self.tally(topic)
        tally.cases.add(case)
        tally.no_answers[case] = no_answer


def common_profile(
    tallies: Iterable[Tally], order: Callable[[str], tuple[int, ...]], excluded: Container[str] = ()
) -> str | None:
    """The profile that explains every failing case of the most requirements; None if it explains none.

    order: a key by which equally good profiles are ranked.
    excluded: profiles that are out of question.
    """
    explained: dict[str, int] = {}
    for tally in tallies:
        if tally.failing:
            for profile in frozenset.intersection(*tally.equals.values()):
                if profile in excluded:
                    continue
                explained[profile] = explained.get(profile, 0) + 1
    if not explained:
        return None
    best = max(explained.values())
    # A profile that agrees everywhere is named even where another explains as many requirements by chance.
    return min(explained, key=lambda p: (best - explained[p], *order(p), p))


def judge_tally(tally: Tally, deviation: str | None, first: Callable[[Tally], Failure | None]) -> Requirement:
    """The requirement's verdict.

    deviation: the profile that explains this format's failures, if there is one.
    first: draws the smallest failing case.
    """
    requirement = Requirement(
        id=tally.id,
        level=topic_level(tally.topic, tally.operation, tally.format).value,
        text=topic_text(tally.topic, tally.operation),
        verdict=Verdict.PASS,
        cases=len(tally.cases),
        failing=len(tally.failing) + len(tally.no_answers),
    )
    no_answers = {c: t for c, t in tally.no_answers.items() if t.kind != "unsupported"}
    refused = len(tally.no_answers) - len(no_answers)
    requirement.cases -= refused
    requirement.failing -= refused
    requirement.failing_cases = [*tally.failing, *no_answers][:20]
    if not requirement.cases:
        requirement.verdict = Verdict.UNSUPPORTED
        requirement.note = next(iter(tally.no_answers.values())).message if tally.no_answers else "no case applies"
        return requirement
    if no_answers:
        first_no_answer = next(iter(no_answers.values()))
        timed_out = any(t.kind == "timeout" for t in no_answers.values())
        requirement.verdict = Verdict.TIMEOUT if timed_out else Verdict.ERROR
        requirement.note = f"{len(no_answers)} of {requirement.cases} cases: {first_no_answer.message}"
        return requirement
    if tally.failing:
        equal = deviation is not None and all(deviation in e for e in tally.equals.values())
        # A variant ("mx-floor with elements rounded ...") names what is wrong; only a profile makes it a deviation.
        named = equal and deviation is not None and " with " not in deviation and not deviation.startswith("rounding ")
        requirement.verdict = Verdict.DEVIATION if named else Verdict.FAIL
        requirement.note = f"as {deviation}" if equal else ""
        requirement.first = first(tally)
    return requirement
