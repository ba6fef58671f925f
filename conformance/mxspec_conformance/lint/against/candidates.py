"""Candidates of what became of a tensor, ranked on a sample; the best are counted on all elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mxspec_conformance.lint.hypotheses import AffineHypothesis, Agreement, Explanation, Hypothesis

#: Hypotheses of the sample that are counted on all elements before the search goes on to other kinds of them.
_COUNTED = 6
Flags = npt.NDArray[np.bool_]
H = TypeVar("H", Hypothesis, AffineHypothesis)


@dataclass(frozen=True, slots=True)
class Candidate(Generic[H]):
    """A hypothesis and how many elements of a sample agree."""

    hypothesis: H
    agreeing: int
    #: Elements of the sample.
    elements: int

    @property
    def rank(self) -> tuple[int, int]:
        """Best first when sorted: most elements, then fewest departures."""
        return -self.agreeing, len(self.hypothesis.departures)


def tally(elements: int, runs: Iterable[tuple[int, Flags, Flags]]) -> Agreement:
    """How many of all elements agree. runs: the first element of a run, which agree, and which are zero in original and file."""
    agreeing = silent = 0
    first: int | None = None
    for start, right, zero in runs:
        agreeing += int(right.sum())
        silent += int((zero & right).sum())
        if first is None and not right.all():
            first = start + int((~right).reshape(-1).argmax())
    return Agreement(agreeing, elements, silent, first)


def list_plain(found: Iterable[Candidate[H]]) -> list[Candidate[H]]:
    """The candidates in which nothing is wrong, best first."""
    return sorted((c for c in found if not c.hypothesis.departures), key=lambda c: c.rank)


def _in_turn(
    own: Sequence[Candidate[H]], steps: Sequence[Callable[[], Iterable[Candidate[H]]]], under: Sequence[Candidate[H]]
) -> Iterator[Iterable[Candidate[H]]]:
    yield own
    for step in steps:
        yield step()
    yield under


def choose(
    base: str,
    original: str,
    own: Sequence[Candidate[H]],
    given: Callable[[], Iterable[Candidate[H]]],
    steps: Callable[[Agreement], Sequence[Callable[[], Iterable[Candidate[H]]]]],
    count_all: Callable[[H], Agreement],
) -> Explanation:
    """What is stored if that explains a tensor, else the best hypothesis that explains more.

    own: of every profile, nothing else being wrong or the parts in other orders. given: of codes under the stored scales. steps: how
    the search goes on where nothing of it explains every element, when it is known how much the best profile does. count_all: over
    all elements.
    """
    counted: dict[H, Agreement] = {}

    def count(hypothesis: H) -> Agreement:
        if hypothesis not in counted:
            counted[hypothesis] = count_all(hypothesis)
        return counted[hypothesis]

    def result(hypothesis: H) -> Explanation:
        plain = max((a for h, a in counted.items() if not h.departures), key=lambda a: a.agreeing)
        return Explanation(base, original, hypothesis, count(hypothesis), plain)

    def settle(found: Sequence[Candidate[H]], most: int = _COUNTED) -> Explanation | None:
        """The first of the candidates that explains every element; only those are counted that do so on the sample."""
        whole = [c for c in found if c.agreeing == c.elements]
        for candidate in sorted(whole, key=lambda c: c.rank)[:most]:
            if count(candidate.hypothesis).complete:
                return result(candidate.hypothesis)
        return None

    plain = list_plain(own)
    best_profile: Agreement = count(plain[0].hypothesis)
    if done := settle(plain, most=len(plain)):
        return done
    under = list(given())
    straight = list_plain(under)
    if done := settle(straight):
        return done
    best: list[Candidate[H]] = []
    for found in _in_turn(own, steps(best_profile), under):
        new = sorted((c for c in found if c.hypothesis.departures), key=lambda c: c.rank)
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
