"""Judging that a block's answer does not depend on the call: the same blocks again, in other numbers and arrangements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.dequantize import TableCase, same_values, turned_table
from mxspec_conformance.judge.invariance.placement import judge_quantize_elsewhere
from mxspec_conformance.judge.quantize import DTYPES, Observed, tensor_argument
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import CALLS, keeps
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession

#: Rows, and blocks in a row: one block, one long row, a few of each, more than one tile of 128 rows and 4 scales,
#: more blocks than a row of threads.
SHAPES = ((1, 1), (1, 67), (5, 3), (130, 9), (2, 300))

#: Blocks whose answer is pinned on every machine, and that no library treats apart.
ORDINARY = ("tie-even", "below-tie", "above-tie", "exact", "subnormal", "overflow", "position", "mixture")


def judge_quantize_shapes(
    session: TargetSession, fmt: BlockFormat, seen: Sequence[Observed], scorecard: Scorecard
) -> dict[str, Failure]:
    """Enter each arrangement of blocks that were answered before; returns the first one that differs, by requirement."""
    return judge_quantize_elsewhere(session, fmt, seen, scorecard) | _judge_numbers(session, fmt, seen, scorecard)


def _judge_numbers(
    session: TargetSession, fmt: BlockFormat, seen: Sequence[Observed], scorecard: Scorecard
) -> dict[str, Failure]:
    dtype = session.capabilities.dtypes[0]
    groups: dict[str | None, list[Observed]] = {}
    for s in seen:
        if s.case.is_row and s.dtype == dtype and s.case.topic in ORDINARY:
            groups.setdefault(None if s.case.tensor is None else s.case.tensor["amax"], []).append(s)
    if not groups:
        return {}
    members = max(groups.values(), key=len)
    extra = tensor_argument(members[0].case, session.capabilities.tensor_scale)
    x = np.concatenate([m.case.x for m in members]).astype(DTYPES[dtype])
    before = np.concatenate([np.concatenate([m.scales, m.codes], axis=1) for m in members])

    def ask(place: npt.NDArray[np.intp], rows: int) -> npt.NDArray[Any]:
        codes, scales = session.call("quantize", x[place].reshape(rows, -1), fmt.name, **extra)
        return np.concatenate([scales.reshape(-1, 1), codes.reshape(-1, fmt.k)], axis=1)

    return _judge(ask, before, np.not_equal, scorecard)


def judge_dequantize_shapes(
    session: TargetSession, fmt: BlockFormat, results: Sequence[tuple[TableCase, Any]], scorecard: Scorecard
) -> dict[str, Failure]:
    """The same for `dequantize`, with the first table that was answered."""
    codes, scales = turned_table(fmt)
    answered = next(((c, b) for c, b in results if not isinstance(b, NoAnswer)), None)
    if answered is None:
        return {}
    case, before = answered
    extra: dict[str, Any] = {}
    if case.tensor is not None:
        bits = int(case.tensor[session.capabilities.tensor_scale], 16)
        extra["tensor_scale"] = float(np.uint32(bits).view(np.float32))

    def ask(place: npt.NDArray[np.intp], rows: int) -> npt.NDArray[Any]:
        given = codes[place].reshape(rows, -1), scales[place].reshape(rows, -1)
        values: npt.NDArray[Any] = session.call("dequantize", *given, fmt.name, **extra).reshape(-1, fmt.k)
        return values

    return _judge(ask, before, lambda a, b: ~same_values(a, b), scorecard)


def _judge(
    ask: Callable[[npt.NDArray[np.intp], int], npt.NDArray[Any]], before: npt.NDArray[Any],
    differ: Callable[[Any, Any], npt.NDArray[np.bool_]], scorecard: Scorecard,
) -> dict[str, Failure]:  # fmt: skip
    first: dict[str, Failure] = {}
    for number, (rows, blocks) in enumerate(SHAPES):
        # A stride that is prime to most lengths, so that neighbours differ much.
        place = (number + 37 * np.arange(rows * blocks)) % len(before)

        def call(_: Sequence[int], place: npt.NDArray[np.intp] = place, rows: int = rows) -> list[Any]:
            return [ask(place, rows)]

        label = f"{rows} rows of {blocks} blocks"
        if not keeps(CALLS, f"{scorecard.operation}/{scorecard.format}", label):
            continue
        answer = run_bisected([0], call)[0]
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer("call-size", label, answer)
            continue
        wrong = differ(answer, before[place]).any(axis=1)
        scorecard.count("call-size", label, ok=not wrong.any())
        if wrong.any():
            row, block = divmod(int(np.flatnonzero(wrong)[0]), blocks)
            first.setdefault(scorecard.tally("call-size").id, _draw(label, row, block, int(wrong.sum())))
    return first


def _draw(label: str, row: int, block: int, count: int) -> Failure:
    return Failure(
        case=label, given={"call": label}, expected={}, returned={},
        steps=[f"{count} blocks got other bits than in another call; the first is block {block} of row {row}"],
    )  # fmt: skip
