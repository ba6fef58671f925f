"""The calls by which a grouped product is judged: the product judge's operands, dealt out to experts, and counts of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, Accumulator, OperandContract
from mxspec_conformance.judge.products.asked import Asked
from mxspec_conformance.judge.products.cases import EVERY, FIRST, ProductCase
from mxspec_conformance.judge.products.draw import takes_tensor_scale
from mxspec_conformance.judge.products.editing import take_rows
from mxspec_conformance.judge.products.making import ListCases, Maker
from mxspec_conformance.judge.products.shrinking import Wrong, find_wrong
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.grouped import GroupedProduct, GroupForm, Placing, place_rows, write_call
from mxspec_conformance.targets.operands import Numbers, OperandKind

OPERATION = "grouped_matmul"
#: Groups of a product's cases whose rows and columns are dealt out, and those of them in every dtype of outputs.
_DEALT = ("identities", "block scales", "ordinary", "scale codes", "one block of each row", "tiles", "contents", "specials among rows")
_DEALT_EVERY = ("sums", "specials", "overflows")
#: What -> how many rows each expert has.
COUNTS: dict[str, tuple[int, ...]] = {
    "no rows, one, odd and many": (5, 0, 1, 130, 7, 0, 33), "the first experts without rows": (0, 0, 3, 17),
    "the last experts without rows": (9, 4, 0, 0), "rows of one expert in the middle": (0, 0, 70, 0), "one expert": (40,),
    "one row each": (1,) * 8, "as many each": (16,) * 6, "fewer and fewer": (66, 34, 9, 3), "more and more": (2, 8, 35, 67),
    "whole tiles": (128, 64, 256, 32), "next to tiles": (127, 65, 129, 63, 31, 33), "257 rows": (200, 57), "511 rows": (255, 0, 256),
    "130 experts": tuple(i % 3 for i in range(130)), "300 experts": tuple((i + 1) % 2 for i in range(300)),
    "64 experts, three with rows": tuple({4: 3, 5: 1, 50: 9}.get(i, 0) for i in range(64)),
}  # fmt: skip
#: More rows than 15 and 16 bits count.
MANY = (33000, 1, 32700, 7, 0, 201)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedCase(ProductCase):
    """One call: a has all rows in the order of their places, those of padding as well, b all matrices one after another.

    Options are alpha [experts] and bias [experts, n].
    """

    placing: Placing
    #: Tensor scales of the matrices, where they have such.
    scales: tuple[float, ...] | None = None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Of the call."""
        return write_call(self.placing, self.a, self.b, self.out_dtype, self.scales)

    def multiply(self, expert: int, places: npt.NDArray[np.intp] | None = None) -> ProductCase:
        """The product of an expert's rows, or of other ones."""
        a = take_rows(self.a, self.placing.places[expert] if places is None else places)
        options = {name: float(x[expert]) if x.ndim == 1 else x[expert] for name, x in self.options.items()}
        n = len(self.b.held) // len(self.placing.places)
        scale = self.b.tensor_scale if self.scales is None else self.scales[expert]
        b = replace(take_rows(self.b, np.arange(n) + n * expert), tensor_scale=scale)
        return ProductCase(topic=self.topic, label=self.label, a=a, b=b, out_dtype=self.out_dtype, options=options)


@dataclass(frozen=True, slots=True)
class Answered(Asked):
    """A call with what came back, and the product of each expert that has rows."""

    case: GroupedCase
    parts: dict[int, Asked] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.output is not None:
            rows = self.output.reshape(self.case.placing.rows, -1)
            self.parts.update({e: Asked(self.case.multiply(e), rows[p]) for e, p in enumerate(self.case.placing.places) if len(p)})

    def judge(self, accumulator: Accumulator, contract: OperandContract) -> tuple[bool, int]:
        """Both."""
        found = [part.judge(accumulator, contract) for part in self.parts.values()]
        return all(right for right, _ in found), sum(certain for _, certain in found)

    def find_wrong(self, accumulator: Accumulator, contract: OperandContract) -> tuple[int, Wrong, str] | None:
        """The first output that is wrong: its expert, the product in which it is, and where it lies in words."""
        for expert, part in self.parts.items():
            if (found := find_wrong(part.case, part.output, accumulator, contract)) is not None:
                places, (row, column) = self.case.placing.places, found
                where = f"row {places[expert][row]} of {self.case.placing.rows}, expert {expert} of {len(places)}"
                return expert, Wrong(part.case, part.output, found), f"{where}, its row {row} of {len(places[expert])}, column {column}"
        return None


def poison(numbers: Numbers, rows: npt.NDArray[Any]) -> Numbers:
    """An operand some of whose rows are NaN throughout."""
    plain = numbers.spec.kind is OperandKind.PLAIN
    array = np.array(numbers.values if plain else numbers.scales)
    array[rows] = np.nan if plain else numbers.spec.block.scale.nan_code
    return replace(numbers, values=array) if plain else replace(numbers, scales=array)


