"""The sizes of products that a target takes: its own multiples, whole blocks and groups, whole tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mxspec.layouts import Padding, get_layout
from mxspec_conformance.targets.operand_words import ROW_MAJOR, SQUARE, UNPACKED, WORDS
from mxspec_conformance.targets.operands import OperandSpec, Product

#: Multiples of n and k that a kernel gets which is compiled for each of them: one step, and a tail behind several tiles.
_FEW = (1, 18, 66, 258, 1026)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Multiples of m, n and k that a target takes of one product."""

    m: int
    n: int
    k: int
    #: Whether few shapes of b are used.
    few: bool = False

    def fit(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """The smallest sizes at least these that are taken."""
        return _round_up(m, self.m), self._fit(n, self.n), self._fit(k, self.k)

    def _fit(self, size: int, step: int) -> int:
        times = -(-size // step)
        return step * (min((f for f in _FEW if f >= times), default=times) if self.few and times else times)


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def find_sizes(product: Product, multiples: tuple[int, int, int], *, few: bool = False) -> Sizes:
    """The sizes that a target takes: whole blocks, its own multiples, and whole tiles where a layout does not pad.

    few: of n and k some alone, since each shape of b costs a compilation.
    """
    m, n, k = multiples
    rows = []
    for spec, own in ((product.a, m), (product.b, n)):
        k = math.lcm(k, spec.group, 1 if spec.sparsity is None else spec.sparsity.group)
        tile = 1
        for tall, wide in _list_tiles(spec):
            tile, k = math.lcm(tile, tall), math.lcm(k, wide)
        rows.append(math.lcm(own, tile))
    return Sizes(rows[0], rows[1], k, few)


def _list_tiles(spec: OperandSpec) -> Iterator[tuple[int, int]]:
    """(rows, k) of the tiles of each part's layout that does not pad."""
    nibble = 1 if spec.sparsity is None else spec.sparsity.group
    # Zero points lie [groups, rows] in their layouts.
    for word, covers, turned in (
        (spec.codes, spec.stored, False), (spec.scales, spec.group, False), (spec.offsets, spec.group, True), (spec.metadata, nibble, False),
    ):  # fmt: skip
        if word == WORDS:
            yield 1, covers * 32 // math.gcd(32, spec.affine.bits)
        if word in (UNPACKED, ROW_MAJOR, WORDS, SQUARE):
            continue
        layout = get_layout(word)
        if layout.padding is Padding.REFUSED:
            tall, wide = layout.pad_to or layout.tile
            yield (wide, tall * covers) if turned else (tall, wide * covers)
