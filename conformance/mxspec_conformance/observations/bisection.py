"""Calls in batches: one that fails is halved until the guilty items stand alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mxspec_conformance.targets.errors import REFUSALS, CallError, FailureKind
from mxspec_conformance.targets.sessions import FAILURE_WORDS
from mxspec_conformance.targets.texts import plain_text

T = TypeVar("T")

#: After this many time-outs, or crashes in a row, the rest of a batch is given up: each costs up to a minute, or a new
#: process. A batch of a thousand cases is halved ten times before the first guilty one stands alone.
MAX_IN_BATCH = {FailureKind.TIMEOUT: 3, FailureKind.CRASH: 16, FailureKind.GARBAGE: 16}
#: What no call may end in, whatever its parts are answered with afterwards.
_NO_REFUSALS = (FailureKind.CRASH, FailureKind.GARBAGE)
#: What a target may do with every call: a few items are then asked alone before all are.
_ASKED = (*REFUSALS, FailureKind.BAD_RETURN)
#: What a call is that is not offered.
_NOT_OFFERED = (FailureKind.UNSUPPORTED, FailureKind.MISSING)
#: Items that are asked alone where a batch is not offered, or fails.
_PROBED = 8


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why a case has no answer."""

    kind: FailureKind
    message: str
    detail: str = ""
    #: Cases of the smallest call that failed, where none stood alone; 0: this case alone.
    among: int = 0
    #: Whether the case was not asked, as too many before it had failed.
    given_up: bool = False
    #: Whether the target's code failed, where it did not refuse.
    is_defect: bool = False
    #: Whether nothing was called, as the function does not take what the case needs.
    untried: bool = False
    #: The call that failed, in words.
    call: str = ""
    #: The topic under which it counts, whatever the case is about; "": that of the case.
    topic: str = ""

    @property
    def is_refusal(self) -> bool:
        """Whether the target says no to the call: it raised, and not because its code failed."""
        return self.kind in REFUSALS and not self.is_defect

    @property
    def is_unsupported(self) -> bool:
        """Whether the target says that it cannot do this, or was never asked, which is no failure."""
        return self.kind in (FailureKind.UNSUPPORTED, FailureKind.NOT_ASKED)

    @property
    def is_declined(self) -> bool:
        """Whether the target was called, and says that it cannot do this."""
        return self.kind is FailureKind.UNSUPPORTED and not self.untried


def unsupported(message: str) -> NoAnswer:
    """What the target does not offer."""
    return NoAnswer(FailureKind.UNSUPPORTED, message, untried=True)


def run_bisected(
    items: Sequence[T], call: Callable[[Sequence[T]], Sequence[Any]], *, failures: Counter[FailureKind] | None = None
) -> list[Any]:
    """One answer or `NoAnswer` for each item; a batch that fails is halved until the guilty items stand alone.

    So is a batch that the target does not offer, or one item that it does not take would hide what it returns for the others;
    not where none of a few items alone is offered either, or where each of them fails in the words of the batch.
    """
    return _ask_halving(items, call, Counter[FailureKind]() if failures is None else failures, whole=True)


def _ask_halving(
    items: Sequence[T], call: Callable[[Sequence[T]], Sequence[Any]], counter: Counter[FailureKind], *, whole: bool
) -> list[Any]:
    """whole: these are all items, and no part of a batch that failed."""
    if not items:
        return []
    for kind, limit in MAX_IN_BATCH.items():
        if counter[kind] >= limit:
            return [NoAnswer(kind, f"given up after {limit} {FAILURE_WORDS[kind]}", given_up=True)] * len(items)
    try:
        answers = list(call(items))
    except CallError as failure:
        counter[failure.kind] += 1
        alone = len(items) == 1 or failure.final
        shown = failure if alone else _find_same(failure, items, call) if whole and failure.kind in _ASKED else None
        if shown is not None:
            among = 0 if len(items) == 1 or shown is not failure else len(items)
            return [NoAnswer(shown.kind, str(shown), shown.detail, among, is_defect=shown.is_defect, call=shown.call)] * len(items)
        half = len(items) // 2
        found = _ask_halving(items[:half], call, counter, whole=False)
        found += _ask_halving(items[half:], call, counter, whole=False)
        given_up = isinstance(found[0], NoAnswer) and all(isinstance(a, NoAnswer) and a.given_up for a in found)
        answered = failure.kind in _NO_REFUSALS and not any(isinstance(a, NoAnswer) for a in found)
        if given_up or answered:
            # Given up before any stood alone, or parts that a new process answered: this call is the smallest one known to fail.
            found[0] = NoAnswer(failure.kind, str(failure), failure.detail, len(items), call=failure.call)
        return found
    counter[FailureKind.CRASH] = counter[FailureKind.GARBAGE] = 0
    return answers


def _find_same(failure: CallError, items: Sequence[T], call: Callable[[Sequence[T]], Sequence[Any]]) -> CallError | None:
    """What to say of all items: where a few alone are not offered either, of which a file of results that lacks them says nothing; or where
    they, and neighbours, as numbers may be positive and negative by turns, fail in the words of all together."""
    declined, step = failure.kind is FailureKind.UNSUPPORTED, -(-len(items) // _PROBED)
    first = failure if declined else None
    for item in (*items[::step], *(() if declined else items[1::step])):
        try:
            call([item])
        except CallError as one:
            if one.kind in _NOT_OFFERED if declined else (one.kind, plain_text(str(one))) == (failure.kind, plain_text(str(failure))):
                first = first or one
                continue
        return None
    return first


def run_once(call: Callable[[], Any]) -> Any:
    """The answer of one call, or `NoAnswer`."""
    return run_bisected([0], lambda _: [call()])[0]
