"""Judging that an answer does not depend on the call: many blocks, few, the same again, parts of other arrays.

What was answered before, in the calls that were judged against the vectors, is what every other call has to return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.dequantize import TableCase, same_values, turned_table
from mxspec_conformance.judge.invariance.batch_shape import ORDINARY
from mxspec_conformance.judge.quantize import DTYPES, Observed, tensor_argument
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import CALLS, keeps
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import ARRANGEMENTS
from mxspec_conformance.targets.sessions import CallError, TargetSession
from mxspec_vectors.files import read_document

#: Items (blocks, or single numbers) of a call: one, odd numbers, a power of two with both neighbours, many.
COUNTS = (1, 1, 1, 2, 3, 7, 16, 33, 127, 128, 129, 4357)
#: What is asked of one call and its repetition.
PROBES = ("the input afterwards", "an earlier answer", "the same call again")
NAN_LANES = "a NaN in each lane"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A function with inputs that it has answered."""

    function: str
    #: Arrays whose first axis counts the items.
    inputs: tuple[npt.NDArray[Any], ...]
    #: What follows the first input: a format or element name.
    name: str
    kwargs: dict[str, Any]
    #: The answers, one row for each item.
    before: npt.NDArray[Any]
    #: Answer of a call -> rows like those of `before`.
    rows: Callable[[Any], npt.NDArray[Any]]
    differ: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[np.bool_]]

    def arguments(self, place: npt.NDArray[np.intp]) -> tuple[Any, ...]:
        """The arguments of a call for these items."""
        given = [a[place] for a in self.inputs]
        if self.function == "dequantize":
            return (*given, self.name)
        return (given[0], self.name, *given[1:])


def judge_quantize_calls(
    session: TargetSession, fmt: BlockFormat, seen: Sequence[Observed], scorecard: Scorecard
) -> dict[str, Failure]:
    """Enter other calls with blocks that were answered before; returns the first one that differs, by requirement."""
    dtype = session.capabilities.dtypes[0]
    groups: dict[str | None, list[Observed]] = {}
    for s in seen:
        if s.case.is_row and s.dtype == dtype and s.case.topic in ORDINARY:
            groups.setdefault(None if s.case.tensor is None else s.case.tensor["amax"], []).append(s)
    if not groups:
        return {}
    members = max(groups.values(), key=len)
    repeat = Repeat(
        function="quantize",
        inputs=(np.concatenate([m.case.x for m in members]).astype(DTYPES[dtype]),),
        name=fmt.name,
        kwargs=tensor_argument(members[0].case, session.capabilities.tensor_scale),
        before=np.concatenate([np.concatenate([m.scales, m.codes], axis=1) for m in members]),
        rows=lambda answer: np.concatenate([answer[1], answer[0]], axis=1),
        differ=np.not_equal,
    )
    first = _judge(session, repeat, scorecard)
    if any(s.case.topic == "nan" for s in seen):
        first |= _judge_nan_lanes(session, fmt, repeat, scorecard)
    return first


def judge_dequantize_calls(
    session: TargetSession, fmt: BlockFormat, results: Sequence[tuple[TableCase, Any]], scorecard: Scorecard
) -> dict[str, Failure]:
    """The same for `dequantize`, with the first table that was answered."""
    codes, scales = turned_table(fmt)
    answered = [(case, values) for case, values in results if not isinstance(values, NoAnswer)]
    if not answered:
        return {}
    case, before = answered[0]
    kwargs: dict[str, Any] = {}
    if case.tensor is not None:
        bits = int(case.tensor[session.capabilities.tensor_scale], 16)
        kwargs["tensor_scale"] = float(np.uint32(bits).view(np.float32))
    repeat = Repeat(
        function="dequantize",
        inputs=(codes, scales[:, None]),
        name=fmt.name,
        kwargs=kwargs,
        before=before,
        rows=lambda answer: answer,
        differ=lambda a, b: ~same_values(a, b),
    )
    return _judge(session, repeat, scorecard)


def judge_scalar_calls(session: TargetSession, function: str, element: str, scorecard: Scorecard) -> dict[str, Failure]:
    """The same for `encode`, `decode` and `encode_stochastic`, with the numbers of the vectors."""
    operation = "stochastic" if function == "encode_stochastic" else function
    inputs: list[tuple[npt.NDArray[Any], ...]] = []
    before: list[Any] = []
    for case in read_document(operation, element)["cases"]:
        if case.get("overflow", "saturate") != "saturate" or case.get("rule", "integer") != "integer":
            continue
        if case.get("sr_bits", session.capabilities.sr_bits) != session.capabilities.sr_bits:
            continue
        given = _scalar_inputs(case)
        if operation != "decode":
            kept = ~np.isnan(given[0])
            given = tuple(a[kept] for a in given)
        if not len(given[0]):
            continue
        try:
            answer = session.call(function, given[0], element, *given[1:])
        except CallError:  # judged elsewhere
            continue
        inputs.append(given)
        before.append(answer)
    if not inputs:
        return {}
    repeat = Repeat(
        function=function,
        inputs=tuple(np.concatenate(a) for a in zip(*inputs, strict=True)),
        name=element,
        kwargs={},
        before=np.concatenate(before)[:, None],
        rows=lambda answer: np.asarray(answer)[:, None],
        differ=np.not_equal if operation != "decode" else lambda a, b: ~same_values(a, b),
    )
    return _judge(session, repeat, scorecard)