def deal(
    maker: Maker,
    grouped: GroupedProduct,
    a: Numbers,
    b: Numbers,
    counts: Sequence[int],
    *,
    order: int = 0,
    poisoned: bool = False,
    **more: Any,
) -> GroupedCase:
    """A call of rows of a, from the first one again where there are too few, and of so many equal parts of the rows of b."""
    placing = place_rows(grouped.form, counts, maker.sizes.m, order)
    used, place, padding = np.concatenate(placing.places), np.arange(placing.rows), np.ones(placing.rows, np.bool_)
    padding[used], place[used] = False, np.arange(len(used))
    rows = take_rows(a, place % len(a.held))
    n = maker.sizes.fit(1, -(-len(b.held) // len(counts)), 1)[1]
    matrices = take_rows(b, np.arange(n * len(counts)) % len(b.held))
    return GroupedCase(placing=placing, a=poison(rows, padding) if poisoned else rows, b=matrices, **more)


def draw_counts(maker: Maker, grouped: GroupedProduct, counts: Sequence[int], *, wide: int = 3, runs: int = 2, **more: Any) -> GroupedCase:
    """Integers whose sums are certain, neighbouring rows and experts under other scales, for such counts."""
    m, n, k = maker.sizes.fit(sum(counts) or 1, wide, runs * max(maker.a.run, maker.b.run))
    place = np.arange(n * len(counts))
    a, b = (
        writer.numbers(maker.integers(writer, len(powers), k, bits=min(maker.bits, 12)), powers[:, None])
        for writer, powers in ((maker.a, np.arange(m) % 3 - 1), (maker.b, (place + place // n) % 5 - 2))
    )
    return deal(maker, grouped, a, b, counts, **more)


def list_cases(grouped: GroupedProduct, capabilities: Capabilities, accumulator: Accumulator) -> list[GroupedCase]:
    """Every call, the same ones each time."""
    first = capabilities.out_dtypes[0]
    groups: list[tuple[str, ListCases, str]] = [(name, FIRST[name], first) for name in _DEALT]
    groups += [(name, EVERY[name], dtype) for dtype in capabilities.out_dtypes for name in _DEALT_EVERY]

    def make(name: str) -> Maker:
        return Maker(grouped, capabilities, accumulator, crc32(f"grouped {name}".encode()))

    found = [(case, dtype) for name, group, dtype in groups for case in _deal_out(make(f"{name} {dtype}"), grouped, group, dtype)]
    found += [(case, first) for case in _list_positions(make("positions"), grouped)]
    found += [(case, dtype) for dtype in capabilities.out_dtypes for case in _list_factors(make(f"factors {dtype}"), grouped, dtype)]
    return [replace(x, out_dtype=dtype, label=x.label if dtype == first else f"{x.label}, {dtype}") for x, dtype in found]


def list_topics(grouped: GroupedProduct, capabilities: Capabilities) -> list[str]:
    """The topics by which a grouped product is judged."""
    cases = list_cases(grouped, capabilities, ACCUMULATORS[DEFAULT_ACCUMULATOR])
    return [*dict.fromkeys(case.topic for case in cases), "memory", "state", "refusal", "call-size"]


def _deal_out(maker: Maker, grouped: GroupedProduct, group: ListCases, dtype: str) -> Iterator[GroupedCase]:
    """Cases of a product, their rows dealt out unevenly to four experts, one of which gets none and one a single one."""
    for number, case in enumerate(group(maker, dtype)):
        rows = max(len(case.a.held), 5)
        few = rows // 3 + number % 2
        yield deal(maker, grouped, case.a, case.b, (rows - few - 1, 0, 1, few), topic=case.topic, label=case.label, order=number)


def _list_positions(maker: Maker, grouped: GroupedProduct) -> Iterator[GroupedCase]:
    for number, (what, counts) in enumerate(COUNTS.items()):
        yield draw_counts(maker, grouped, counts, topic="position", label=what, order=number)
    yield draw_counts(maker, grouped, (150, 0, 67, 2), wide=130, topic="position", label="many columns")
    yield draw_counts(maker, grouped, (19, 0, 67, 2), runs=35, topic="position", label="many blocks")
    for what, counts in list(COUNTS.items())[:6] if grouped.form in (GroupForm.PADDED, GroupForm.MASKED) else ():
        yield draw_counts(maker, grouped, counts, topic="padding", label=f"NaN in padding, {what}", poisoned=True)
    case = draw_counts(maker, grouped, (6, 0, 1, 35, 9), topic="nan", label="")
    matrices = np.arange(len(case.b.held)).reshape(5, -1)
    for expert, places in enumerate(case.placing.places):
        yield replace(case, label=f"all of expert {expert} NaN, which has {len(places)} rows", b=poison(case.b, matrices[expert]))
        yield replace(case, label=f"all {len(places)} rows of expert {expert} NaN", a=poison(case.a, places))


def _list_factors(maker: Maker, grouped: GroupedProduct, dtype: str) -> Iterator[GroupedCase]:
    """Tensor scales, alpha and bias, another one of each expert."""
    counts, (of_a, of_b) = (3, 0, 1, 131, 2), (takes_tensor_scale(spec) for spec in (grouped.a, grouped.b))
    n, k = maker.sizes.fit(1, 5, max(maker.a.run, maker.b.run))[1:]
    a, b = maker.positive(maker.a, 24, k), maker.positive(maker.b, n * len(counts), k)
    factors = np.array((0.3712, 1.0, 3.0, 0.6875, 1.9045), np.float32)
    case = deal(maker, grouped, a, b, counts, topic="tensor-scale", label="of experts", scales=tuple(factors.tolist()) if of_b else None)
    yield from (case, replace(case, topic="nan", label="NaN as a tensor scale", scales=(1.0, 1.0, 2.0, np.nan, 0.5)))[: 2 * of_b]
    yield from [replace(case, label="of a, and of experts", a=replace(case.a, tensor_scale=1.75))] * of_a
    bias = (np.arange(n * len(counts)) * 5 % 23 - 11).reshape(len(counts), n).astype(DTYPES[dtype])
    taken = {name: x for name, x in (("alpha", -factors), ("bias", bias)) if maker.capabilities.has(OPERATION, name)}
    case = draw_counts(maker, grouped, counts, wide=5, runs=1, topic="epilogue", label="", scales=case.scales)
    for options in (*({name: x} for name, x in taken.items()), *[taken] * (len(taken) > 1)):
        yield replace(case, label=f"{' and '.join(options)} of each expert", options=options)
