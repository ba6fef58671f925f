"""Judging calls that cannot be answered as they stand: they have to be refused, or answered as if zeros followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance import beside_ties
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.matrix import Matrix, draw_call, extend_pool
from mxspec_conformance.judge.invariance.pools import Pool
from mxspec_conformance.judge.invariance.reach import REFUSALS, SEES_SHAPES
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS, keeps_call
from mxspec_conformance.targets.errors import FailureKind

#: Rows and blocks of codes, with scales that are not theirs: too few, and those of blocks half as long.
SCALE_SHAPES = (((5, 4), (5, 3)), ((5, 4), (4, 4)), ((3, 7), (3, 4)), ((5, 4), (5, 8)))


def judge_ragged_refusal(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Rows that are no whole number of blocks, where nobody asked for padding: refused, or padded; never cut short."""
    pool = next(iter(pools), None)
    if pool is None or matrix.session.transport not in SEES_SHAPES:
        return
    k = pool.fmt.k
    for rows, whole, end in ((3, 0, k - 1), (3, 1, 1), (3, 1, k // 2), (1, 2, k - 1), (5, 4, k // 2), (129, 1, k // 2), (3, 18, k - 4)):
        columns = whole * k + end
        label = f"{rows} x {columns}: no whole number of blocks"
        if not matrix.asks(pool, label, rows * columns, quick=whole == 1):
            continue
        place = matrix.draw(pool, rows * (whole + 1))
        x = pool.answered.inputs[0][place].reshape(rows, -1)[:, :columns]
        padded = np.zeros((rows, (whole + 1) * k), x.dtype)
        padded[:, :columns] = x
        _judge_cut(matrix, pool, label, np.ascontiguousarray(x), padded, axis=-1)
    if matrix.session.capabilities.has("quantize", "axis"):
        lines = np.zeros((5, 3 * k), pool.answered.inputs[0].dtype)
        lines[:, : 2 * k] = pool.answered.inputs[0][matrix.draw(pool, 10)].reshape(5, -1)
        lines[:, k + k // 2 :] = 0
        cut = np.ascontiguousarray(lines[:, : k + k // 2].T)
        _judge_cut(matrix, pool, f"{k + k // 2} x 5, axis 0: no whole number of blocks", cut, lines[:, : 2 * k], axis=0)
        _judge_axis_beyond(matrix, pool)


def _judge_axis_beyond(matrix: Matrix, pool: Pool) -> None:
    """An axis that a matrix does not have: refused."""
    x = pool.answered.inputs[0][matrix.draw(pool, 2 * pool.fmt.k)].reshape(2 * pool.fmt.k, -1)
    for axis in (2, -3):
        label = f"{x.shape[0]} x {x.shape[1]}, axis {axis}"
        call = partial(matrix.session.call, "quantize", x, pool.fmt.name, axis=axis, **pool.answered.kwargs)
        _judge_refusal(matrix, pool, label, call, "an answer came back for an axis that a matrix does not have; refuse such a call")


def _judge_refusal(matrix: Matrix, pool: Pool, label: str, call: Callable[[], Any], text: str, *, quick: bool = False) -> None:
    """Count a call that nobody can answer."""
    card = matrix.scorecard
    if not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=quick or matrix.is_first_format):
        return
    answer: Any = run_once(call)
    if not isinstance(answer, NoAnswer) or answer.kind is FailureKind.BAD_RETURN:
        _fail(matrix, label, text)
    elif answer.kind in REFUSALS:
        _settle_refused(matrix, pool, label)
    else:
        card.count_no_answer("refusal", label, answer)


def _settle_refused(matrix: Matrix, pool: Pool, label: str) -> None:
    """Count a call that was refused, rightly; the call after it is as any other."""
    matrix.scorecard.count("refusal", label, ok=True)
    _enter_after(matrix, pool, f"after a refusal, {label}")


def _enter_after(matrix: Matrix, pool: Pool, what: str) -> None:
    """A small call after one that was refused, or had nothing in it."""
    place, answered = matrix.draw(pool, 12), pool.answered

    def after() -> Any:
        given = answered.arguments(place, rows=4)
        return answered.rows(matrix.session.call(answered.function, *given, **answered.kwargs))

    matrix.enter("state", f"{pool.name}: {what}", pool, place, after, lines=4, quick=True)


def judge_other_dtypes(matrix: Matrix, pool: Pool) -> None:
    """Numbers in a floating-point dtype that is not offered: refused, or answered as the same numbers in one that is.

    Integers are not asked: what they stand for is nobody's promise.
    """
    session, answered, card = matrix.session, pool.answered, matrix.scorecard
    if session.transport not in SEES_SHAPES or answered.function != "quantize":
        return
    offered = session.capabilities.dtypes
    numbers = _make_numbers(pool.fmt)
    alone = run_once(partial(session.call, "quantize", numbers.astype(np.float32), pool.fmt.name, **answered.kwargs))
    if isinstance(alone, NoAnswer) or "float32" not in offered:  # judged elsewhere
        return
    want = answered.rows(alone)
    for dtype in ("float64", "float16"):
        label = f"6 x {numbers.shape[1]} numbers in {dtype}, which is not offered"
        if dtype in offered or not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=dtype == "float64" or matrix.is_first_format):
            continue
        answer = run_once(partial(session.call, "quantize", numbers.astype(dtype), pool.fmt.name, **answered.kwargs))
        if isinstance(answer, NoAnswer):
            if answer.kind in REFUSALS:
                _settle_refused(matrix, pool, label)
            elif answer.kind is not FailureKind.BAD_RETURN:  # which is noticed by whoever gets it
                card.count_no_answer("refusal", label, answer)
            continue
        wrong = (answered.rows(answer) != want).any(axis=1)
        if not wrong.any():
            card.count("refusal", label, ok=True)
            continue
        text = f"{int(wrong.sum())} of {len(want)} blocks got other bits than the same numbers as float32"
        _fail(matrix, label, f"{text}; refuse other dtypes, or convert them")
    if "float64" not in offered and not pool.fmt.has_tensor_scale:
        _judge_beside_ties(matrix, pool)


def _make_numbers(fmt: BlockFormat) -> npt.NDArray[Any]:
    """Numbers [6, n] that every offered dtype holds, and whose codes no rounding on the way decides.

    Scaling by a power of two is exact, ties and all; where scales are not, no number lies near one.
    """
    numbers = np.arange(6 * 5 * fmt.k)
    if not fmt.has_tensor_scale:
        return (numbers * 37 % 201 - 100.0).reshape(6, -1)
    values = np.array([6, 4, -3, 2, -1.5, 1, -0.5, 0, -6, 3, 1.5])[numbers * 7 % 11] * (63 + numbers * 5 % 3) / 64
    values[:: fmt.k] = 6.0
    return values.reshape(6, -1)


def _judge_beside_ties(matrix: Matrix, pool: Pool) -> None:
    """Numbers in float64 beside ties, in blocks whose largest number is the element's: their scale is 1, where it is a rule's."""
    element, k, card = pool.fmt.element, pool.fmt.k, matrix.scorecard
    if not keeps_call(CALLS, f"{card.operation}/{card.format}", beside_ties.LABEL, quick=matrix.is_first_format):
        return
    numbers = beside_ties.list_beside_ties(element)
    answers = []
    for values in (numbers.exact, numbers.nearest, numbers.beside):
        x = np.zeros((2, 2 * k), values.dtype)
        x[:, ::k] = float(element.max_value)
        x[:, 1 : 1 + len(values)] = values
        answers.append(run_once(partial(matrix.session.call, "quantize", x, pool.fmt.name, **pool.answered.kwargs)))
    if any(isinstance(a, NoAnswer) for a in answers):  # judged elsewhere
        return
    found, *wanted = map(pool.answered.rows, answers)
    if any(np.array_equal(found, rows) for rows in wanted):
        card.count("refusal", beside_ties.LABEL, ok=True)
    else:
        _fail(matrix, beside_ties.LABEL, beside_ties.TEXT)


def is_lost(answer: Any) -> bool:
    """Whether a call came to neither an answer, whatever its form, nor an exception."""
    return isinstance(answer, NoAnswer) and answer.kind not in (*REFUSALS, FailureKind.BAD_RETURN)


def fails_on_nothing(answer: Any) -> bool:
    """Whether a call with nothing in it came to something else than nothing or a refusal. Code that fails refuses nothing."""
    return isinstance(answer, NoAnswer) and (answer.kind is FailureKind.BAD_RETURN or answer.stumbled)


def judge_empty(matrix: Matrix, pool: Pool) -> None:
    """A matrix without rows, or without columns: an answer without any, or a refusal; and the call after it is as any other."""
    _judge_nothing(matrix, pool, "no rows", (0, 3))
    if matrix.session.transport in SEES_SHAPES:
        _judge_nothing(matrix, pool, "no columns", (3, 0))
        if matrix.session.capabilities.has(pool.answered.function, "axis"):
            _judge_nothing(matrix, pool, "no columns, axis 0", (2 * pool.fmt.k, 0), axis=0)


def _judge_nothing(matrix: Matrix, pool: Pool, what: str, shape: tuple[int, int], **options: Any) -> None:
    """A call with nothing in it, of so many rows and blocks (with an axis: columns), and the one after it."""
    card, answered = matrix.scorecard, pool.answered
    label = f"{shape[0]} x {shape[1] * pool.fmt.k}: {what}"
    if not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=True):
        return
    nothing = [np.zeros((shape[0], shape[1] * a.shape[1]), a.dtype) for a in answered.inputs]
    arguments = (*nothing, answered.name) if answered.function == "dequantize" else (nothing[0], answered.name)
    answer = run_once(partial(matrix.session.call, answered.function, *arguments, **answered.kwargs, **options))
    if is_lost(answer):
        card.count_no_answer("refusal", label, answer)
    elif fails_on_nothing(answer):
        _fail(matrix, label, f"{answer.message}; return {what.partition(',')[0]}, or refuse such a call")
    else:
        card.count("refusal", label, ok=True)
    _enter_after(matrix, pool, f"after a call with {what}")


def _judge_cut(
    matrix: Matrix, pool: Pool, label: str, x: npt.NDArray[Any], padded: npt.NDArray[Any], *, axis: int
) -> None:
    """One call that ends within a block; padded: the lines of it with zeros written out."""
    k, card = pool.fmt.k, matrix.scorecard
    rows, kwargs = len(padded), pool.answered.kwargs
    options = {} if axis == -1 else {"axis": axis}
    alone = run_once(
        partial(matrix.session.call, "quantize", np.ascontiguousarray(padded), pool.fmt.name, **kwargs)
    )
    if isinstance(alone, NoAnswer):  # judged elsewhere
        return
    answer = run_once(partial(matrix.session.call, "quantize", x, pool.fmt.name, **kwargs, **options))
    if isinstance(answer, NoAnswer):
        if answer.kind in REFUSALS:
            _settle_refused(matrix, pool, label)
        elif answer.kind is FailureKind.BAD_RETURN:
            covered = run_once(partial(matrix.session.call, "covered", x, pool.fmt.name, **kwargs, **options))
            # An answer of a shape that cannot be is noticed by whoever gets it; one that is short is not, nor are wrong codes.
            if isinstance(covered, int) and 0 <= covered < x.shape[axis]:
                _fail(matrix, label, f"{answer.message}; refuse such a call, or pad the rows with zeros")
            elif axis == -1 and covered == x.shape[axis]:
                _judge_trimmed(matrix, pool, label, x, alone[0], padded)
        else:
            card.count_no_answer("refusal", label, answer)
        return
    whole_blocks = extend_pool(pool, pool.answered.rows(alone), padded.reshape(-1, k))
    places = len(pool) + np.arange(padded.size // k)
    codes, scales = answer
    if axis == 0:
        codes, scales = np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)
    got = pool.answered.rows((codes, scales))
    wrong = whole_blocks.find_wrong(places, got)
    card.count("refusal", label, ok=not wrong.any())
    if wrong.any():
        failure = draw_call(label, whole_blocks, places, got, wrong, rows)
        failure.steps.append("refuse such a call, or answer it as if zeros followed")
        matrix.first.setdefault(card.tally("refusal").id, failure)


def _judge_trimmed(
    matrix: Matrix, pool: Pool, label: str, x: npt.NDArray[Any], codes: npt.NDArray[Any], padded: npt.NDArray[Any]
) -> None:
    """An answer with one code for each number: the codes of the answer with zeros written out, without those of the zeros."""
    trimmed = run_once(partial(matrix.session.call, "trimmed", x, pool.fmt.name, **pool.answered.kwargs))
    if not isinstance(trimmed, np.ndarray):
        return
    # Under a block with a NaN or an infinity codes may be open.
    finite = np.isfinite(padded.reshape(len(padded), -1, pool.fmt.k).astype(np.float32)).all(axis=2)
    judged = np.repeat(finite, pool.fmt.k, axis=1)[:, : x.shape[1]]
    wrong = (trimmed != codes[:, : x.shape[1]]) & judged
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        _fail(matrix, label, f"{int(wrong.sum())} of {x.size} codes are not those of the padded rows; the first is {row},{column}")
    else:
        matrix.scorecard.count("refusal", label, ok=True)


def judge_scale_shapes(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Codes with too few scales for them, or with more in a row: refused.

    Rows of scales beyond those of the codes are not asked: scales are handed over in buffers of whole tiles. Nor is one row or column of
    scales: by the rules of arrays those are for all.
    """
    pool = next(iter(pools), None)
    if pool is None or matrix.session.transport not in SEES_SHAPES or matrix.session.capabilities.scale_layout != "row-major":
        return
    for (rows, blocks), shape in SCALE_SHAPES:
        codes, scales, *rest = pool.answered.arguments(matrix.draw(pool, rows * blocks), rows=rows)
        given = np.ascontiguousarray(np.tile(scales, 2)[: shape[0], : shape[1]])
        call = partial(matrix.session.call, "dequantize", codes, given, *rest, **pool.answered.kwargs)
        text = f"values came back for codes {'without a scale' if given.size < scales.size else 'and more scales than blocks'}; refuse such a call"
        label = f"{rows} x {blocks} blocks with {shape[0]} x {shape[1]} scales"
        _judge_refusal(matrix, pool, label, call, text, quick=shape[0] < rows)
    _judge_wide_integers(matrix, pool)
    codes, scales, *rest = pool.answered.arguments(matrix.draw(pool, 32), rows=8)
    half = np.ascontiguousarray(codes[:, : -pool.fmt.k // 2]), np.ascontiguousarray(scales[:, :3])
    call = partial(matrix.session.call, "dequantize", *half, *rest, **pool.answered.kwargs)
    text = "values came back for scales that are not those of the codes; refuse such a call"
    _judge_refusal(matrix, pool, "8 x 3.5 blocks with 8 x 3 scales", call, text)


def _judge_wide_integers(matrix: Matrix, pool: Pool) -> None:
    """Codes or scales in wider integers: refused, or read by their value. What stands for no code is not asked."""
    if matrix.session.capabilities.code_layout != "unpacked":
        return
    card, place = matrix.scorecard, matrix.draw(pool, 24)
    for which, name in enumerate(("codes", "scales")):
        for dtype in ("int32", "int64"):
            label = f"{name} in {dtype}"
            if not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=matrix.is_first_format):
                continue
            given = list(pool.answered.arguments(place, rows=6))
            given[which] = given[which].astype(dtype)
            answer = run_once(partial(matrix.session.call, "dequantize", *given, **pool.answered.kwargs))
            if isinstance(answer, NoAnswer):
                if answer.kind in REFUSALS:
                    _settle_refused(matrix, pool, label)
                continue
            wrong = pool.find_wrong(place, pool.answered.rows(answer))
            if wrong.any():
                text = f"{int(wrong.sum())} of {len(wrong)} blocks got other values than in uint8; refuse other dtypes, or convert them"
                _fail(matrix, label, text)
            else:
                card.count("refusal", label, ok=True)


def _fail(matrix: Matrix, label: str, text: str) -> None:
    card = matrix.scorecard
    card.count("refusal", label, ok=False)
    matrix.first.setdefault(card.tally("refusal").id, call_failure(label, text, "refused, or answered rightly"))
