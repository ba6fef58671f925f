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
from mxspec_conformance.judge.products.reference import Sides, allow, make_factor, refer, round_exactly, select_rows
from mxspec_conformance.targets.operands import Numbers

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Places:
    """Some outputs of a case: where a few rows and a few columns cross."""

    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]

    @property
    def index(self) -> Any:
        """What takes them out of [m, n]."""
        return np.ix_(self.rows, self.columns)


def pick_places(chosen: npt.NDArray[np.bool_]) -> Places | None:
    """The first and the last of the chosen outputs [m, n], with those that cross them; None where none is chosen."""
    places = np.argwhere(chosen)
    if not len(places):
        return None
    ends = places[[0, -1]]
    return Places(np.unique(ends[:, 0]), np.unique(ends[:, 1]))


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: its words, and the case that a right kernel would have been given to return the same."""

    text: str
    #: The case as the mistaken kernel computes it; None where the mistake cannot be made there.
    change: Callable[[ProductCase], ProductCase | None]
    #: What becomes of the sides' numbers.
    factors: Callable[[ProductCase, Sides, OperandContract], Sides | None] | None = None
    #: What becomes of the correctly rounded outputs, and of the case as it was given.
    outputs: Callable[[ProductCase, Floats], Floats | None] | None = None
    #: Whether it shows in whatever else is wrong, too: nothing that another mistake explains better has its name.
    is_general: bool = False

    def explains(
        self,
        case: ProductCase,
        output: npt.NDArray[Any],
        accumulator: Accumulator,
        contract: OperandContract = EXACTLY,
        *,
        first: Places | None = None,
    ) -> bool:
        """Whether a kernel of the class and contract that makes this mistake returns these outputs.

        first: outputs to look at before all others, those that are wrong: they tell most mistakes at a fraction of the work.
        """
        return self._returns(case, output, accumulator, contract, elsewhere=False, first=first)

    def fits(self, case: ProductCase, output: npt.NDArray[Any], accumulator: Accumulator, contract: OperandContract = EXACTLY) -> bool:
        """Whether it may return these outputs: also where the mistake cannot be made."""
        return self._returns(case, output, accumulator, contract, elsewhere=True)

    def _returns(
        self,
        case: ProductCase,
        output: npt.NDArray[Any],
        accumulator: Accumulator,
        contract: OperandContract,
        *,
        elsewhere: bool,
        first: Places | None = None,
    ) -> bool:
        changed = self.change(case)
        if changed is None:
            return elsewhere
        sides: Sides | None = make_factor(changed.a, contract), make_factor(changed.b, contract)
        if self.factors is not None and sides is not None:
            sides = self.factors(changed, sides, contract)
        if sides is None:
            return elsewhere
        if self.outputs is None and first is not None and (sides[0].rows, sides[1].rows) == output.shape:
            few = refer(select_rows(sides[0], first.rows), select_rows(sides[1], first.columns))
            if not allow(few, _select_options(changed, first), accumulator).accepts(output[first.index]).all():
                return False
        reference = refer(*sides)
        if self.outputs is None:
            return bool(allow(reference, changed, accumulator).accepts(output).all())
        written = replace(changed, out_dtype="float32")
        exact = round_exactly(reference, written).astype(np.float64)
        allowed = allow(reference, written, accumulator)
        # A mistake in writing outputs is made of whatever the sums and the epilogue may have given before.
        decided = allowed.decided | (allowed.special != Special.FINITE)
        low, high = (self.outputs(case, np.where(decided, exact, end)) for end in (allowed.low, allowed.high))
        if low is None or high is None:
            return elsewhere
        y = output.astype(np.float64)
        inside = (y >= np.minimum(low, high)) & (y <= np.maximum(low, high))
        largest = float(dot.OUTPUTS[case.out_dtype].max_value)
        # Beyond the largest number a kernel may saturate or not.
        beyond = (np.abs(exact) > largest) & ((y == np.copysign(np.inf, exact)) | (y == np.copysign(largest, exact)))
        return bool((inside | (np.isnan(low) & np.isnan(y)) | beyond).all())


def _select_options(case: ProductCase, places: Places) -> ProductCase:
    """The case with the epilogue of some outputs alone."""
    chosen: dict[str, Any] = {"c": places.index, "bias": places.columns}
    return replace(case, options={k: v[chosen[k]] if v is not None and k in chosen else v for k, v in case.options.items()})


def keep_case(case: ProductCase) -> ProductCase | None:
    """The case itself: a mistake in what the numbers mean changes none."""
    return case


def replace_side(case: ProductCase, side: str, numbers: Numbers | None) -> ProductCase | None:
    """The case with other numbers on one side; None without them."""
    if numbers is None:
        return None
    return replace(case, a=numbers) if side == "a" else replace(case, b=numbers)
