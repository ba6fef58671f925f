"""Items (blocks, or single numbers) with the answers that a target gave in the calls that were judged by the vectors.

What it has to return for them in every other call is what it returned there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.rounding import Overflow
from mxspec_conformance.counterexample.calls import Call
from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.counterexample.items import OPERATIONS, keep_items
from mxspec_conformance.counterexample.kinds import CallKind
from mxspec_conformance.counterexample.shrink import ALONE, CallFailure
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.quantize import Observed, group_rows, tensor_argument
from mxspec_conformance.observations.tables import ObservedTable, rotated_table, same_values
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import StochasticRule, load_decode_cases, load_encode_cases, load_stochastic_cases
from mxspec_vectors.tensor_scales import TensorScales

#: Blocks whose answer is pinned on every machine, and that no library treats apart.
ORDINARY = ("tie-even", "below-tie", "above-tie", "exact", "subnormal", "overflow", "position", "mixture")


@dataclass(frozen=True, slots=True)
class Answered:
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
    #: The tensor scale in `kwargs`, in all its kinds.
    tensor: TensorScales | None = None

    def keep_call(self, failure: Failure, place: npt.NDArray[np.intp], row: int, got: npt.NDArray[Any], **how: Any) -> Failure:
        """`keep_call` of items, of which one got the answer `got`; calls of `encode_stochastic` are left as they are."""
        if self.function == "quantize":
            return keep_call(failure, self.inputs[0], self.tensor, row, place=place, **how)
        if self.function not in OPERATIONS:
            return failure
        shown, want = item_failure(failure.case, "", self, int(place[row]), got), self.before[place[row]]
        lane = int(np.argmax(self.differ(got[None], want[None])[0]))
        what = next(iter(shown.returned))
        return keep_items(
            replace(shown, steps=[*failure.steps, *shown.steps[1:]]), self.function, self.name,
            np.column_stack([a[place] for a in self.inputs]), row, lane=lane, options=self.kwargs,
            is_wrong=lambda value: bool(self.differ(np.array([value], want.dtype), want[lane : lane + 1])[0]),
            write=lambda value: describe_bits(float(value)) if what == "value" else f"{int(value):02x}",
        )  # fmt: skip

    def arguments(self, place: npt.NDArray[np.intp], *, rows: int | None = None) -> tuple[Any, ...]:
        """The arguments of a call for these items; rows: as so many rows of several items each."""
        given = [a[place] for a in self.inputs]
        if rows is not None:
            given = [a.reshape(rows, -1) for a in given]
        if self.function == "dequantize":
            return (*given, self.name)
        return (given[0], self.name, *given[1:])


def answered_blocks(session: TargetSession, fmt: BlockFormat, answered: Sequence[Observed]) -> Answered | None:
    """The ordinary blocks of the first dtype, under the tensor scale of the most."""
    dtype = session.capabilities.dtypes[0]
    groups = group_rows([o for o in answered if o.case.topic in ORDINARY], dtype)
    if not groups:
        return None
    members = max(groups.values(), key=len)
    return Answered(
        function="quantize",
        inputs=(np.concatenate([m.case.x for m in members]).astype(DTYPES[dtype]),),
        name=fmt.name,
        kwargs=dict(tensor_argument(members[0].case.tensor, session.capabilities)),
        before=np.concatenate([np.concatenate([m.scales, m.codes], axis=1) for m in members]),
        rows=lambda answer: np.concatenate([answer[1].reshape(-1, 1), answer[0].reshape(-1, fmt.k)], axis=1),
        differ=np.not_equal,
        tensor=members[0].case.tensor,
    )


def answered_table(session: TargetSession, fmt: BlockFormat, tables: Sequence[ObservedTable]) -> Answered | None:
    """Codes and scale bytes of the first table that was answered."""
    for item in tables:
        if not isinstance(item.returned, NoAnswer):
            codes, scales = (a[item.answered] for a in rotated_table(fmt))
            return Answered(
                function="dequantize",
                inputs=(codes, scales[:, None]),
                name=fmt.name,
                kwargs=dict(tensor_argument(item.case.tensor, session.capabilities)),
                before=item.returned[item.answered],
                rows=lambda answer: answer.reshape(-1, fmt.k),
                differ=lambda a, b: ~same_values(a, b),
            )
    return None


def answered_numbers(session: TargetSession, function: str, element: str) -> Answered | None:
    """The numbers of the vectors for `encode`, `decode` or `encode_stochastic`, asked once more."""
    inputs: list[tuple[npt.NDArray[Any], ...]] = []
    before: list[Any] = []
    for given in _list_numbers(function, element, session.capabilities.sr_bits):
        try:
            answer = session.call(function, given[0], element, *given[1:])
        except CallError:  # judged elsewhere
            continue
        inputs.append(given)
        before.append(answer)
    if not inputs:
        return None
    return Answered(
        function=function,
        inputs=tuple(np.concatenate(a) for a in zip(*inputs, strict=True)),
        name=element,
        kwargs={},
        before=np.concatenate(before)[:, None],
        rows=lambda answer: np.asarray(answer)[:, None],
        differ=np.not_equal if function != "decode" else lambda a, b: ~same_values(a, b),
    )


def _list_numbers(function: str, element: str, sr_bits: int) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """The inputs of each case, without NaN."""
    if function == "decode":
        yield from ((case.codes,) for case in load_decode_cases(element))
        return
    given: list[tuple[npt.NDArray[Any], ...]]
    if function == "encode":
        given = [(c.x,) for c in load_encode_cases(element) if c.overflow is Overflow.SATURATE]
    else:
        cases = load_stochastic_cases(element)
        stored = 8 if sr_bits == 8 else 32
        chosen = [c for c in cases if c.rule is StochasticRule.INTEGER and c.sr_bits == stored]
        given = [(c.x, c.random_bits >> np.uint32(stored - sr_bits)) for c in chosen]
    for arrays in given:
        kept = ~np.isnan(arrays[0])
        if kept.any():
            yield tuple(a[kept] for a in arrays)


def call_failure(label: str, text: str, expected: str = "as in every other call") -> Failure:
    """A failure that is about a call, not about a block."""
    return Failure(
        case=label, given={"call": label}, expected={"call": expected}, returned={"call": text}, steps=[text]
    )  # fmt: skip


def block_failure(
    label: str, text: str, x: npt.NDArray[Any], want: npt.NDArray[Any], got: npt.NDArray[Any]
) -> Failure:  # fmt: skip
    """A block [k] whose answer, scale byte and codes, is another one in this call."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = np.asarray(x).reshape(-1).astype(np.float32)
    lanes = [i for i in range(len(values)) if values.view(np.uint32)[i] or want[1 + i] != got[1 + i]]
    return Failure(
        case=label,
        given={"x": {f"lane {i}": describe_bits(float(values[i])) for i in lanes}, "other lanes": "+0", "call": label},
        expected={"scale": f"{int(want[0]):02x}", "codes": {f"lane {i}": f"{int(want[1 + i]):02x}" for i in lanes}},
        returned={"scale": f"{int(got[0]):02x}", "codes": {f"lane {i}": f"{int(got[1 + i]):02x}" for i in lanes}},
        steps=[text, ALONE],
    )  # fmt: skip


