"""The exact result of a product's case, and the outputs that a class of accumulations allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import EXACTLY, Accumulator, Allowed, Factor, OperandContract, Sums
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec, Product


# One case is judged under a hundred mistakes, most of which leave at least one of its operands alone.
@lru_cache(maxsize=16)
def make_factor(numbers: Numbers, contract: OperandContract = EXACTLY) -> Factor:
    """One side as a kernel with a contract multiplies it; a plain side is what it is, but for float32 where the contract says so."""
    spec = numbers.spec
    scale = 1.0 if numbers.tensor_scale is None else numbers.tensor_scale
    if numbers.metadata is not None:
        assert spec.sparsity is not None
        factor = dot.sparse_factor(
            numbers.held, numbers.metadata, spec.format, numbers.scales, numbers.offsets, sparsity=spec.sparsity,
            contract=contract.affine if spec.kind is OperandKind.AFFINE else "exact", tensor_scale=scale,
        )  # fmt: skip
    elif spec.kind is OperandKind.AFFINE:
        factor = dot.affine_factor(numbers.codes, numbers.scales, numbers.offsets, spec.affine, contract=contract.affine)
    elif spec.kind is OperandKind.BLOCK:
        factor = dot.block_factor(numbers.codes, numbers.scales, spec.block, tensor_scale=scale)
    else:
        factor = dot.plain_factor(numbers.held)
    if spec.kind is OperandKind.PLAIN and (spec.format != "float32" or not contract.plain):
        return factor
    return dot.apply_contract(factor, contract.held)


def list_contracts(product: Product) -> tuple[OperandContract, ...]:
    """The contracts that a product's kernel may follow; that nothing is rounded is the first."""
    sides = (product.a, product.b)
    has_float32 = any(side.kind is OperandKind.PLAIN and side.format == "float32" for side in sides)
    affine = [side.affine for side in sides if side.kind is OperandKind.AFFINE]
    return dot.list_operand_contracts(affine, has_float32=has_float32, all_plain=_are_plain(sides))


def read_contract(text: str, sides: Sequence[OperandSpec]) -> OperandContract:
    """The contract that a text means for these sides. Raises ValueError for a text that is none."""
    affine = [side.affine for side in sides if side.kind is OperandKind.AFFINE]
    return dot.parse_operand_contract(text, affine, all_plain=_are_plain(sides))


def _are_plain(sides: Sequence[OperandSpec]) -> bool:
    return all(side.kind is OperandKind.PLAIN for side in sides)


@dataclass(frozen=True, slots=True)
class Reference:
    """A case's sides, and its exact sums under one contract."""

    a: Factor
    b: Factor
    sums: Sums

    @property
    def tensor_scale(self) -> float:
        """The product of both sides' tensor scales, exact: 24 bits times 24."""
        return self.a.tensor_scale * self.b.tensor_scale


#: a and b.
Sides = tuple[Factor, Factor]


def refer(a: Factor, b: Factor) -> Reference:
    """The exact sums of two sides."""
    return Reference(a, b, dot.sum_products(a, b))


def refer_case(case: ProductCase, contract: OperandContract = EXACTLY) -> Reference:
    """The exact sums of a case, its sides rounded as a contract says."""
    return refer(*make_sides(case, contract))


def make_sides(case: ProductCase, contract: OperandContract = EXACTLY) -> Sides:
    """Both sides as the model multiplies them, rounded as a contract says."""
    return make_factor(case.a, contract), make_factor(case.b, contract)


def allow(reference: Reference, case: ProductCase, accumulator: Accumulator) -> Allowed:
    """The outputs that a class may give to a case."""
    epilogue = dot.Epilogue(**case.options)
    sums = reference.sums
    if any(side.spec.kind is OperandKind.BLOCK and side.spec.block.scale.bits > 8 for side in (case.a, case.b)):
        # The product of both scales, and the sum that it multiplies, are rounded as well.
        sums = replace(sums, k=sums.k + 2)
    if accumulator.promoted:
        sums = replace(sums, aligned=dot.sum_alignments(reference.a, reference.b))
    return dot.allow_outputs(sums, accumulator, case.out_dtype, tensor_scale=reference.tensor_scale, epilogue=epilogue)


def is_same_factor(one: Factor, other: Factor) -> bool:
    """Whether two sides are multiplied alike: the same bits, in the same parts, in the same places."""
    pairs = ((one.values, other.values), (one.exponents, other.exponents), (one.rest, other.rest), (one.kept, other.kept))
    return one.tensor_scale == other.tensor_scale and all(_is_same(a, b) for a, b in pairs)


def _is_same(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or (a.dtype == b.dtype and np.array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}")))


def round_exactly(reference: Reference, case: ProductCase) -> npt.NDArray[Any]:
    """The correctly rounded outputs of a case."""
    epilogue = dot.Epilogue(**case.options)
    return dot.finish_product(reference.sums, case.out_dtype, tensor_scale=reference.tensor_scale, epilogue=epilogue)


def select_rows(factor: Factor, rows: npt.NDArray[np.intp]) -> Factor:
    """A side with some of its rows alone."""
    return replace(
        factor, values=factor.values[rows], exponents=factor.exponents[rows],
        rest=None if factor.rest is None else factor.rest[rows], kept=None if factor.kept is None else factor.kept[rows],
    )  # fmt: skip


def change_values(factor: Factor, values: npt.NDArray[np.float64]) -> Factor:
    """A side of other numbers, which float64 holds."""
    return replace(dot.exact_factor(values), tensor_scale=factor.tensor_scale, kept=factor.kept)


def change_parts(factor: Factor, change: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> Factor:
    """A side with the same made of each of its parts."""
    changed = change_values(factor, change(factor.values))
    return changed if factor.rest is None else replace(changed, rest=change(factor.rest))
