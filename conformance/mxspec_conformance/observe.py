"""Running a target on cases: batches, bisection of those that fail, and what came back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mxspec_conformance.executors import CallFailure, Executor

T = TypeVar("T")

#: After this many time-outs the rest of a batch is given up: a target that hangs would cost a minute for each case.
MAX_TIMEOUTS = 3


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a case has no answer."""

    kind: str
    message: str
    detail: str = ""


def run_bisected(
    items: Sequence[T], call: Callable[[Sequence[T]], Sequence[Any]], *, timeouts: list[int] | None = None
) -> list[Any]:
    """One answer or `Trouble` for each item; a batch that fails is halved until the guilty items stand alone."""
    counter = [0] if timeouts is None else timeouts
    if not items:
        return []
    if counter[0] >= MAX_TIMEOUTS:
        return [Trouble("timeout", "given up after repeated time-outs")] * len(items)
    try:
        answers = list(call(items))
    except CallFailure as failure:
        if failure.kind == "timeout":
            counter[0] += 1
        if len(items) == 1 or failure.kind == "unsupported":
            return [Trouble(failure.kind, str(failure), failure.detail)] * len(items)
        half = len(items) // 2
        left = run_bisected(items[:half], call, timeouts=counter)
        return left + run_bisected(items[half:], call, timeouts=counter)
    return answers


def requirement_trouble(executor: Executor, function: str) -> str | None:
    """Why a function cannot be judged at all, or None."""
    return None if executor.capabilities.has(function) else f"the target has no {function}"
