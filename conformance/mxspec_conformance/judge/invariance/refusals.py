"""Calls of blocks that cannot be answered as they stand: they have to be refused, or answered as if zeros followed."""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance import near_ties
from mxspec_conformance.judge.invariance.blocks import BlockCalls, Way
from mxspec_conformance.judge.invariance.history import Drawn, Workload, judge_nothing, judge_refusable
from mxspec_conformance.judge.invariance.pools import Array, Pool, fill_blocks
from mxspec_conformance.judge.invariance.reach import SEES_SHAPES
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import makes_call
from mxspec_conformance.targets.errors import FailureKind

#: Rows and blocks of codes, with scales that are not theirs: too few, and those of blocks half as long.
SCALE_SHAPES = (((5, 4), (5, 3)), ((5, 4), (4, 4)), ((3, 7), (3, 4)), ((5, 4), (5, 8)))


def judge_ragged_refusal(calls: BlockCalls) -> None:
    """Rows that are no whole number of blocks, where nobody asked for padding: refused, or padded; never cut short."""
    if calls.session.transport not in SEES_SHAPES:
        return
    pool, k = calls.pools[0], calls.pools[0].fmt.k
    for rows, whole, end in ((3, 0, k - 1), (3, 1, 1), (3, 1, k // 2), (1, 2, k - 1), (5, 4, k // 2), (129, 1, k // 2), (3, 18, k - 4)):
        columns = whole * k + end
        label = f"{rows} x {columns}: no whole number of blocks"
        padded = _draw(pool, label, rows, whole + 1)
        padded[:, columns:] = 0
        _judge_cut(calls, label, padded[:, :columns], padded, axis=-1, quick=whole == 1)
    if calls.offers("axis"):
        label = f"{k + k // 2} x 5, axis 0: no whole number of blocks"
        padded = _draw(pool, label, 5, 2)
        padded[:, k + k // 2 :] = 0
        _judge_cut(calls, label, padded[:, : k + k // 2].T, padded, axis=0)
        x = _draw(pool, "axis beyond", 2 * k, 1)
        text = "an answer came back for an axis that a matrix does not have; refuse such a call"
        for axis in (2, -3):
            _judge_impossible(calls, f"{x.shape[0]} x {x.shape[1]}, axis {axis}", text, x, pool.fmt.name, axis=axis)


def _draw(pool: Pool, label: str, rows: int, wide: int) -> Array:
    place = pool.draw(rows * wide, crc32(label.encode()), rows)
    return pool.answered.inputs[0][place].reshape(rows, -1).copy()


def _work(calls: BlockCalls) -> tuple[Workload, Drawn]:
    """Where refusals are counted, and a small call that follows one."""
    way = Way(calls.pools[0])
    return calls.make_workload([way], prefix=f"{way.pool.name}: "), way.draw((4, 3), 74)


def _judge_impossible(calls: BlockCalls, label: str, text: str, *arguments: Any, quick: bool = False, **options: Any) -> None:
    """Count a call that nobody can answer; text: what an answer means."""
    work, after = _work(calls)
    options |= calls.pools[0].answered.kwargs
    quick = quick or calls.is_first_format
    judge_refusable(
        work, label, calls.function, *arguments, after=after, find_mistake=lambda _: text, malformed=text, quick=quick, **options
    )


def judge_other_dtypes(calls: BlockCalls) -> None:
    """Numbers in a floating-point dtype that is not offered: refused, or answered as the same numbers in one that is.

    Integers are not asked: what they stand for is nobody's promise.
    """
    pool, offered = calls.pools[0], calls.session.capabilities.dtypes
    if calls.session.transport not in SEES_SHAPES or "float32" not in offered:
        return
    work, after = _work(calls)
    answered, numbers = pool.answered, _make_numbers(pool.fmt)
    ask = partial(calls.session.call, "quantize")
    alone = run_once(partial(ask, numbers.astype(np.float32), pool.fmt.name, **answered.kwargs))
    if isinstance(alone, NoAnswer):  # judged elsewhere
        return

    def find_mistake(answer: Any) -> str:
        wrong = (answered.rows(answer) != answered.rows(alone)).any(axis=1)
        text = f"{int(wrong.sum())} of {len(wrong)} blocks got other bits than the same numbers as float32"
        return f"{text}; refuse other dtypes, or convert them" if wrong.any() else ""

    for dtype in {"float64", "float16"} - set(offered):
        label = f"6 x {numbers.shape[1]} numbers in {dtype}, which is not offered"
        quick = dtype == "float64" or calls.is_first_format
        call = "quantize", numbers.astype(dtype), pool.fmt.name
        judge_refusable(work, label, *call, after=after, find_mistake=find_mistake, quick=quick, **answered.kwargs)
    if "float64" in offered or pool.fmt.has_tensor_scale or not work.keeps("refusal", quick=calls.is_first_format):
        return
    # In blocks whose largest number is the element's the scale is 1, where it is a rule's.
    given = []
    for values in near_ties.list_near_ties(pool.fmt.element):
        x = np.zeros((2, 2 * pool.fmt.k), values.dtype)
        x[:, :: pool.fmt.k] = float(pool.fmt.element.max_value)
        x[:, 1 : 1 + len(values)] = values
        given.append(partial(ask, x, pool.fmt.name, **answered.kwargs))
    near_ties.judge_near_ties(work, given, answered.rows)


def _make_numbers(fmt: BlockFormat) -> Array:
    """Numbers [6, n] that every offered dtype holds, and whose codes no rounding on the way decides.

    Scaling by a power of two is exact, ties and all; where scales are not, no number lies near one.
    """
    numbers = np.arange(6 * 5 * fmt.k)
    if not fmt.has_tensor_scale:
        return (numbers * 37 % 201 - 100.0).reshape(6, -1)
    values = np.array([6, 4, -3, 2, -1.5, 1, -0.5, 0, -6, 3, 1.5])[numbers * 7 % 11] * (63 + numbers * 5 % 3) / 64
    values[:: fmt.k] = 6.0
    return values.reshape(6, -1)


def judge_empty(calls: BlockCalls) -> None:
    """A matrix without rows, or without columns: an answer without any, or a refusal; and the call after it is as any other."""
    work, after = _work(calls)
    answered, k = calls.pools[0].answered, calls.pools[0].fmt.k
    cases: list[tuple[str, tuple[int, int], dict[str, int]]] = [("no rows", (0, 3), {})]
    if calls.session.transport in SEES_SHAPES:
        cases.append(("no columns", (3, 0), {}))
        if calls.offers("axis"):
            cases.append(("no columns, axis 0", (2 * k, 0), {"axis": 0}))
    for what, (rows, wide), options in cases:
        nothing = [np.zeros((rows, wide * a.shape[1]), a.dtype) for a in answered.inputs]
        arguments = (*nothing, answered.name) if calls.function == "dequantize" else (nothing[0], answered.name)
        drawn = Drawn(arguments, answered.kwargs | options)
        judge_nothing(work, f"{rows} x {wide * k}: {what}", what.partition(",")[0], drawn, after)


def _judge_cut(calls: BlockCalls, label: str, x: Array, padded: Array, *, axis: int, quick: bool = False) -> None:
    """One call that ends within a block; padded: the lines of it with zeros written out."""
    work, after = _work(calls)
    quick = quick or calls.is_cheap(calls.pools[0], x.size)
    pool, kwargs = calls.pools[0], calls.pools[0].answered.kwargs
    options: dict[str, Any] = {**kwargs, "axis": axis} if axis != -1 else dict(kwargs)
    if not makes_call(quick=quick):
        return
    alone = run_once(partial(calls.session.call, "quantize", padded, pool.fmt.name, **kwargs))
    if isinstance(alone, NoAnswer):  # judged elsewhere
        return
    blocks = pool.extend(pool.answered.rows(alone), padded.reshape(-1, pool.fmt.k))
    place = np.arange(len(pool), len(blocks)).reshape(len(padded), -1)
    call = "quantize", np.ascontiguousarray(x), pool.fmt.name
    whole = fill_blocks(blocks, place, **({} if axis == -1 else {"axis": axis}))

    def find_mistake(answer: Any) -> str:
        text = whole.find_mistake(answer)
        return text and f"{text}; refuse such a call, or answer it as if zeros followed"

    answer = judge_refusable(work, label, *call, after=after, find_mistake=find_mistake, quick=quick, **options)
    if isinstance(answer, NoAnswer) and answer.kind is FailureKind.BAD_RETURN:
        covered = run_once(partial(calls.session.call, "covered", *call[1:], **options))
        # An answer of a shape that cannot be is noticed by whoever gets it; one that is short is not, nor are wrong codes.
        if isinstance(covered, int) and 0 <= covered < x.shape[axis]:
            text = f"{answer.message}; refuse such a call, or pad the rows with zeros"
            work.settle("refusal", label, ok=False, text=text)
        elif axis == -1 and covered == x.shape[axis]:
            _judge_trimmed(work, label, call[1:], kwargs, alone[0], padded.reshape(len(padded), -1, pool.fmt.k))


def _judge_trimmed(work: Workload, label: str, call: tuple[Array, str], kwargs: dict[str, Any], codes: Array, padded: Array) -> None:
    """An answer with one code for each number: the codes of the answer with zeros written out, without those of the zeros."""
    trimmed = run_once(partial(work.session.call, "trimmed", *call, **kwargs))
    if isinstance(trimmed, np.ndarray):
        columns = call[0].shape[1]
        # Under a block with a NaN or an infinity codes may be open.
        finite = np.repeat(np.isfinite(padded.astype(np.float32)).all(axis=2), padded.shape[2], axis=1)
        wrong = (trimmed != codes[:, :columns]) & finite[:, :columns]
        first = ",".join(str(int(i[0])) for i in np.nonzero(wrong)) if wrong.any() else ""
        text = f"{int(wrong.sum())} of {wrong.size} codes are not those of the padded rows; the first is {first}"
        work.settle("refusal", label, ok=not wrong.any(), text=text)


def judge_scale_shapes(calls: BlockCalls) -> None:
    """Codes with too few scales for them, or with more in a row: refused.

    Rows of scales beyond those of the codes are not asked: scales are handed over in buffers of whole tiles. Nor is one row or column of
    scales: by the rules of arrays those are for all.
    """
    capabilities = calls.session.capabilities
    if calls.session.transport not in SEES_SHAPES or capabilities.scale_layout != "row-major":
        return
    answered, draw = calls.pools[0].answered, calls.pools[0].draw
    for (rows, blocks), shape in SCALE_SHAPES:
        codes, scales, *rest = answered.arguments(draw(rows * blocks, rows * blocks), rows=rows)
        given = np.ascontiguousarray(np.tile(scales, 2)[: shape[0], : shape[1]])
        text = f"values came back for codes {'without a scale' if given.size < scales.size else 'and more scales than blocks'}; refuse such a call"
        label = f"{rows} x {blocks} blocks with {shape[0]} x {shape[1]} scales"
        _judge_impossible(calls, label, text, codes, given, *rest, quick=shape[0] < rows)
    if capabilities.code_layout == "unpacked":
        way = Way(calls.pools[0])
        judge_wide_integers(
            _work(calls)[0], way.draw((6, 4), 24), ("codes", "scales"), after=way.draw((4, 3), 74), quick=calls.is_first_format
        )
    codes, scales, *rest = answered.arguments(draw(32, 32), rows=8)
    half = np.ascontiguousarray(codes[:, : -calls.pools[0].fmt.k // 2]), np.ascontiguousarray(scales[:, :3])
    text = "values came back for scales that are not those of the codes; refuse such a call"
    _judge_impossible(calls, "8 x 3.5 blocks with 8 x 3 scales", text, *half, *rest)


def judge_wide_integers(work: Workload, drawn: Drawn, names: tuple[str, ...], *, after: Drawn, quick: bool = False) -> None:
    """Codes or scales in wider integers: refused, or read by their value. What stands for no code is not asked."""
    for which, name in enumerate(names):
        for dtype in ("int32", "int64"):
            given = list(drawn.arguments)
            given[which] = given[which].astype(dtype)

            def find_mistake(answer: Any) -> str:
                text = drawn.find_mistake(answer)
                return text and f"{text}, in uint8; refuse other dtypes, or convert them"

            judge_refusable(
                work,
                f"{name} in {dtype}",
                work.function,
                *given,
                after=after,
                find_mistake=find_mistake,
                lost=False,
                quick=quick,
                **drawn.options,
            )
