"""What a mistake is: the case that a right kernel would have been given to return the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import EXACTLY, Accumulator, OperandContract, Special
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.reference import Sides, allow, make_factor, refer, round_exactly
from mxspec_conformance.targets.operands import Numbers

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: its words, and the case that a right kernel would have been given to return the same."""

    text: str
    #: The case as the mistaken kernel computes it; None where the mistake cannot be made there.
    change: Callable[[ProductCase], ProductCase | None]
    #: What becomes of the sides' numbers.
    factors: Callable[[ProductCase, Sides, OperandContract], Sides | None] | None = None
    #: What becomes of the correctly rounded outputs.
    outputs: Callable[[ProductCase, Floats], Floats | None] | None = None

    def explains(
        self, case: ProductCase, output: npt.NDArray[Any], accumulator: Accumulator, contract: OperandContract = EXACTLY
    ) -> bool:
        """Whether a kernel of the class and contract that makes this mistake returns these outputs."""
        return self._returns(case, output, accumulator, contract, elsewhere=False)

    def fits(
        self, case: ProductCase, output: npt.NDArray[Any], accumulator: Accumulator, contract: OperandContract = EXACTLY
    ) -> bool:
        """Whether it may return these outputs: also where the mistake cannot be made."""
        return self._returns(case, output, accumulator, contract, elsewhere=True)

    def _returns(
        self, case: ProductCase, output: npt.NDArray[Any], accumulator: Accumulator, contract: OperandContract, *, elsewhere: bool
    ) -> bool:
        changed = self.change(case)
        if changed is None:
            return elsewhere
        sides: Sides | None = make_factor(changed.a, contract), make_factor(changed.b, contract)
        if self.factors is not None and sides is not None:
            sides = self.factors(changed, sides, contract)
        if sides is None:
            return elsewhere
        reference = refer(*sides)
        if self.outputs is None:
            return bool(allow(reference, changed, accumulator).accepts(output).all())
        written = replace(changed, out_dtype="float32")
        exact = round_exactly(reference, written).astype(np.float64)
        allowed = allow(reference, written, accumulator)
        # A mistake in writing outputs is made of whatever the sums and the epilogue may have given before.
        decided = allowed.decided | (allowed.special != Special.FINITE)
        low, high = (self.outputs(changed, np.where(decided, exact, end)) for end in (allowed.low, allowed.high))
        if low is None or high is None:
            return elsewhere
        y = output.astype(np.float64)
        inside = (y >= np.minimum(low, high)) & (y <= np.maximum(low, high))
        largest = float(dot.OUTPUTS[case.out_dtype].max_value)
        # Beyond the largest number a kernel may saturate or not.
        beyond = (np.abs(exact) > largest) & ((y == np.copysign(np.inf, exact)) | (y == np.copysign(largest, exact)))
        return bool((inside | (np.isnan(low) & np.isnan(y)) | beyond).all())


def keep_case(case: ProductCase) -> ProductCase | None:
    """The case itself: a mistake in what the numbers mean changes none."""
    return case


def replace_side(case: ProductCase, side: str, numbers: Numbers | None) -> ProductCase | None:
    """The case with other numbers on one side; None without them."""
    if numbers is None:
        return None
    return replace(case, a=numbers) if side == "a" else replace(case, b=numbers)
