"""Models of how products are added, each with a name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import ACCUMULATORS, Accumulator, Direction, Factor, Order
from mxspec_conformance.identification.products.identity import ProductIdentity

#: Into how many runs split-k cuts k.
_PARTS = (2, 4, 8, 16, 32)
_NEAREST = ACCUMULATORS["float32-nearest"]


@dataclass(frozen=True, slots=True)
class Model:
    """One accumulation of a class, as `mxspec.dot.simulate_product` takes it."""

    unit: Accumulator
    order: Order = Order.FORWARD
    direction: Direction = Direction.NEAREST
    fused: bool = False
    parts: int = 1


def list_models(found: ProductIdentity) -> Iterator[tuple[str, Model]]:
    """Models that may have given the answers: every published class, and groups of the widths that were found."""
    for name in ("float32-nearest", "float16", "bfloat16"):
        for direction in dict.fromkeys((Direction.NEAREST, Direction.ZERO, found.rounding or Direction.NEAREST)):
            for order in Order:
                yield f"{name}, {order.value}, each sum {direction.value}", Model(ACCUMULATORS[name], order, direction)
    for fused in (True, False):
        for parts in _PARTS if not fused else (1, *_PARTS):
            words = f", {parts} runs of k summed apart" if parts > 1 else ""
            yield f"float32-nearest, forward{', by FMA' * fused}{words}", Model(_NEAREST, fused=fused, parts=parts)
    for unit in ACCUMULATORS.values():
        if unit.group:
            yield unit.name, Model(unit)
    if found.near_bits is not None and found.far_bits is not None:
        for group in (4, 8, 16, 32, 64, 128):
            for promoted in (0, 64, 128, 256):
                unit = Accumulator(
                    name="", text="", precision=found.far_bits + 1, group=group, fraction=found.near_bits,
                    output_fraction=found.far_bits, promoted=promoted,
                )  # fmt: skip
                name = f"groups of {group}, {found.near_bits} bits below the largest exponent, output of {found.far_bits}"
                yield name + (f", promoted every {promoted}" if promoted else ""), Model(unit)


def simulate(a: Factor, b: Factor, model: Model, *, align_zeros: bool = False) -> npt.NDArray[np.float64]:
    """The outputs [m, n] of the factors [m, k] and [n, k] by a model."""
    return dot.simulate_product(
        a, b, model.unit, order=model.order, direction=model.direction, fused=model.fused, parts=model.parts, align_zeros=align_zeros
    )
