"""The tensor scale depends on the largest magnitude alone: not on its place, the tensor's size, dtype, or place in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.calls import list_sizes
from mxspec_conformance.judge.invariance.history import Drawn, Twin, Workload, judge_history, judge_refusable
from mxspec_conformance.judge.invariance.items import CONTENTS, LARGE, SIZE_SHARE
from mxspec_conformance.judge.invariance.others import ROWS, find_width
from mxspec_conformance.judge.invariance.pace import LARGEST_OF, Speed
from mxspec_conformance.judge.invariance.placed import PLACED, list_repeated
from mxspec_conformance.judge.invariance.reach import SEES_SHAPES
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES, cast_input
from mxspec_conformance.targets.sessions import TargetSession

#: Shapes of tensors: fewer numbers than a vector, columns of every residue by eight, one block, one column, rows that no tile divides,
#: more than a grid holds, large and aligned.
SHAPES = (
    (1, 1), (2, 3), (1, 7), *((3, 17 + n) for n in range(8)), (1, 16), (257, 1), (3, 13), (3, 48), (7, 1001), (1, 4099), (16, 64), (31, 1040), (128, 128), (129, 256), (1, 4096), (257, 16), (1024, 16), (65537, 16), (256, 1024),
    (1024, 1024), (1, 1048576),
)  # fmt: skip
#: Where the largest magnitude lies, as a share of the tensor, and its sign; in every dtype it is a number of that dtype.
PLACES = ((0.0, 1), (1.0, 1), (1.0, -1), (0.5, -1), (0.37, 1), (0.9999, 1))
LARGEST = 5.375
#: Numbers up to which the quick level asks a tensor with its maximum in every place.
CHEAP = 1 << 14
#: Shapes that are asked in other memory, and for what is done to memory.
LAID = ((5, 48), (130, 96), (64, 1024))
#: Numbers of which the rows of further shapes, and the parts of a content, hold a multiple.
BLOCK = 16


def judge_tensor_maxima(session: TargetSession, fmt: str, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter tensors with one largest magnitude, which all have the scale of the smallest of them."""
    first: dict[str, Failure] = {}
    alone = np.zeros((1, 16), np.float32)
    alone[0, 3] = LARGEST
    largest = LARGEST_OF.get(session.transport, Speed.FAST.largest)
    dtypes = session.capabilities.dtypes
    of_dtype = {dtype: run_once(partial(session.call, "tensor_scale", cast_input(alone, dtype), fmt)) for dtype in dtypes}
    wanted = of_dtype[dtypes[0]]
    if isinstance(wanted, NoAnswer):  # judged elsewhere
        return first
    for turn, (dtype, own) in enumerate(of_dtype.items()):
        label, work = f"{dtype}, the numbers of a tensor in {dtypes[0]}", _make_workload(session, fmt, scorecard, dtype, own, first)
        if isinstance(own, NoAnswer):
            if scorecard.wants("tensor-scale"):
                scorecard.count_no_answer("tensor-scale", label, own)
            continue
        if turn and scorecard.wants("tensor-scale"):
            work.judge(label, _give(alone, fmt, wanted, f"numbers in {dtypes[0]}"), own, topic="tensor-scale")
        for name, x in _list_extremes(dtype) if scorecard.wants("tensor-scale") else ():
            plain = run_once(partial(session.call, "tensor_scale", x.astype(np.float32), fmt))
            if not isinstance(plain, NoAnswer):  # judged elsewhere
                work.enter("tensor-scale", f"{dtype}, {name}", _give(x, fmt, plain, "numbers in float32"), quick=True)
        for shape, (share, sign) in _list_places(turn):
            if shape[0] * shape[1] <= largest:
                label = f"{dtype}, {shape[0]} x {shape[1]}, the largest at {share:g}, {'+-'[sign < 0]}"
                quick = shape[0] * shape[1] <= CHEAP or (shape in ((31, 1040), (65537, 16)) and share == 1)
                work.enter("call-size", label, _give(cast_input(make_tensor(shape, share, sign), dtype), fmt, own), quick=quick)
        for name, x in _list_contents():
            if x.size <= largest:
                work.enter("call-size", f"{dtype}, {name}", _give(cast_input(x, dtype), fmt, own), quick=True)
        if session.transport == "results-file":
            continue
        for shape in LAID:
            rows = np.repeat(cast_input(make_tensor(shape, 1.0, -1), dtype)[-1:], shape[0], axis=0)
            label = f"{dtype}, {shape[0]} x {shape[1]}, one row that is all rows"
            work.enter("memory", label, _give(rows, fmt, own), "arranged", "broadcast", quick=True, may_refuse=True)
        judge_history(work)
    if session.transport in SEES_SHAPES and "float64" not in dtypes:
        # A kernel for 16 bits that takes other numbers as well computes them in float32, and rightly so.
        others = [*of_dtype.values(), run_once(partial(session.call, "tensor_scale", alone, fmt))]
        work = _make_workload(session, fmt, scorecard, dtypes[0], wanted, first)

        def find_mistake(value: Any) -> str:
            right = any(_is_same(value, x) for x in others if not isinstance(x, NoAnswer))
            return "" if right else _compare(value, wanted, f"numbers in {dtypes[0]}")

        x, after = make_tensor((4, 64), 0.37, 1).astype(np.float64), _give(cast_input(alone, dtypes[0]), fmt, wanted)
        judge_refusable(
            work,
            "a tensor in float64, which is not offered",
            "tensor_scale",
            x,
            fmt,
            after=after,
            find_mistake=find_mistake,
            lost=False,
            quick=True,
        )
    return first


