"""Items (blocks, or single numbers) with the answers that a target gave in the calls that were judged by the vectors.

What it has to return for them in every other call is what it returned there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.rounding import Overflow
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.quantize import Observed, group_rows, tensor_argument
from mxspec_conformance.observations.tables import ObservedTable, rotated_table, same_values
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import StochasticRule, load_decode_cases, load_encode_cases, load_stochastic_cases

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
    )


def answered_table(session: TargetSession, fmt: BlockFormat, tables: Sequence[ObservedTable]) -> Answered | None:
    """Codes and scale bytes of the first table that was answered."""
    for item in tables:
        if not isinstance(item.returned, NoAnswer):
            codes, scales = rotated_table(fmt)
            return Answered(
                function="dequantize",
                inputs=(codes, scales[:, None]),
                name=fmt.name,
                kwargs=dict(tensor_argument(item.case.tensor, session.capabilities)),
                before=item.returned,
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
        given = [(c.x, c.random_bits) for c in cases if c.rule is StochasticRule.INTEGER and c.sr_bits == sr_bits]
    for arrays in given:
        kept = ~np.isnan(arrays[0])
        if kept.any():
            yield tuple(a[kept] for a in arrays)


def call_failure(label: str, text: str) -> Failure:
    """A failure that is about a call, not about a block."""
    return Failure(case=label, given={"call": label}, expected={}, returned={}, steps=[text])
