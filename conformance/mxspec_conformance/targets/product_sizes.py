"""The sizes of products that a target takes: its own multiples, whole blocks, whole tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mxspec.layouts import Padding, get_layout
from mxspec_conformance.targets.operands import ROW_MAJOR, UNPACKED, OperandKind, Product


@dataclass(frozen=True, slots=True)
class Sizes:
    """Multiples of m, n and k that a target takes of one product."""

    m: int
    n: int
    k: int

    def fit(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """The smallest sizes at least these that are taken."""
        return tuple(-(-want // step) * step for want, step in ((m, self.m), (n, self.n), (k, self.k)))  # type: ignore[return-value]


def find_sizes(product: Product, multiples: tuple[int, int, int]) -> Sizes:
    """The sizes that a target takes: whole blocks, its own multiples, and whole tiles where a layout does not pad."""
    m, n, k = multiples
    rows = []
    for spec, own in ((product.a, m), (product.b, n)):
        tile = 1
        if spec.kind is OperandKind.BLOCK:
            k = math.lcm(k, spec.block.k)
            for name, covers in ((spec.codes, 1), (spec.scales, spec.block.k)):
                if name in (UNPACKED, ROW_MAJOR):
                    continue
                layout = get_layout(name)
                if layout.padding is Padding.REFUSED:
                    tall, wide = layout.pad_to or layout.tile
                    tile, k = math.lcm(tile, tall), math.lcm(k, wide * covers)
        rows.append(math.lcm(own, tile))
    return Sizes(rows[0], rows[1], k)
