"""What cases of a product are made with: a writer for each side, sizes that are taken, and integers whose sums are certain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mxspec.dot import Accumulator
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.draw import OperandWriter, Reach, make_writer
from mxspec_conformance.judge.products.variety import find_taken
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.operands import Numbers, Product
from mxspec_conformance.targets.product_sizes import find_sizes

#: Bits of the sums that an epilogue scales and adds to.
_LONG_BITS = 18


class Maker:
    """Makes the operands of one product's cases; what is drawn depends on what was drawn before."""

    def __init__(self, product: Product, capabilities: Capabilities, accumulator: Accumulator, seed: int) -> None:
        self.capabilities = capabilities
        self.sizes = find_sizes(product, capabilities.product_shapes, few=capabilities.few_shapes)
        self.bits = min(accumulator.sure_bits, 24)
        draw = np.random.default_rng(seed)
        self.a, self.b = make_writer(product.a, draw), make_writer(product.b, draw)
        self.draw = draw
        self.takes = find_taken(capabilities)

    def integers(self, writer: OperandWriter, rows: int, k: int, *, reach: Reach = Reach.MANY, bits: int | None = None) -> Any:
        """Codes [rows, k] of integers whose sums fit the bits that are certain, or so many."""
        most = math.isqrt((1 << (self.bits if bits is None else bits)) // (2 * k))
        codes = writer.lattice(max(most, 1), reach)
        return writer.pick(codes, rows, k)

    def positive(self, writer: OperandWriter, rows: int, k: int) -> Numbers:
        """The same of one sign, as a side."""
        codes = self.integers(writer, rows, k)
        return writer.numbers(np.where(writer.values[codes] < 0, self.negate(writer, codes), codes))

    def negate(self, writer: OperandWriter, codes: Any) -> Any:
        """The codes of the negatives; zero where the format has none."""
        lookup = {float(v): c for c, v in reversed(list(enumerate(writer.values.tolist())))}
        table = np.array([lookup.get(-float(v), lookup[0.0]) for v in writer.values])
        return table[codes]

    def short(self, writer: OperandWriter, rows: int, k: int) -> Any:
        """Integers of sums to which a scaled C and bias are added exactly."""
        return self.integers(writer, rows, k, bits=min(self.bits, _LONG_BITS))


#: Makes the cases of a group for a dtype of outputs.
ListCases = Callable[[Maker, str], Iterable[ProductCase]]
