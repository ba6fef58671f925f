"""The search for what became of a tensor: hypotheses are ranked on a sample, and the best are counted on all elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mxspec_conformance.lint.against.case import Case
from mxspec_conformance.lint.against.counting import Counting
from mxspec_conformance.lint.against.ranking import (
    Candidate,
    name_likely,
    rank_between,
    rank_given,
    rank_others,
    rank_own,
)
from mxspec_conformance.lint.hypotheses import Agreement, Explanation, Hypothesis

#: Hypotheses of the sample that are counted on all elements before the search goes on to other kinds of them.
_COUNTED = 6


def explain(case: Case) -> Explanation:
    """What became of a tensor: what is stored if that explains it, else the best hypothesis that explains more."""
    sample = case.sample()
    x = case.originals.read(case.original, iter(sample.runs), case.group.form.format.k)
    counting = Counting(case)
    counted: dict[Hypothesis, Agreement] = {}

    def count(hypothesis: Hypothesis) -> Agreement:
        if hypothesis not in counted:
            counted[hypothesis] = counting.count(hypothesis)
        return counted[hypothesis]

    def result(hypothesis: Hypothesis) -> Explanation:
        plain = max((a for h, a in counted.items() if not h.departures), key=lambda a: a.agreeing)
        return Explanation(case.group.base, case.original.name, hypothesis, count(hypothesis), plain)

    def settle(found: Sequence[Candidate], most: int = _COUNTED) -> Explanation | None:
        """The first of the candidates that explains every element; only those are counted that do so on the sample."""
        whole = [c for c in found if c.agreeing == c.elements]
        for candidate in sorted(whole, key=lambda c: c.rank)[:most]:
            if count(candidate.hypothesis).complete:
                return result(candidate.hypothesis)
        return None

    own = rank_own(case, sample, x)
    plain = sorted((c for c in own if not c.hypothesis.departures), key=lambda c: c.rank)
    count(plain[0].hypothesis)
    if done := settle(plain, most=len(plain)):
        return done
    given = list(rank_given(case, sample, x))
    straight = sorted((c for c in given if not c.hypothesis.departures), key=lambda c: c.rank)
    if done := settle(straight):
        return done
    steps: tuple[Callable[[], Iterable[Candidate]], ...] = (
        lambda: (c for c in own if c.hypothesis.departures),
        lambda: rank_between(case, sample, x, own),
        lambda: rank_others(case, name_likely(plain) if counted[plain[0].hypothesis].majority else None),
        lambda: (c for c in given if c.hypothesis.departures),
    )
    best: list[Candidate] = []
    for step in steps:
        new = sorted(step(), key=lambda c: c.rank)
        if done := settle(new):
            return done
        best += new[:1]
    for candidate in best:
        count(candidate.hypothesis)
    if straight:
        count(straight[0].hypothesis)
    best_plain = max((h for h in counted if not h.departures), key=lambda h: counted[h].agreeing)
    best_other = max((h for h in counted if h.departures), key=lambda h: counted[h].agreeing, default=best_plain)
    if counted[best_other].majority and not counted[best_plain].majority:
        return result(best_other)
    return result(best_plain)
