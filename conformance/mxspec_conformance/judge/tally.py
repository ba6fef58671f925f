"""Counting: cases and failures for each requirement, then verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from mxspec_conformance.counterexample.evidence import show_no_answer
from mxspec_conformance.judge.explanation import DEVIATING, Explanation
from mxspec_conformance.judge.wanted import EVERYTHING, Wanted
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.capabilities import DENSE, UNALIGNED
from mxspec_conformance.targets.errors import FailureKind
from mxspec_vectors.topics import TOPICS, Level, topic_level, topic_text

#: Makes the description of a failing case; only of the one that is shown.
Show = Callable[[], Failure]


@dataclass(slots=True)
class Tally:
    """One requirement while it is being judged."""

    operation: str
    format: str
    topic: str
    cases: set[str] = field(default_factory=set)
    failing: dict[str, None] = field(default_factory=dict)
    no_answers: dict[str, NoAnswer] = field(default_factory=dict)
    #: Failing case -> what would have returned the same bits.
    equals: dict[str, frozenset[Explanation]] = field(default_factory=dict)
    #: Failing case -> how its inputs lay in memory, where that is what it is about.
    views: dict[str, str] = field(default_factory=dict)
    #: Failing cases that break only what is recommended, whatever the level of the topic.
    milder: set[str] = field(default_factory=set)
    #: Case -> the vector file's name of it, where the label says more: a dtype, a rounding, a scale byte.
    origins: dict[str, str] = field(default_factory=dict)
    #: Describes the first failing case, and the first that has no answer.
    show: Show | None = None
    show_first: Show | None = None
    #: Describes the first that has none and was not refused.
    show_defect: Show | None = None

    @property
    def id(self) -> str:
        """operation/format/topic."""
        return f"{self.operation}/{self.format}/{self.topic}"


class Scorecard:
    """All tallies of one run of one format."""

    def __init__(self, operation: str, fmt: str, wanted: Wanted = EVERYTHING) -> None:
        self.operation, self.format, self.wanted = operation, fmt, wanted
        self.tallies: dict[str, Tally] = {}

    def wants(self, *topics: str) -> bool:
        """Whether one of these topics is asked for: calls that serve no other one need not be made."""
        return self.wanted.any_of(self.operation, self.format, topics)

    def tally(self, topic: str) -> Tally:
        """The tally of a topic."""
        if topic not in TOPICS:
            raise ValueError(f"{topic!r} is not a topic; known are {', '.join(TOPICS)}")
        if topic not in self.tallies:
            self.tallies[topic] = Tally(self.operation, self.format, topic)
        return self.tallies[topic]

    def count(
        self, topic: str, case: str, *, ok: bool, equals: Iterable[Explanation] = (), origin: str | None = None,
        show: Show | None = None, milder: bool = False, view: str = "",
    ) -> None:  # fmt: skip
        """Enter one case of one topic.

        equals: what would have returned the same, where it is not ok.
        origin: the vector file's name of the case, where the label says more.
        show: describes it, where it is not ok.
        milder: where it is not ok, it breaks only what is recommended, or of what no text defines, nothing.
        view: how its inputs lay in memory: a name of `ARRANGEMENTS`, with `@n` behind it where only the n-th input did.
        """
        tally = self.tally(topic)
        tally.cases.add(case)
        if origin is not None:
            tally.origins[case] = origin
        if not ok:
            named = frozenset(equals)
            tally.show = tally.show or show
            tally.failing[case] = None
            tally.views[case] = view.partition("@")[0]
            (tally.milder.add if milder else tally.milder.discard)(case)
            tally.equals[case] = tally.equals.get(case, named) & named

    def count_no_answer(
        self, topic: str, case: str, no_answer: NoAnswer, *, origin: str | None = None,
        given: Callable[[], dict[str, Any]] | None = None,
    ) -> None:  # fmt: skip
        """Enter a case that has no answer; given: describes its input. It fails where the reason has a topic of its own."""

        def show() -> Failure:
            return show_no_answer(case, no_answer, {} if given is None else given())

        if no_answer.topic:
            self.count(no_answer.topic, case, ok=False, origin=origin, show=show)
            return
        tally = self.tally(topic)
        tally.cases.add(case)
        if origin is not None:
            tally.origins[case] = origin
        tally.no_answers[case] = no_answer
        if no_answer.given_up or no_answer.is_unsupported:
            return
        tally.show_first = tally.show_first or show
        if not no_answer.is_refusal:
            tally.show_defect = tally.show_defect or show


def common_explanation(
    tallies: Iterable[Tally], order: Callable[[Explanation], tuple[int, ...]], excluded: Callable[[Explanation], bool] = lambda _: False
) -> Explanation | None:
    """What explains every failing case of the most requirements; None if nothing explains all cases of one.

    order: a key by which equally good explanations are ranked.
    excluded: what is out of question.
    """
    explained: dict[Explanation, int] = {}
    for tally in tallies:
        if tally.failing:
            for explanation in frozenset.intersection(*tally.equals.values()):
                if not excluded(explanation):
                    explained[explanation] = explained.get(explanation, 0) + 1
    if not explained:
        return None
    best = max(explained.values())
    # What agrees everywhere is named even where something else explains as many requirements by chance.
    return min(explained, key=lambda e: (best - explained[e], *order(e), *e.order))


def _describe_views(views: Collection[str]) -> str:
    """What wrong cases have in common of how their inputs lay in memory; empty: nothing."""
    if all(view and view not in DENSE for view in views):
        return "only inputs are wrong whose numbers do not lie one behind the other in memory"
    return "only inputs are wrong whose address is no multiple of 16 bytes" if all(view in UNALIGNED for view in views) else ""


#: Topics about inputs that a target may refuse, whatever its element format could hold.
REFUSABLE = ("nan", "inf", "negative-zero")
#: Failures that nothing leaves open: the process died, hung, or broke the protocol.
LOST = (FailureKind.CRASH, FailureKind.TIMEOUT, FailureKind.GARBAGE)
#: Topics about calls that a target may refuse: a grid, an index or an address ends somewhere, and it says so.
LIMITED = ("call-size", "memory")


def judge_tally(
    tally: Tally,
    explanation: Explanation | None,
    first: Callable[[Tally], Failure | None],
    *,
    described: bool = False,
    may_refuse: bool = True,
) -> Requirement:
    """The requirement's verdict.

    explanation: what explains this format's failures, if anything does.
    first: describes the smallest failing case.
    described: whether the judged profile describes a stack, so that nothing of it is open.
    may_refuse: whether an exception for NaN or Inf is an answer that is left open.
    """
    level = topic_level(tally.topic, tally.operation, tally.format, described=described)
    if tally.failing and tally.milder.issuperset(tally.failing) and not described:
        level = max(level, Level.SHOULD if level is Level.MUST else Level.OPEN, key=lambda one: one.rank)
    requirement = Requirement(
        id=tally.id,
        level=level.value,
        text=topic_text(tally.topic, tally.operation),
        verdict=Verdict.PASS,
        cases=len(tally.cases),
        failing=len(tally.failing) + len(tally.no_answers),
    )
    no_answers = {c: n for c, n in tally.no_answers.items() if not n.is_unsupported}
    refused = len(tally.no_answers) - len(no_answers)
    requirement.cases -= refused
    requirement.failing -= refused
    requirement.failing_cases = [*tally.failing, *no_answers][:20]
    if not requirement.cases:
        requirement.verdict = Verdict.UNSUPPORTED
        requirement.note = next(iter(tally.no_answers.values())).message if tally.no_answers else "no case applies"
        return requirement
    refuses = tally.topic in LIMITED or (tally.topic in REFUSABLE and may_refuse)
    errors = [n for n in no_answers.values() if not (refuses and n.is_refusal)]
    if errors:
        if any(n.kind in LOST for n in errors):  # whatever an input means, its call ends
            requirement.level = min(level, Level.CONTRACT, key=lambda one: one.rank).value
        timed_out = any(n.kind is FailureKind.TIMEOUT for n in errors)
        requirement.verdict = Verdict.TIMEOUT if timed_out else Verdict.ERROR
        shown = [n for n in errors if not n.given_up] or errors
        requirement.note = f"{len(errors)} of {requirement.cases} cases: {shown[0].message}"
        # Beside what may be refused, the code that failed is what there is to see.
        show = (tally.show_defect if refuses else None) or tally.show_first
        requirement.first = show() if show is not None else None
    elif tally.failing:
        equal = explanation is not None and all(explanation in e for e in tally.equals.values())
        # A variant of a profile, or a rounding mode, names what is wrong; only another profile makes it a deviation.
        named = equal and explanation is not None and explanation.cause in DEVIATING
        requirement.verdict = Verdict.DEVIATION if named else Verdict.FAIL
        requirement.note = f"as {explanation.text}" if equal and explanation is not None else ""
        requirement.note = requirement.note or _describe_views(set(tally.views.values()))
        requirement.explained_by = explanation.name if named and explanation is not None else ""
        requirement.first = first(tally)
        if level is Level.OPEN:
            requirement.verdict = Verdict.OPEN
    elif no_answers:
        requirement.verdict = Verdict.OPEN
        requirement.first = tally.show_first() if tally.show_first is not None else None
        requirement.note = f"refused in {len(no_answers)} of {requirement.cases} cases: {next(iter(no_answers.values())).message}"
    if not_asked := sum(n.kind is FailureKind.NOT_ASKED for n in tally.no_answers.values()):
        more = f"{not_asked} more {'case was' if not_asked == 1 else 'cases were'} not asked of this version"
        requirement.note = f"{requirement.note}; {more}" if requirement.note else more
    return requirement
