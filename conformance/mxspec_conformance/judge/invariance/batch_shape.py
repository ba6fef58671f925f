"""Judging that a block's answer does not depend on the shape of the call: the same blocks in rows of several."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.answered import Answered, item_failure
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS, keeps
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession

#: Rows, and blocks in a row: one block, one long row, a few of each, more than one tile of 128 rows and 4 scales,
#: more blocks than a row of threads.
SHAPES = ((1, 1), (1, 67), (5, 3), (130, 9), (2, 300))


def judge_batch_shapes(session: TargetSession, answered: Answered, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter each arrangement of blocks that were answered before; returns the first one that differs, by requirement."""
    first: dict[str, Failure] = {}
    for number, (rows, blocks) in enumerate(SHAPES):
        label = f"{rows} rows of {blocks} blocks"
        if not keeps(CALLS, f"{scorecard.operation}/{scorecard.format}", label):
            continue
        # A stride that is prime to most lengths, so that neighbours differ much.
        place = (number + 37 * np.arange(rows * blocks)) % len(answered.before)
        answer = run_once(partial(_ask, session, answered, place, rows))
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer("call-size", label, answer)
            continue
        wrong = answered.differ(answer, answered.before[place]).any(axis=1)
        scorecard.count("call-size", label, ok=not wrong.any())
        if wrong.any():
            row, block = divmod(int(np.flatnonzero(wrong)[0]), blocks)
            text = f"{int(wrong.sum())} blocks got other bits than in another call; the first is block {block} of row {row}"
            at = int(np.flatnonzero(wrong)[0])
            drawn = item_failure(label, text, answered, int(place[at]), answer[at])
            first.setdefault(scorecard.tally("call-size").id, answered.keep_call(drawn, place, at, answer[at], width=blocks))
    return first


def _ask(session: TargetSession, answered: Answered, place: npt.NDArray[np.intp], rows: int) -> npt.NDArray[Any]:
    answer = session.call(answered.function, *answered.arguments(place, rows=rows), **answered.kwargs)
    return answered.rows(answer)
