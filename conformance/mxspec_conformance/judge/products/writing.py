"""Numbers written as one operand of a product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mxspec.dot import PLAIN_DTYPES
from mxspec_conformance.judge.products.draw import OperandWriter, make_writer
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec

#: Exponents of plain numbers.
_PLAIN_RANGE = {
    "float32": (-60, 60), "bfloat16": (-60, 60), "float16": (-14, 15), "float8_e4m3fn": (-6, 8), "float8_e5m2": (-14, 15),
}  # fmt: skip


@dataclass(frozen=True)
class Writer:
    """Writes questions as operands of one side's format."""

    spec: OperandSpec

    @cached_property
    def writer(self) -> OperandWriter:
        """What writes codes of this side."""
        return make_writer(self.spec, np.random.default_rng(0))

    @cached_property
    def codes(self) -> dict[float, int]:
        """Code of each value."""
        return {float(v): c for c, v in reversed(list(enumerate(self.writer.values))) if np.isfinite(v)}

    @cached_property
    def powers(self) -> tuple[int, int]:
        """Exponents of the powers of two among the elements; of plain numbers a range that products do not leave."""
        if self.spec.kind is OperandKind.PLAIN:
            return _PLAIN_RANGE[self.spec.format]
        found = [int(np.frexp(v)[1]) - 1 for v in self.codes if v > 0 and np.frexp(v)[0] == 0.5]
        return min(found), max(found)

    @property
    def run(self) -> int:
        """Numbers that share a scale; 0: none do."""
        return 0 if self.spec.kind is OperandKind.PLAIN else self.spec.group

    @property
    def scales(self) -> tuple[int, int]:
        """Exponents of the block scales."""
        if not self.run:
            return 0, 0
        if self.spec.kind is OperandKind.AFFINE:
            return self.writer.powers
        return (-60, 60) if self.spec.block.is_mx else (-6, 8)

    def has_room(self, values: npt.NDArray[np.float64]) -> bool:
        """Whether a sparse side keeps all numbers that are not zero."""
        rule = self.spec.sparsity
        if rule is None:
            return True
        used = (values.reshape(len(values), -1, 4, rule.unit) != 0).any(axis=-1)
        return bool((used.sum(axis=-1) <= 2).all())

    def write(self, values: npt.NDArray[np.float64], exponents: npt.NDArray[np.int64]) -> Numbers:
        """A side of numbers that the elements have, times a power of two for each block."""
        if not self.run:
            dense = Numbers(spec=self.writer.dense, values=values.astype(PLAIN_DTYPES[self.spec.format]))
            return self.writer.thin(dense, values != 0)
        codes = np.vectorize(self.codes.__getitem__, otypes=[np.intp])(values)
        return self.writer.numbers(codes, exponents)