def _give(x: npt.NDArray[Any], fmt: str, wanted: float, what: str = "maximum alone") -> Drawn:
    """The call with a tensor whose scale is known; what: of what else it is the same."""
    return Drawn((x, fmt), find_mistake=lambda value: "" if _is_same(value, wanted) else _compare(value, wanted, what))


def _compare(value: float, wanted: float, what: str) -> str:
    return f"the scale is {float(value):.9g}; of the same {what} it is {float(wanted):.9g}"


def _list_places(turn: int) -> Iterator[tuple[tuple[int, int], tuple[float, int]]]:
    """(shape, where the largest magnitude lies) of the calls in a dtype; turn: its place among those of the target."""
    for shape in SHAPES:
        yield from ((shape, place) for place in (PLACES if shape[0] * shape[1] <= 1 << 17 else PLACES[1:4]))
    for size in list_sizes(BLOCK):
        if size.elements <= LARGE and (not turn or size.salt % SIZE_SHARE == turn % SIZE_SHARE):
            yield (size.rows, size.columns), PLACES[size.salt // SIZE_SHARE % len(PLACES)]


def _list_contents() -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """(content, tensor): parts of zeros, and rows or columns that come again."""
    rows, wide = CONTENTS[0]
    x = make_tensor((rows, wide * BLOCK), 0.37, 1)
    for where, flag in PLACED:
        mixed = np.where(np.repeat(flag(rows, wide), BLOCK, axis=1), np.float32(0), x)
        mixed.reshape(-1)[np.flatnonzero(mixed)[-1]] = -LARGEST
        yield f"zeros {where}", mixed
    blocks = x.reshape(rows * wide, BLOCK)
    largest = int(np.abs(blocks).max(axis=1).argmax())
    from_largest = np.roll(np.arange(rows * wide), -largest).reshape(rows, wide)
    yield from ((name, blocks[places].reshape(x.shape)) for name, places in list_repeated(from_largest, largest))


def _make_workload(session: TargetSession, fmt: str, scorecard: Scorecard, dtype: str, alone: float, first: dict[str, Failure]) -> Workload:
    """Tensors with a maximum of their own for each number; alone: the scale of the plain maximum."""
    wanted: dict[int, Any] = {0: alone}

    def find_wanted(power: int) -> Any:
        if power not in wanted:
            one = np.zeros((1, 16), np.float32)
            one[0, 3] = LARGEST * 2.0**power
            wanted[power] = run_once(partial(session.call, "tensor_scale", cast_input(one, dtype), fmt))
        return wanted[power]

    def draw(shape: tuple[int, int], number: int) -> Drawn:
        power = number % 7 - 3
        expected = find_wanted(power)

        # Of the first call the last number is the largest: what reads another part of memory does not see it.
        x = make_tensor(shape, PLACES[(number + 1) % len(PLACES)][0], -1)
        x[1, 5] = number % 128 / 32  # no two calls have the same numbers
        turned = cast_input(np.roll(x * np.float32(2.0**power), 37 * number), dtype)
        return Drawn((turned, fmt)) if isinstance(expected, NoAnswer) else _give(turned, fmt, expected)

    def list_twins(drawn: Drawn) -> Iterator[Twin]:
        """Tensors with another maximum, or of another dtype with the same bytes."""
        x = drawn.arguments[0]
        place, twin = np.unravel_index(np.abs(x.astype(np.float32)).argmax(), x.shape), x.copy()
        twin[place] = x[tuple(n // 2 for n in x.shape)]
        yield "its largest number", (twin, fmt), drawn.options
        for other in session.capabilities.dtypes:
            if np.dtype(DTYPES[other]).itemsize == x.dtype.itemsize and np.dtype(DTYPES[other]) != x.dtype:
                yield f"the dtype {other}", (x.view(DTYPES[other]), fmt), drawn.options

    shapes = ((ROWS, find_width(session.capabilities)), *LAID)  # first, that of other functions' calls
    sizes = {f"{dtype}, {rows} x {columns}": (rows, columns) for rows, columns in shapes}
    return Workload(
        session=session, function="tensor_scale", scorecard=scorecard, draw=draw, sizes=sizes, quick=sizes, first=first,
        list_twins=list_twins,
    )  # fmt: skip


def _list_extremes(dtype: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """(what its largest magnitude is, a tensor) at the ends of a dtype of 16 bits, where it may be computed with as it is."""
    if np.dtype(DTYPES[dtype]).itemsize != 2:
        return
    limits = ml_dtypes.finfo(DTYPES[dtype])
    x = (np.arange(64) % 5 - 2).astype(np.float32)
    for name, largest in (
        ("the largest number", limits.max), ("the smallest normal number", limits.smallest_normal),
        ("the smallest number", limits.smallest_subnormal),
    ):  # fmt: skip
        for sign in (1, -1):
            tensor = (x * np.float32(0 if "smallest" in name else 1)).astype(DTYPES[dtype]).reshape(2, 32)
            tensor[1, 5] = sign * np.float32(largest)
            yield f"{name}, {'+-'[sign < 0]}", tensor


def _is_same(value: float, other: float) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.float32(value).view(np.uint32) == np.float32(other).view(np.uint32))


def make_tensor(shape: tuple[int, int], share: float, sign: int) -> npt.NDArray[np.float32]:
    """Numbers up to half of the largest, which lies at a share of the tensor."""
    count = shape[0] * shape[1]
    x = ((np.arange(count) * 37 % 512 - 256) / 128).astype(np.float32)
    x[round(share * (count - 1))] = sign * LARGEST
    return x.reshape(shape)
