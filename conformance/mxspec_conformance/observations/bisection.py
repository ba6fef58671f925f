"""Running a target on cases: batches, bisection of those that fail, and what came back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mxspec_conformance.targets.sessions import WORDS, CallError, TargetSession

T = TypeVar("T")

#: After this many time-outs, or crashes in a row, the rest of a batch is given up: each costs up to a minute, or a new
#: process. A batch of a thousand cases is halved ten times before the first guilty one stands alone.
MAX_IN_BATCH = {"timeout": 3, "crash": 16, "garbage": 16}


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why a case has no answer."""

    kind: str
    message: str
    detail: str = ""


def run_bisected(
    items: Sequence[T], call: Callable[[Sequence[T]], Sequence[Any]], *, failures: Counter[str] | None = None
) -> list[Any]:
    """One answer or `NoAnswer` for each item; a batch that fails is halved until the guilty items stand alone."""
    counter = Counter[str]() if failures is None else failures
    if not items:
        return []
    for kind, limit in MAX_IN_BATCH.items():
        if counter[kind] >= limit:
            return [NoAnswer(kind, f"given up after {limit} {WORDS[kind]}")] * len(items)
    try:
        answers = list(call(items))
    except CallError as failure:
        counter[failure.kind] += 1
        if len(items) == 1 or failure.final or failure.kind == "unsupported":
            return [NoAnswer(failure.kind, str(failure), failure.detail)] * len(items)
        half = len(items) // 2
        left = run_bisected(items[:half], call, failures=counter)
        return left + run_bisected(items[half:], call, failures=counter)
    counter["crash"] = counter["garbage"] = 0
    return answers


def requirement_no_answer(session: TargetSession, function: str) -> str | None:
    """Why a function cannot be judged at all, or None."""
    return None if session.capabilities.has(function) else f"the target has no {function}"
