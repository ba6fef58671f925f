"""The writer of affine integers: whole numbers under powers of two, each group with its own scale and its own offset.

A whole number v is stored as q = v + z under the zero point z, or under the bias -z * s; with a bias it may also be stored under a
negative scale, as q = z - v. Whatever a contract rounds, such numbers stay what they are: products, offsets and values have eight
bits at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import affine
from mxspec.affine import Offset
from mxspec_conformance.judge.products.operand_writer import Floats, OperandWriter, Reach
from mxspec_conformance.targets.operand_words import ROW_MAJOR
from mxspec_conformance.targets.operands import Numbers

#: Offsets among which neighbouring groups differ.
_OFFSETS = 4
#: How many times as large as a value the magnitudes can be that a kernel adds for it: |q| + |z|.
_PARTS = 5


@dataclass(frozen=True)
class AffineWriter(OperandWriter):
    """Writes affine integers."""

    @property
    def run(self) -> int:
        """Codes of a group."""
        return self.spec.affine.group

    @cached_property
    def values(self) -> Floats:
        """0 to about half the largest code, and their negatives: every group has room for several offsets."""
        bins = self.spec.affine.bins
        most = max((bins - 1) // 2 - bins // 10, 1)
        return np.concatenate([np.arange(most + 1), -np.arange(1, most + 1 if bins > 1 else 1)]).astype(np.float64)

    @property
    def powers(self) -> tuple[int, int]:
        """Those that float16 numbers reach, to which a kernel may dequantize."""
        return -6, 6

    @property
    def reaches_far(self) -> bool:
        """All dtypes of scales but float16 do."""
        return self.spec.affine.dtype != "float16"

    @property
    def _least_zero(self) -> int:
        """The smallest zero point that the layout can hold: of 0 some have no agreed form."""
        return 0 if self.spec.offsets == ROW_MAJOR else 1

    @property
    def _has_bias(self) -> bool:
        return self.spec.affine.offset is Offset.BIAS

    def lattice(self, most: int, reach: Reach = Reach.MANY) -> npt.NDArray[np.intp]:
        """Whole numbers so small that what a kernel may add for each is at most `most`; zero and one, which need no offset, where
        few bits are certain."""
        if most < _PARTS:
            return np.array([self.code_of(0.0), self.code_of(1.0)])
        return np.flatnonzero(np.abs(self.values) <= most // _PARTS)

    def write(self, codes: npt.NDArray[Any], powers: npt.NDArray[Any]) -> Numbers:
        """Whole numbers under powers of two, offsets that differ from group to group, some scales negative."""
        values = self.values[codes].astype(np.int64)
        rows, groups = powers.shape
        each = values.reshape(rows, groups, self.run)
        low, high = each.min(axis=-1), each.max(axis=-1)
        turn = np.arange(rows)[:, None] * 3 + np.arange(groups)[None, :] * 5
        bins = self.spec.affine.bins
        mixed = (low < 0) & (high > 0)
        signs = np.where((turn % 4 == 2) & mixed & self._has_bias, -1, 1)
        # The offset zero stays zero where nothing is negative: zeros are then zeros in every part.
        least = np.where(signs > 0, np.maximum(-low, self._least_zero), high)
        most = np.where(signs > 0, bins - high, bins + low)
        several = np.minimum(_OFFSETS, 1 + np.maximum(-low, high))  # small numbers stay small in their parts
        room = np.where(mixed, np.minimum(most - least + 1, several), 1)
        assert (most >= least).all()
        shift = least + turn % room
        q = shift[..., None] + signs[..., None] * each
        scales = signs * np.ldexp(1.0, powers)
        return self._store(q.reshape(values.shape), scales, shift)

    def _store(self, q: npt.NDArray[Any], scales: Floats, shift: npt.NDArray[Any]) -> Numbers:
        """Codes under scales, and offsets that make `shift` zero."""
        fmt = self.spec.affine
        assert q.min(initial=0) >= 0
        assert q.max(initial=0) <= fmt.bins
        stored = scales.astype(fmt.numpy_dtype)
        assert (stored.astype(np.float64) == scales).all()
        offsets = (-shift * scales).astype(fmt.numpy_dtype) if self._has_bias else shift.astype(np.uint8)
        return Numbers(spec=self.dense, codes=q.astype(np.uint8), scales=stored, offsets=offsets)

    def write_positions(self, rows: int, k: int) -> Numbers:
        """Every code in turn, scales of every mantissa that leaves eight bits of a product, every offset."""
        fmt = self.spec.affine
        groups = k // self.run
        turn = np.arange(rows)[:, None] * 3 + np.arange(groups)[None, :] * 4
        q = (np.arange(rows)[:, None] * 5 + np.arange(k)[None, :] * 7) % (fmt.bins + 1)
        steps = 1 << max(7 - fmt.bits, 0)  # mantissas of 8 - bits bits
        mantissas = (steps + turn % steps) / steps
        signs = np.where((turn % 5 == 3) & self._has_bias, -1, 1)
        shift = np.maximum((turn * 7 + 3) % (fmt.bins + 1), self._least_zero)
        return self._store(q, signs * np.ldexp(mantissas, turn % 11 - 5), shift)

    def write_quantized(self, x: Floats) -> Numbers:
        """By the format's default profile; under a bias every second row is mirrored, under negative scales."""
        fmt = self.spec.affine
        t = affine.quantize(
            x.astype(np.float32).astype(fmt.numpy_dtype), bits=fmt.bits, group=fmt.group, offset=fmt.offset, scale_dtype=fmt.dtype
        )  # fmt: skip
        codes, scales, offsets = t.codes.copy(), t.scales.copy(), t.offsets.copy()
        if self._has_bias:
            odd = slice(1, None, 2)
            wide = [part[odd].astype(np.float64) for part in (scales, offsets)]
            codes[odd] = fmt.bins - codes[odd]
            offsets[odd] = (wide[1] + fmt.bins * wide[0]).astype(np.float32).astype(fmt.numpy_dtype)
            scales[odd] = -scales[odd]
        else:
            offsets = np.maximum(offsets, self._least_zero).astype(np.uint8)
        return Numbers(spec=self.dense, codes=codes, scales=scales, offsets=offsets)

    def write_ends(self, rows: int, k: int, other: OperandWriter, *, first: bool) -> tuple[Numbers, npt.NDArray[Any] | int]:
        """The dtype's smallest and largest scales and zero, a row each, under codes whose numbers are the scale or zero.

        Of float32 and bfloat16 the smallest normal one: a unit may flush what is smaller.
        """
        fmt = self.spec.affine
        scalar = fmt.scalar
        smallest = float(scalar.min_subnormal) if fmt.dtype == "float16" else 2.0 ** (1 - scalar.bias)
        largest = float(scalar.max_value) if fmt.dtype == "float16" else 2.0**118
        # Zero points other than 0 make numbers that float16 does not hold.
        least = self._least_zero
        ends = [smallest, 2.0 ** (1 - scalar.bias), largest if not least else 2.0**14, 1.0, 2.0**-5, 0.0]
        scales = np.tile(np.resize(np.array(ends), rows)[:, None], (1, k // self.run))
        # Biases at the ends, too: one of the largest scale would not be the sum of two numbers of float16.
        shift = np.where(scales < 1, 1, least) if self._has_bias else np.full(scales.shape, least)
        q = np.minimum(self.draw.integers(0, 2, (rows, k)) + shift[:, :1], self.spec.affine.bins)
        return self._store(q, scales, shift), 0

    def spoil(self, numbers: Numbers, row: int, place: int, run: int) -> Iterator[tuple[str, str, Numbers]]:
        """A NaN scale; with a bias also a NaN bias, and infinities of both. Of a zero point under an infinite scale it depends on
        the order of operations what comes."""
        assert numbers.scales is not None
        assert numbers.offsets is not None
        for topic, value in (("nan", np.nan), ("inf", np.inf)):
            if topic == "inf" and not self._has_bias:
                continue
            what = "a NaN" if topic == "nan" else "an infinite"
            scales = numbers.scales.copy()
            scales[row, run] = value
            yield topic, f"{what} scale", replace(numbers, scales=scales)
            if self._has_bias:
                offsets = numbers.offsets.copy()
                offsets[row, run] = value
                yield topic, f"{what} bias", replace(numbers, offsets=offsets)

    def all_positive(self, rows: int, k: int, *, keep: int | None = None) -> Numbers:
        """Numbers above zero in each of whose parts nothing is zero or negative, as far as the format has such."""
        codes = self.pick(self.positive, rows, k)
        if not self._has_bias:
            return self.numbers(codes, keep=keep)
        ones = np.ones((rows, k // self.run))
        dense = self._store(self.values[codes].astype(np.int64), ones, -ones.astype(np.int64))
        return self.thin(dense, np.ones(codes.shape, np.bool_), keep)
