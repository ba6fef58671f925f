"""The exact result of a product's case, and the outputs that a class of accumulations allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import Accumulator, Allowed, Contract, Factor, Sums
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.targets.operands import Numbers, OperandKind


def make_factor(numbers: Numbers) -> Factor:
    """One side as the model multiplies it."""
    if numbers.spec.kind is OperandKind.PLAIN:
        assert numbers.values is not None
        return dot.plain_factor(numbers.values)
    scale = 1.0 if numbers.tensor_scale is None else numbers.tensor_scale
    return dot.block_factor(numbers.codes, numbers.scales, numbers.spec.block, tensor_scale=scale)


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


def refer(a: Factor, b: Factor) -> Reference:
    """The exact sums of two sides."""
    return Reference(a, b, dot.sum_products(a, b))


def refer_case(case: ProductCase, contract: Contract = Contract.EXACT) -> Reference:
    """The exact sums of a case, its block sides rounded as a contract says."""
    return refer(*make_sides(case, contract))


def make_sides(case: ProductCase, contract: Contract = Contract.EXACT) -> tuple[Factor, Factor]:
    """Both sides as the model multiplies them, block sides rounded as a contract says."""
    sides = []
    for numbers in (case.a, case.b):
        factor = make_factor(numbers)
        sides.append(dot.apply_contract(factor, contract) if numbers.spec.kind is OperandKind.BLOCK else factor)
    return sides[0], sides[1]


def allow(reference: Reference, case: ProductCase, accumulator: Accumulator) -> Allowed:
    """The outputs that a class may give to a case."""
    epilogue = dot.Epilogue(**case.options)
    return dot.allow_outputs(
        reference.sums, accumulator, case.out_dtype, tensor_scale=reference.tensor_scale, epilogue=epilogue
    )


def round_exactly(reference: Reference, case: ProductCase) -> npt.NDArray[Any]:
    """The correctly rounded outputs of a case."""
    epilogue = dot.Epilogue(**case.options)
    return dot.finish_product(reference.sums, case.out_dtype, tensor_scale=reference.tensor_scale, epilogue=epilogue)


def change_values(factor: Factor, values: npt.NDArray[np.float64]) -> Factor:
    """A side of other numbers."""
    return replace(dot.exact_factor(values), tensor_scale=factor.tensor_scale)
