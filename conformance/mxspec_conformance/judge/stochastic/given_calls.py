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
from mxspec_conformance.judge.invariance.history import Drawn, Twin, Verb, Workload, judge_history
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
#: numbers; one row, a long one, and long rows. And in small ones.
LARGE, FURTHER, SMALL_ROWS, ACROSS = (255, 512), ((2000, 64), (520, 512), (1, 64), (1, 4096), (2, 8256)), 12, 4


@dataclass(frozen=True, slots=True)
class Asked:
    """Blocks [n, k] with a word for each number, which the target has answered."""

    x: npt.NDArray[Any]
    words: Words
    scales: Codes
    #: (codes, places) -> which of them are right for the blocks at these places.
    find_right: Callable[[Codes, Places], Flags]
    kwargs: dict[str, Any]


def judge_given_calls(session: TargetSession, fmt: BlockFormat, asked: Asked, told: str, scorecard: Scorecard) -> None:
    """Enter calls of blocks that were answered; told: what the labels say of them."""
    if session.transport == "results-file":  # every call of which is stored
        return
    largest = _find_largest(session, fmt, asked)
    if largest <= Speed.CRAWLING.largest:
        return
    if not selects():
        _judge_large(session, fmt, asked, told, largest, scorecard)
    judge_history(_make_workload(session, fmt, asked, told, scorecard), set(Verb) - {Verb.OTHERS})


def _make_workload(session: TargetSession, fmt: BlockFormat, asked: Asked, told: str, scorecard: Scorecard) -> Workload:
    """Calls of answered blocks, to be looked at for what they do to each other: all of them show their words."""

    def draw(rows: int, number: int) -> Drawn:
        place = draw_places(rows * ACROSS, len(asked.x), 63 + number)
        return Drawn(*_arguments(fmt, asked, place, rows), lambda answer: _find_mistake(fmt, asked, place, answer))

    sizes = {f"{told}: {rows} x {ACROSS * fmt.k}": rows for rows in (SMALL_ROWS, 8 * SMALL_ROWS)}
    return Workload(
        session=session, function="quantize", scorecard=scorecard, draw=draw, chosen_by=(TOPIC, fmt.name), sizes=sizes, quick=sizes,
        list_twins=partial(_list_twins, session), memory=TOPIC, state=TOPIC,
    )  # fmt: skip


def _find_mistake(fmt: BlockFormat, asked: Asked, place: Places, answer: Any) -> str:
    codes, scales = (np.ascontiguousarray(a) for a in answer)
    right = asked.find_right(codes.reshape(-1, fmt.k), place).all(axis=1) & (scales.reshape(-1) == asked.scales[place])
    wrong = f"{int((~right).sum())} of {len(place)} blocks, in {len(answer[0])} rows, are not rounded by their own words"
    return "" if right.all() else f"{wrong}; the first is number {int(np.argmin(right))}"


def _enter(fmt: BlockFormat, asked: Asked, label: str, place: Places, answer: Any, scorecard: Scorecard) -> None:
    """Count one call by its answer."""
    if isinstance(answer, NoAnswer):
        scorecard.count_no_answer(TOPIC, label, answer)
        return
    text = _find_mistake(fmt, asked, place, answer)
    scorecard.count(TOPIC, label, ok=not text, show=partial(call_failure, label, text))


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


def _arguments(fmt: BlockFormat, asked: Asked, place: Places, rows: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    words = asked.words[place].reshape(rows, -1)
    return (asked.x[place].reshape(rows, -1), fmt.name), {"random_bits": words, **asked.kwargs}


def _list_twins(session: TargetSession, drawn: Drawn) -> Iterator[Twin]:
    """The same numbers without words, and numbers and words under another tensor scale."""
    plain = {option: value for option, value in drawn.options.items() if option != "random_bits"}
    if not session.capabilities.stochastic:
        yield "the words", drawn.arguments, plain
    if plain.get("tensor_scale"):
        yield "the tensor scale", drawn.arguments, {**drawn.options, "tensor_scale": plain["tensor_scale"] / 2}


def _find_largest(session: TargetSession, fmt: BlockFormat, asked: Asked) -> int:
    """Numbers of the largest call, by the target's speed and transport."""
    if session.transport in LARGEST_OF:
        return LARGEST_OF[session.transport]
    args, options = _arguments(fmt, asked, draw_places(SMALL_ROWS * ACROSS, len(asked.x), 60), SMALL_ROWS)
    taken = run_once(partial(session.call, "timed", "quantize", *args, **options))
    # Most of one small call may be what any call costs.
    rate = 8 * args[0].size / max(taken, 1e-9) if isinstance(taken, float) else np.inf
    return next(speed for speed in Speed if rate >= speed.rate).largest
