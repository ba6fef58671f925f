"""Numbers for one side of a product: codes from lattices of integers, block scales with a purpose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_table
from mxspec.formats import get_block
from mxspec.profiles import list_profiles
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec

Floats = npt.NDArray[np.float64]


class Reach(StrEnum):
    """Which power of two a lattice of integers stands on."""

    #: The one that most codes are on.
    MANY = "many"
    #: The lowest one, subnormal elements among its codes, and the highest one that holds several magnitudes.
    LOW = "low"
    HIGH = "high"

#: Length of the runs in which plain numbers share a power of two, as blocks share a scale.
PLAIN_RUN = 32
#: Bits of a plain dtype's numbers.
_PLAIN_BITS = {"float32": 24, "bfloat16": 8, "float16": 11}


@dataclass(frozen=True)
class Pen:
    """Writes matrices of one side."""

    spec: OperandSpec
    draw: np.random.Generator

    @property
    def run(self) -> int:
        """Elements that share a scale."""
        return self.spec.block.k if self.spec.kind is OperandKind.BLOCK else PLAIN_RUN

    @cached_property
    def values(self) -> Floats:
        """The value of each code; of a plain side the integers up to its precision, and their negatives."""
        if self.spec.kind is OperandKind.BLOCK:
            return decode_table(self.spec.block.element).astype(np.float64)
        most = 1 << min(_PLAIN_BITS[self.spec.format], 8)
        return np.concatenate([np.arange(most + 1), -np.arange(1, most + 1)]).astype(np.float64)

    @cached_property
    def finite(self) -> npt.NDArray[np.intp]:
        """Codes that are numbers."""
        return np.flatnonzero(np.isfinite(self.values))

    def lattice(self, most: int, reach: Reach = Reach.MANY) -> npt.NDArray[np.intp]:
        """Codes whose values are multiples of one power of two and at most `most` times it."""
        finite = self.values[self.finite]
        found: list[npt.NDArray[np.intp]] = []
        for power in range(-20, 20):
            steps = np.ldexp(finite, -power)
            fits = (np.abs(steps) <= most) & (steps == np.rint(steps))
            if (self.values[self.finite[fits]] != 0).any():
                found.append(self.finite[fits])
        if reach is Reach.MANY:
            return max(found, key=len)
        rich = [codes for codes in found if len(codes) > 6] or found
        return rich[0] if reach is Reach.LOW else rich[-1]

    def numbers(self, codes: npt.NDArray[Any], exponents: npt.NDArray[Any] | int = 0) -> Numbers:
        """A side of codes, each run times a power of two: exponents [rows, runs], or one for all."""
        rows, k = codes.shape
        powers = np.broadcast_to(np.asarray(exponents), (rows, k // self.run if k % self.run == 0 else -(-k // self.run)))
        if self.spec.kind is OperandKind.PLAIN:
            scale = np.repeat(np.ldexp(1.0, powers), self.run, axis=1)[:, :k]
            scaled = self.values[codes] * scale
            assert np.abs(scaled).max(initial=0) < 65504 or self.spec.format != "float16"
            return Numbers(spec=self.spec, values=scaled.astype(DTYPES[self.spec.format]))
        return Numbers(spec=self.spec, codes=codes.astype(np.uint8), scales=self.power_scales(powers))

    def power_scales(self, exponents: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """The scale codes of powers of two."""
        fmt = self.spec.block.scale
        table = decode_table(fmt).astype(np.float64)
        codes = {float(v): c for c, v in enumerate(table) if np.isfinite(v)}
        return np.array([codes[v] for v in np.ldexp(1.0, exponents).ravel().tolist()], np.uint8).reshape(exponents.shape)

    @property
    def powers(self) -> tuple[int, int]:
        """The exponents of block scales that a design may use freely."""
        if self.spec.format == "float16":
            return -6, 6
        return (-5, 7) if self.spec.kind is OperandKind.BLOCK and not self.spec.block.is_mx else (-12, 12)

    def pick(self, codes: npt.NDArray[np.intp], rows: int, k: int) -> npt.NDArray[np.intp]:
        """A matrix of codes at random, no two neighbours in a row or column equal where there are several."""
        place = self.draw.integers(0, len(codes), (rows, k))
        picked: npt.NDArray[np.intp] = codes[place]
        return picked

    def code_of(self, value: float) -> int:
        """The code of a value that the format has."""
        return int(np.flatnonzero(self.values == value)[0])

    def one_hot(self, rows: int, k: int, places: npt.NDArray[Any]) -> Numbers:
        """Rows of zeros but for a one at a place; -1: none. Every scale is one."""
        codes = np.full((rows, k), self.code_of(0.0))
        used = np.flatnonzero(places >= 0)
        codes[used, places[used]] = self.code_of(1.0)
        return self.numbers(codes)

    def positions(self, rows: int, k: int) -> Numbers:
        """Every finite code in turn, and scales no two of which are alike in neighbouring blocks and rows."""
        codes = self.finite[(np.arange(rows)[:, None] * 5 + np.arange(k)[None, :] * 7) % len(self.finite)]
        runs = -(-k // self.run)
        order = (np.arange(rows)[:, None] * 3 + np.arange(runs)[None, :] * 4) % 11
        if self.spec.kind is OperandKind.BLOCK and not self.spec.block.is_mx:
            scales = (0x21 + 5 * order).astype(np.uint8)  # every mantissa, exponents around one
            return Numbers(spec=self.spec, codes=codes.astype(np.uint8), scales=scales)
        return self.numbers(codes, order - 5)

    def quantized(self, x: Floats) -> Numbers:
        """Ordinary numbers in this side's format."""
        narrow = x.astype(np.float32)
        if self.spec.kind is OperandKind.PLAIN:
            return Numbers(spec=self.spec, values=narrow.astype(DTYPES[self.spec.format]))
        k = get_block(self.spec.format).k
        assert x.shape[1] % k == 0
        if not list_profiles(self.spec.block):  # a registered format that nobody says how to quantize to
            return self.numbers(self.pick(self.finite, *x.shape))
        t = mxspec.quantize(narrow, self.spec.format)
        return Numbers(spec=self.spec, codes=t.codes, scales=t.scales)


def with_tensor_scale(numbers: Numbers, value: float) -> Numbers:
    """The side under a tensor scale."""
    return replace(numbers, tensor_scale=value)


def takes_tensor_scale(spec: OperandSpec) -> bool:
    """Whether a tensor scale belongs to the side's format."""
    return spec.kind is OperandKind.BLOCK and spec.block.has_tensor_scale
