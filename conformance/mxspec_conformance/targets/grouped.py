"""Grouped products: rows of a, each multiplied with one of several matrices b, and the ways in which a kernel learns which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec, Product, parse_product
from mxspec_conformance.targets.product_sizes import find_sizes

#: Rows to a multiple of which a padded form fills up each expert where the target declares no multiple of m.
PADDED_TO = 128


class GroupForm(StrEnum):
    """How the rows of experts lie in a, and what `groups` says of them."""

    #: a [rows, k] sorted by expert; groups [experts]: how many rows each has.
    COUNTS = "counts"
    #: The same; groups [experts + 1]: where the rows of each begin, and where the last ones end.
    OFFSETS = "offsets"
    #: The same, each expert's rows filled up to whole tiles; groups [rows]: the expert of each row, -1 of padding.
    PADDED = "padded"
    #: a [experts, most rows, k]; groups [experts]: how many rows of each count.
    MASKED = "masked"
    #: a [rows, k] in any order; groups [rows]: the expert of each row.
    INDEXED = "indexed"


@dataclass(frozen=True, slots=True)
class GroupedProduct(Product):
    """Both operands of a grouped product, and its form."""

    form: GroupForm

    @property
    def text(self) -> str:
        """As a description writes it."""
        return f"{self.a.text} @ {self.b.text} : {self.form}"

    @property
    def name(self) -> str:
        """As requirement ids have it."""
        return f"{self.a.name}@{self.b.name}-{self.form}"


def parse_grouped(given: Any) -> GroupedProduct:
    """A grouped product from {"a": text, "b": text, "form": name} or from "A @ B : FORM". Raises ValueError for anything else."""
    form, sides = "", given
    if isinstance(given, Mapping):
        form, sides = str(given.get("form", "")), {name: text for name, text in given.items() if name != "form"}
    elif isinstance(given, str):
        sides, _, form = str.rpartition(given, ":")
    if form.strip() not in list(GroupForm):
        said = f"{form.strip()!r} is no form" if form.strip() else "it names no form"
        raise ValueError(f'{said}; write {{"a": "mxfp8_e4m3", "b": "mxfp4", "form": "counts"}}; forms are {", ".join(GroupForm)}')
    product = parse_product(sides)
    for spec in (product.a, product.b):
        if spec.kind is OperandKind.AFFINE or spec.sparsity is not None:
            raise ValueError(f"{spec.text} is an affine or sparse operand; grouped products are judged of block formats and floats")
    return GroupedProduct(product.a, product.b, GroupForm(form.strip()))


@dataclass(frozen=True, slots=True)
class Placing:
    """Where the rows of experts lie."""

    form: GroupForm
    groups: tuple[int, ...]
    #: Of each expert the places of its rows among all rows of a; in the masked form those of all experts one after another.
    places: tuple[npt.NDArray[np.intp], ...]
    #: All rows of a, padding included.
    rows: int


def place_rows(form: GroupForm, counts: Iterable[int], step: int, order: int = 0) -> Placing:
    """Where so many rows of each expert lie, every count rounded up to a multiple of step but in forms that pad.

    order: in the indexed form, one of several orders of the rows.
    """
    real = np.array([*counts], np.intp)
    step = PADDED_TO if form is GroupForm.PADDED and step == 1 else step
    whole = -(-real // step) * step
    used = real if form in (GroupForm.PADDED, GroupForm.MASKED) else whole
    if form is GroupForm.MASKED:  # no expert fills its rows
        whole = np.full(len(real), (whole.max(initial=0) // step + 1) * step)
    ends = np.cumsum(whole)
    rows = int(whole.sum()) + step * (form is GroupForm.PADDED)  # buffers are longer than what is used of them
    order_of = np.random.default_rng(order).permutation(rows) if form is GroupForm.INDEXED else np.arange(rows)
    places = tuple(np.sort(order_of[start : start + count]) for start, count in zip(ends - whole, used, strict=True))
    groups = np.array([0, *ends]) if form is GroupForm.OFFSETS else used
    if form in (GroupForm.PADDED, GroupForm.INDEXED):
        groups = list_experts(places, rows)
    return Placing(form, tuple(groups.tolist()), places, rows)


def list_experts(places: Iterable[npt.NDArray[np.intp]], rows: int) -> npt.NDArray[np.intp]:
    """The expert of every row, -1 of padding."""
    experts = np.full(rows, -1)
    for expert, chosen in enumerate(places):
        experts[chosen] = expert
    return experts


def write_call(placing: Placing, a: Numbers, b: Numbers, out_dtype: str, scales: Sequence[float] | None = None) -> tuple[Any, ...]:
    """The arguments of a call. a: all rows, in the order of their places; b: the matrices one after another; scales: their tensor scales."""

    def stack(numbers: Numbers, scales: Sequence[float] | None = None) -> tuple[Any, ...]:
        text, *arrays, scale, _, _ = numbers.as_data()
        parts = [None if p is None else p.reshape(count, -1, p.shape[1]) for p in arrays]
        scales = [scale] * count if scales is None and scale is not None else scales
        return text, *parts, None if scales is None else np.array(scales, np.float32), None, None

    count = len(placing.places)
    rows = stack(a) if placing.form is GroupForm.MASKED else a.as_data()
    return rows, stack(b, scales), placing.groups, placing.form.value, out_dtype


def make_call(
    grouped: GroupedProduct, make: Callable[[OperandSpec, int, int], Numbers], multiples: tuple[int, int, int], out_dtype: str,
    *, least: tuple[int, int] = (24, 256),
) -> tuple[Any, ...]:  # fmt: skip
    """The arguments of a small call of three experts, one of which has no rows. make: spec, rows, k -> an operand; least: n and k."""
    sizes = find_sizes(grouped, multiples)
    placing, (_, n, k) = place_rows(grouped.form, (9, 0, 7), sizes.m), sizes.fit(1, *least)
    return write_call(placing, make(grouped.a, placing.rows, k), make(grouped.b, 3 * n, k), out_dtype)
