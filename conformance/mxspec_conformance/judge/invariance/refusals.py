"""Judging calls that cannot be answered as they stand: they have to be refused, or answered as if zeros followed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mxspec_conformance.judge.invariance.matrix import Matrix, draw_call, extend_pool
from mxspec_conformance.judge.invariance.pools import Pool
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS, keeps_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.errors import FailureKind

#: What counts as a refusal; a malformed answer is none, nor is a crash.
REFUSALS = (FailureKind.ERROR, FailureKind.UNSUPPORTED)
#: Transports on which a target sees the shapes of what it is given.
SEES_SHAPES = ("python", "python-child")


def judge_ragged_refusal(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Rows that are no whole number of blocks, where nobody asked for padding: refused, or padded; never cut short."""
    pool = next(iter(pools), None)
    if pool is None:
        return
    k = pool.fmt.k
    for rows, whole, end in ((3, 0, k - 1), (3, 1, 1), (3, 1, k // 2), (1, 2, k - 1), (5, 4, k // 2)):
        columns = whole * k + end
        label = f"{rows} x {columns}: no whole number of blocks"
        card = matrix.scorecard
        if not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=whole == 1):
            continue
        place = matrix.draw(pool, rows * (whole + 1))
        x = pool.answered.inputs[0][place].reshape(rows, -1)[:, :columns]
        padded = np.zeros((rows, (whole + 1) * k), x.dtype)
        padded[:, :columns] = x
        alone = run_once(partial(matrix.session.call, "quantize", padded, pool.fmt.name, **pool.answered.kwargs))
        if isinstance(alone, NoAnswer):  # judged elsewhere
            continue
        answer = run_once(
            partial(
                matrix.session.call, "quantize", np.ascontiguousarray(x), pool.fmt.name, **pool.answered.kwargs
            )
        )
        if isinstance(answer, NoAnswer):
            if answer.kind in REFUSALS:
                card.count("refusal", label, ok=True)
            elif answer.kind is FailureKind.BAD_RETURN:
                _fail(matrix, label, f"{answer.message}; refuse such a call, or pad the rows with zeros")
            else:
                card.count_no_answer("refusal", label, answer)
            continue
        whole_blocks = extend_pool(pool, padded.reshape(-1, k), pool.answered.rows(alone))
        places = len(pool) + np.arange(rows * (whole + 1))
        got = pool.answered.rows(answer)
        wrong = whole_blocks.find_wrong(places, got)
        card.count("refusal", label, ok=not wrong.any())
        if wrong.any():
            failure = draw_call(label, whole_blocks, places, got, wrong, rows)
            failure.steps.append("refuse such a call, or answer it as if zeros followed")
            matrix.first.setdefault(card.tally("refusal").id, failure)


def judge_scale_shapes(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Codes with too few scales for them: refused."""
    pool = next(iter(pools), None)
    if pool is None or matrix.session.transport not in SEES_SHAPES or matrix.session.capabilities.scale_layout != "row-major":
        return
    card = matrix.scorecard
    for rows, blocks, fewer_rows, fewer_blocks in ((5, 4, 0, 1), (5, 4, 1, 0), (3, 7, 0, 3)):
        label = f"{rows} x {blocks} blocks with {rows - fewer_rows} x {blocks - fewer_blocks} scales"
        if not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=bool(fewer_rows)):
            continue
        codes, scales, *rest = pool.answered.arguments(matrix.draw(pool, rows * blocks), rows=rows)
        given = np.ascontiguousarray(scales[: rows - fewer_rows, : blocks - fewer_blocks])
        answer: Any = run_once(
            partial(matrix.session.call, "dequantize", codes, given, *rest, **pool.answered.kwargs)
        )
        if not isinstance(answer, NoAnswer) or answer.kind is FailureKind.BAD_RETURN:
            _fail(matrix, label, "values came back for codes without a scale; refuse such a call")
        elif answer.kind in REFUSALS:
            card.count("refusal", label, ok=True)
        else:
            card.count_no_answer("refusal", label, answer)


def _fail(matrix: Matrix, label: str, text: str) -> None:
    card = matrix.scorecard
    card.count("refusal", label, ok=False)
    failure = Failure(case=label, given={"call": label}, expected={}, returned={}, steps=[text])
    matrix.first.setdefault(card.tally("refusal").id, failure)
