"""Affine functions in other memory, in larger calls, and after other calls: a group's answer depends on the group alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.invariance.states import ROUNDS, THREADS
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import ARRANGEMENTS
from mxspec_conformance.targets.sessions import TargetSession

Values = npt.NDArray[Any]
Arguments = tuple[Values, ...]

#: Rows of a large call.
_ROWS = 257
#: Rows of a call that is made again and again.
_FEW = 4


def judge_calls(
    session: TargetSession, function: str, name: str, arguments: Arguments, answer: Any, scorecard: Scorecard
) -> None:
    """Enter calls of a function with rows that it has answered; answer: what it returned for them."""
    wanted = _parts(answer)
    rows = len(arguments[0])
    many = np.arange(_ROWS) % rows
    _enter(
        scorecard,
        "call-size",
        f"{_ROWS} rows",
        session,
        function,
        (*(a[many] for a in arguments), name),
        [w[many] for w in wanted],
    )
    if session.transport == "results-file":
        return
    for arrangement in ARRANGEMENTS[1:-2]:
        asked = ("arranged", arrangement, function, *arguments, name)
        _enter(scorecard, "memory", arrangement, session, "", asked, wanted)
    turned = tuple(a[::-1].copy() for a in arguments)
    found = run_once(partial(session.call, "probe", function, (*arguments, name), (*turned, name)))
    if not isinstance(found, NoAnswer):
        wrote, changed, again = found
        _count(scorecard, "memory", "the input", function, ok=not wrote, text="the call wrote into its input")
        text = "a second call changed what the first had returned"
        _count(scorecard, "memory", "the answer", function, ok=not changed, text=text)
        same = _are_alike(_parts(again), wanted)
        _count(
            scorecard,
            "state",
            "after another call",
            function,
            ok=same,
            text="the same call, after another one, has another answer",
        )
    if session.transport in LOCAL:
        few = tuple(a[:_FEW] for a in arguments)
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((*(np.roll(a, turn, axis=0) for a in few), name), {}) for turn in range(THREADS)
        ]
        found = run_once(partial(session.call, "threads", ROUNDS // 8, function, calls))
        if not isinstance(found, NoAnswer):
            wrong, made = found
            text = f"{wrong} of {made} calls returned other bits when threads called at once"
            _count(scorecard, "state", f"{THREADS} threads", function, ok=not wrong, text=text)


def _parts(answer: Any) -> list[Values]:
    return list(answer) if isinstance(answer, tuple) else [answer]


def _enter(
    scorecard: Scorecard, topic: str, label: str, session: TargetSession, function: str, asked: Arguments | tuple[Any, ...],
    wanted: Sequence[Values],
) -> None:  # fmt: skip
    """One call, and its answer beside the wanted one."""
    before = (function,) if function else ()
    answer = run_once(partial(session.call, *before, *asked))
    if isinstance(answer, NoAnswer):
        scorecard.count_no_answer(topic, label, answer)
        return
    text = "the rows have other answers than in a small, contiguous call"
    _count(scorecard, topic, label, function, ok=_are_alike(_parts(answer), wanted), text=text)


def _count(scorecard: Scorecard, topic: str, label: str, function: str, *, ok: bool, text: str) -> None:
    failure = Failure(case=label, given={"call": label}, expected={}, returned={}, steps=[text])
    scorecard.count(topic, label, ok=ok, show=lambda: failure)


def _are_alike(found: Sequence[Values], wanted: Sequence[Values]) -> bool:
    """Whether arrays are the same; every NaN is alike, and so are the zeros of both signs."""
    for a, b in zip(found, wanted, strict=True):
        one, other = (np.asarray(x, np.float32) for x in (a, b))
        if one.shape != other.shape or not ((one == other) | (np.isnan(one) & np.isnan(other))).all():
            return False
    return True