def keep_call(
    failure: Failure, blocks: npt.NDArray[Any], tensor: TensorScales | None, row: int, *, place: npt.NDArray[np.intp] | None = None,
    width: int = 1, axis: int = -1, arrangement: str = "contiguous",
) -> Failure:  # fmt: skip
    """A failure with the call of `quantize` in which a block was wrong, so that a smaller one can be looked for.

    blocks: [n, k]; place: those that were given, in order; None: all; row: the wrong one of them. width: blocks to a row, or to a
    column where the axis is 0.
    """
    kind = (
        CallKind.ARRANGED if arrangement != "contiguous" else CallKind.AXIS if axis == 0 else CallKind.WIDE if width > 1 else CallKind.SIZE
    )
    return CallFailure(
        failure.case, failure.given, failure.expected, failure.returned, failure.steps, failure.also, failure.snippet,
        call=Call(kind, np.arange(len(blocks)) if place is None else place, width, axis, arrangement), blocks=blocks, row=row,
        dtype=str(blocks.dtype), tensor=tensor,
    )  # fmt: skip


def item_failure(label: str, text: str, answered: Answered, item: int, got: npt.NDArray[Any]) -> Failure:
    """An item that was answered before, and gets another answer in this call."""
    want, inputs = answered.before[item], [a[item] for a in answered.inputs]
    if answered.function == "quantize":
        return block_failure(label, text, inputs[0], want, got)
    lane = int(np.argmax(answered.differ(got[None], want[None])[0]))
    if answered.function == "dequantize":
        given = {"code": f"{int(inputs[0][lane]):02x}", "scale": f"{int(inputs[1][0]):02x}", "call": label}
    elif answered.function == "decode":
        given = {"code": f"{int(inputs[0]):02x}", "element": answered.name, "call": label}
    else:
        words = {"word": f"0x{int(inputs[1]):08x}"} if len(inputs) > 1 else {}
        given = {"number": describe_bits(float(inputs[0])), "element": answered.name, **words, "call": label}
    values = answered.function in ("dequantize", "decode")
    texts = [describe_bits(float(a[lane])) if values else f"{int(a[lane]):02x}" for a in (want, got)]
    what = "value" if values else "code"
    return Failure(
        case=label, given=given, expected={what: texts[0]}, returned={what: texts[1]},
        steps=[text, "expected is what the target itself returned in another call"],
    )  # fmt: skip
