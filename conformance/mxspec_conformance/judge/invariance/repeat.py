"""Judging that an answer does not depend on the call: many items, few, the same again, parts of other arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan
from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance.answered import Answered, block_failure, call_failure, item_failure
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS, keeps
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import ARRANGEMENTS
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession

#: Items (blocks, or single numbers) of a call: one, odd numbers, a power of two with both neighbours, many.
COUNTS = (1, 1, 1, 2, 3, 7, 16, 33, 127, 128, 129, 4357)
#: What is asked of one call and its repetition.
PROBES = ("the input afterwards", "an earlier answer", "the same call again")
NAN_LANES = "a NaN in each lane"


def judge_repeats(session: TargetSession, repeat: Answered, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter other calls with items that were answered before; returns the first one that differs, by requirement."""
    first: dict[str, Failure] = {}

    def again(place: npt.NDArray[np.intp], *before: str) -> Callable[[], Any]:
        return partial(session.call, *before, repeat.function, *repeat.arguments(place), **repeat.kwargs)

    if not scorecard.wants("call-size"):
        return first

    def enter(
        label: str, place: npt.NDArray[np.intp], call: Callable[[], Any], *, may_refuse: bool = False, arrangement: str = "contiguous"
    ) -> None:
        if not keeps(CALLS, f"{scorecard.operation}/{scorecard.format}", label):
            return
        answer = run_once(call)
        if isinstance(answer, NoAnswer):
            if not may_refuse:
                scorecard.count_no_answer("call-size", label, answer)
            return
        rows = repeat.rows(answer)
        wrong = repeat.differ(rows, repeat.before[place]).any(axis=1)
        scorecard.count("call-size", label, ok=not wrong.any())
        if wrong.any():
            at = int(np.argmax(wrong))
            text = f"item {at} of {len(place)} got other bits than in another call"
            drawn = item_failure(label, text, repeat, int(place[at]), rows[at])
            first.setdefault(scorecard.tally("call-size").id, repeat.keep_call(drawn, place, at, rows[at], arrangement=arrangement))

    def settle(label: str, ok: bool, text: str) -> None:
        scorecard.count("call-size", label, ok=ok)
        if not ok:
            first.setdefault(scorecard.tally("call-size").id, call_failure(label, text))

    for number, count in enumerate(COUNTS):
        # A stride that is prime to most lengths, so that neighbours differ much; it starts elsewhere each time.
        place = (101 * number + 37 * np.arange(count)) % len(repeat.before)
        enter(f"call {number}, of {count}", place, again(place))
    place = 37 * np.arange(130) % len(repeat.before)
    twice = np.repeat(place, 2)
    enter("each item twice in a row", twice, again(twice))
    for arrangement in ARRANGEMENTS[1:-1]:
        enter(f"inputs in other arrays: {arrangement}", place, again(place, "arranged", arrangement), may_refuse=True, arrangement=arrangement)
    if not any(keeps(CALLS, f"{scorecard.operation}/{scorecard.format}", label) for label in PROBES):
        return first
    pair = repeat.arguments(place), repeat.arguments(place[::-1])
    answer = run_once(partial(session.call, "probe", repeat.function, *pair, **repeat.kwargs))
    if isinstance(answer, NoAnswer):
        scorecard.count_no_answer("call-size", "the same call again", answer)
        return first
    wrote, changed, last = answer
    settle(PROBES[0], not wrote, "the call wrote into its input")
    settle(PROBES[1], not changed, "a later call changed what an earlier one had returned")
    enter(PROBES[2], place, lambda: last)
    # As many items as in the call before, and the same ones.
    enter("the same items in reverse order", place[::-1], again(place[::-1]))
    return first


def judge_nan_lanes(session: TargetSession, fmt: BlockFormat, repeat: Answered, scorecard: Scorecard) -> dict[str, Failure]:
    """A NaN is found in every lane: the block's scale, and the lane's code, are the same wherever it lies.

    Codes under a NaN scale are open, and so is which of its NaN codes an element format gives.
    """
    if not scorecard.wants("position") or not keeps(CALLS, f"quantize/{fmt.name}", NAN_LANES):
        return {}
    x = np.ones((fmt.k, fmt.k), repeat.inputs[0].dtype)
    np.fill_diagonal(x, np.nan)
    try:
        codes, scales = session.call("quantize", x, fmt.name, **repeat.kwargs)
    except CallError:  # refused: judged elsewhere
        return {}
    lanes = codes[np.arange(fmt.k), np.arange(fmt.k)]
    scales = scales.reshape(-1)
    is_nan = flag_nan(fmt.element)
    open_lanes = flag_nan(fmt.scale)[scales] | (is_nan[lanes] & is_nan[lanes[0]])
    wrong = (scales != scales[0]) | ((lanes != lanes[0]) & ~open_lanes)
    scorecard.count("position", NAN_LANES, ok=not wrong.any())
    if not wrong.any():
        return {}
    at = int(np.argmax(wrong))
    text = f"a NaN in lane {at} is treated otherwise than in lane 0"
    answers = np.concatenate([scales.reshape(-1, 1), codes], axis=1)
    # The block with its NaN in lane 0, turned so that the lanes correspond.
    want = np.concatenate([answers[0, :1], np.roll(answers[0, 1:], at)])
    return {scorecard.tally("position").id: block_failure(NAN_LANES, text, x[at], want, answers[at])}
