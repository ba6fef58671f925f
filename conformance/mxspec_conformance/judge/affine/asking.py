"""Groups laid into matrices, so that a row holds several: whoever takes another group's scale is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.targets.errors import FailureKind

#: Groups in a row.
ABREAST = 3


class HasTopic(Protocol):
    """A case."""

    @property
    def topic(self) -> str:
        """Its topic."""


C = TypeVar("C", bound=HasTopic)
T = TypeVar("T")


def lay_rows(cases: Sequence[T], abreast: int = ABREAST) -> list[list[T]]:
    """Cases in rows of so many; the last row is filled from the start."""
    rows = [list(cases[i : i + abreast]) for i in range(0, len(cases), abreast)]
    if rows:
        rows[-1] += [cases[i % len(cases)] for i in range(abreast - len(rows[-1]))]
    return rows


def ask_rows(cases: Sequence[C], call: Callable[[Sequence[Sequence[C]]], Sequence[Sequence[Any]]], abreast: int = ABREAST) -> list[Any]:
    """One answer or `NoAnswer` for each case; call takes rows of cases and gives rows of answers."""
    failures = Counter[FailureKind]()
    answers: list[Any] = []
    for special in (False, True):
        chosen = [c for c in cases if (c.topic in ("nan", "inf")) == special]
        for row, found in zip(
            (rows := lay_rows(chosen, 1 if special else abreast)), run_bisected(rows, call, failures=failures), strict=True
        ):
            answers += [(c, found if isinstance(found, NoAnswer) else found[i]) for i, c in enumerate(row)]
    known: dict[int, Any] = {}
    for case, answer in answers:
        known.setdefault(id(case), answer)
    return [known[id(c)] for c in cases]