def _scalar_inputs(case: dict[str, Any]) -> tuple[npt.NDArray[Any], ...]:
    if "x" not in case:
        return (np.frombuffer(bytes.fromhex(case["codes"]), np.uint8),)
    x = np.frombuffer(bytes.fromhex(case["x"]), ">u4").astype(np.uint32).view(np.float32)
    if "random_bits" not in case:
        return (x,)
    return x, np.frombuffer(bytes.fromhex(case["random_bits"]), ">u4").astype(np.uint32)


def _judge(session: TargetSession, repeat: Repeat, scorecard: Scorecard) -> dict[str, Failure]:
    first: dict[str, Failure] = {}

    def again(place: npt.NDArray[np.intp], *before: str) -> Callable[[], Any]:
        return partial(session.call, *before, repeat.function, *repeat.arguments(place), **repeat.kwargs)

    def enter(label: str, place: npt.NDArray[np.intp], call: Callable[[], Any], *, may_refuse: bool = False) -> None:
        if not keeps(CALLS, f"{scorecard.operation}/{scorecard.format}", label):
            return
        answer = run_bisected([0], lambda _: [call()])[0]
        if isinstance(answer, NoAnswer):
            if not may_refuse:
                scorecard.count_no_answer("call-size", label, answer)
            return
        wrong = repeat.differ(repeat.rows(answer), repeat.before[place]).any(axis=1)
        item = f"item {int(np.argmax(wrong))} of {len(place)}"
        settle(label, not wrong.any(), f"{item} got other bits than in another call")

    def settle(label: str, ok: bool, words: str) -> None:
        scorecard.count("call-size", label, ok=ok)
        if not ok:
            first.setdefault(scorecard.tally("call-size").id, draw(label, words))

    for number, count in enumerate(COUNTS):
        # A stride that is prime to most lengths, so that neighbours differ much; it starts elsewhere each time.
        place = (101 * number + 37 * np.arange(count)) % len(repeat.before)
        enter(f"call {number}, of {count}", place, again(place))
    place = 37 * np.arange(130) % len(repeat.before)
    twice = np.repeat(place, 2)
    enter("each item twice in a row", twice, again(twice))
    for arrangement in ARRANGEMENTS[1:]:
        enter(f"inputs in other arrays: {arrangement}", place, again(place, "arranged", arrangement), may_refuse=True)
    if not any(keeps(CALLS, f"{scorecard.operation}/{scorecard.format}", label) for label in PROBES):
        return first
    pair = repeat.arguments(place), repeat.arguments(place[::-1])
    answer = run_bisected([0], lambda _: [session.call("probe", repeat.function, *pair, **repeat.kwargs)])[0]
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


def _judge_nan_lanes(session: TargetSession, fmt: BlockFormat, repeat: Repeat, scorecard: Scorecard) -> dict[str, Failure]:
    """A NaN is found in every lane: the block's scale, and the lane's code, are the same wherever it lies.

    Codes under a NaN scale are open, and so is which of its NaN codes an element format gives.
    """
    if not keeps(CALLS, f"quantize/{fmt.name}", NAN_LANES):
        return {}
    x = np.ones((fmt.k, fmt.k), repeat.inputs[0].dtype)
    np.fill_diagonal(x, np.nan)
    try:
        codes, scales = session.call("quantize", x, fmt.name, **repeat.kwargs)
    except CallError:  # refused: judged elsewhere
        return {}
    lanes = codes[np.arange(fmt.k), np.arange(fmt.k)]
    scales = scales.reshape(-1)
    known = np.array(
        [[f.is_nan(c) if c < f.code_count else False for c in range(256)] for f in (fmt.scale, fmt.element)]
    )
    open_lanes = known[0][scales] | (known[1][lanes] & known[1][lanes[0]])
    wrong = (scales != scales[0]) | ((lanes != lanes[0]) & ~open_lanes)
    scorecard.count("position", NAN_LANES, ok=not wrong.any())
    if not wrong.any():
        return {}
    words = f"a NaN in lane {int(np.argmax(wrong))} is treated otherwise than in lane 0"
    return {scorecard.tally("position").id: draw(NAN_LANES, words)}


def draw(label: str, words: str) -> Failure:
    """A failure that is about a call, not about a block."""
    return Failure(case=label, given={"call": label}, expected={}, returned={}, steps=[words])
