"""Calls with random bits that are large, follow another one, or come at once: each word stays with its number there, too.

`quantize` may take another way with words than without, so that what the call matrix asks without them says nothing of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.history import Drawn, Verb, Workload, judge_history
from mxspec_conformance.judge.invariance.pace import LARGEST_OF, Speed
from mxspec_conformance.judge.invariance.pools import Places, draw_places
from mxspec_conformance.judge.invariance.reach import REFUSALS
from mxspec_conformance.judge.stochastic.words import Flags, Words
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.observations.selection import selects
from mxspec_conformance.targets.sessions import TargetSession

Codes = npt.NDArray[np.uint8]

TOPIC = "random-bits"
#: Rows and numbers of a row in large calls: more numbers than 16 bits count; for fast targets thousands of rows, and more than 2^18
#: numbers. And in small ones.
LARGE, FURTHER, SMALL_ROWS, ACROSS = (255, 512), ((2000, 64), (520, 512)), 12, 4


@dataclass(frozen=True, slots=True)
class Asked:
    """Blocks [n, k] with a word for each number, which the target has answered."""

    x: npt.NDArray[Any]
    words: Words
    scales: Codes
    #: (codes, places) -> which of them are right for the blocks at these places.
    find_right: Callable[[Codes, Places], Flags]
    #: How many places on the same numbers lie with other words.
    repeat: int
    kwargs: dict[str, Any]


def judge_given_calls(session: TargetSession, fmt: BlockFormat, asked: Asked, told: str, scorecard: Scorecard) -> None:
    """Enter calls of blocks that were answered; told: what the labels say of them."""
    if session.transport == "results-file":  # every call of which is stored
        return
    largest = _find_largest(session, fmt, asked)
    if largest <= Speed.CRAWLING.largest:
        return
    for label, place, call in _list_calls(session, fmt, asked):
        _enter(fmt, asked, f"{told}: {label}", place, run_once(call), scorecard)
    if not selects():
        _judge_large(session, fmt, asked, told, largest, scorecard)
    judge_history(_make_workload(session, fmt, asked, told, scorecard), (Verb.PROBE, Verb.HOLD, Verb.REPEAT, Verb.THREADS))


def _make_workload(session: TargetSession, fmt: BlockFormat, asked: Asked, told: str, scorecard: Scorecard) -> Workload:
    """Calls of answered blocks, to be looked at for what they do to each other: all of them show their words."""

    def draw(rows: int, number: int) -> Drawn:
        place = draw_places(rows * ACROSS, len(asked.x), 63 + number)
        return Drawn(*_arguments(fmt, asked, place, rows))

    return Workload(
        session=session, function="quantize", scorecard=scorecard, draw=draw, chosen_by=(TOPIC, fmt.name),
        sizes={f"{told}: {rows} x {ACROSS * fmt.k}": rows for rows in (SMALL_ROWS, 8 * SMALL_ROWS)}, memory=TOPIC, state=TOPIC,
    )  # fmt: skip


def _enter(fmt: BlockFormat, asked: Asked, label: str, place: Places, answer: Any, scorecard: Scorecard) -> None:
    """Count one call by its answer."""
    if isinstance(answer, NoAnswer):
        scorecard.count_no_answer(TOPIC, label, answer)
        return
    codes, scales = (np.ascontiguousarray(a) for a in answer)
    right = asked.find_right(codes.reshape(-1, fmt.k), place).all(axis=1) & (scales.reshape(-1) == asked.scales[place])
    text = f"{int((~right).sum())} of {len(place)} blocks, in {len(answer[0])} rows, are not rounded by their own words; the first is number {int(np.argmin(right))}"
    _settle(scorecard, label, ok=bool(right.all()), text=text)


def _judge_large(session: TargetSession, fmt: BlockFormat, asked: Asked, told: str, largest: int, scorecard: Scorecard) -> None:
    """Large calls; the first of them twice, as a kernel may keep what it made for a shape."""
    first = min(LARGE[0], largest // LARGE[1]), LARGE[1]
    further = [shape for shape in FURTHER if shape[0] * shape[1] <= largest]
    for number, (rows, columns) in enumerate((first, *further)):
        place = draw_places(rows * columns // fmt.k, len(asked.x), 62 if not number else 70 + number)
        args, options = _arguments(fmt, asked, place, rows)
        for again in ("", ", again")[: 1 if number else 2]:
            answer = run_once(partial(session.call, "quantize", *args, **options))
            # A target ends somewhere, and says so; what was answered once has no such end.
            limited = not again and isinstance(answer, NoAnswer) and answer.kind in REFUSALS and not answer.stumbled
            _enter(fmt, asked, f"{told}: {rows} x {columns} numbers{again}", place, unsupported(answer.message) if limited else answer, scorecard)
            if limited:
                break


def _settle(scorecard: Scorecard, label: str, *, ok: bool, text: str) -> None:
    scorecard.count(TOPIC, label, ok=ok, show=partial(call_failure, label, text))


def _arguments(fmt: BlockFormat, asked: Asked, place: Places, rows: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    words = asked.words[place].reshape(rows, -1)
    return (asked.x[place].reshape(rows, -1), fmt.name), {"random_bits": words, **asked.kwargs}


def _list_calls(session: TargetSession, fmt: BlockFormat, asked: Asked) -> Iterator[tuple[str, Places, Callable[[], Any]]]:
    """(label, blocks, call) of small calls after others."""
    count, rows = len(asked.x), SMALL_ROWS
    # Each is about other blocks: what is kept by too little is not kept yet.
    places = [draw_places(rows * ACROSS, count, 66 + n) for n in range(4)]
    given = [_arguments(fmt, asked, place, rows) for place in places]

    def after(first: Callable[[], Any], number: int) -> Any:
        run_once(first)  # what it returns is judged elsewhere
        args, options = given[number]
        return session.call("quantize", *args, **options)

    others, other_options = _arguments(fmt, asked, (places[0] + asked.repeat) % count, rows)
    before = partial(session.call, "quantize", *others, **other_options)
    yield "after the same numbers with other words", places[0], partial(after, before, 0)
    args, options = given[1]
    numbers = (np.ascontiguousarray(args[0][::-1]), *args[1:])
    reused = partial(session.call, "reused", "quantize", numbers, args, **options)
    yield "other numbers with the same words where these lay", places[1], reused
    args, options = given[2]
    if not session.capabilities.stochastic:
        nearest = partial(session.call, "quantize", *args, **asked.kwargs)
        yield "after the same numbers, rounded to nearest", places[2], partial(after, nearest, 2)
    if asked.kwargs.get("tensor_scale"):
        other = partial(session.call, "quantize", *given[3][0], **{**given[3][1], "tensor_scale": asked.kwargs["tensor_scale"] / 2})
        yield "after the same numbers and words under another tensor scale", places[3], partial(after, other, 3)


def _find_largest(session: TargetSession, fmt: BlockFormat, asked: Asked) -> int:
    """Numbers of the largest call, by the target's speed and transport."""
    if session.transport in LARGEST_OF:
        return LARGEST_OF[session.transport]
    args, options = _arguments(fmt, asked, draw_places(SMALL_ROWS * ACROSS, len(asked.x), 60), SMALL_ROWS)
    taken = run_once(partial(session.call, "timed", "quantize", *args, **options))
    # Most of one small call may be what any call costs.
    rate = 8 * args[0].size / max(taken, 1e-9) if isinstance(taken, float) else np.inf
    return next(speed for speed in Speed if rate >= speed.rate).largest
