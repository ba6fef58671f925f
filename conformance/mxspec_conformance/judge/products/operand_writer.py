"""Writes the matrices of one operand: codes from lattices of integers, and scales; each kind of operand has its own writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec_conformance.judge.products.thinning import choose_places, cycle_places, thin_out
from mxspec_conformance.targets.operands import Numbers, OperandSpec

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.bool_]


class Reach(StrEnum):
    """Which power of two a lattice of integers stands on."""

    #: The one that most codes are on.
    MANY = "many"
    #: The lowest one, subnormal elements among its codes, and the highest one that holds several magnitudes.
    LOW = "low"
    HIGH = "high"


@lru_cache(maxsize=256)
def find_lattice(values: bytes, most: int, reach: Reach) -> npt.NDArray[np.intp]:
    """Places of the float64 values that are multiples of one power of two and at most `most` times it; not to be written."""
    numbers = np.frombuffer(values)
    finite = np.flatnonzero(np.isfinite(numbers))
    found: list[npt.NDArray[np.intp]] = []
    for power in range(-20, 20):
        steps = np.ldexp(numbers[finite], -power)
        fits = finite[(np.abs(steps) <= most) & (steps == np.rint(steps))]
        if numbers[fits].any():
            found.append(fits)
    rich = [codes for codes in found if len(codes) > 6] or found
    chosen = {Reach.MANY: max(found, key=len), Reach.LOW: rich[0], Reach.HIGH: rich[-1]}[reach]
    chosen.flags.writeable = False
    return chosen


@dataclass(frozen=True)
class OperandWriter(ABC):
    """Writes matrices of one operand. A sparse one keeps of what it is given two numbers, or pairs, of four; zeros go first."""

    spec: OperandSpec
    draw: np.random.Generator

    @property
    @abstractmethod
    def run(self) -> int:
        """Numbers that share a scale."""

    @property
    @abstractmethod
    def values(self) -> Floats:
        """The number of each code under the scale one."""

    @property
    @abstractmethod
    def powers(self) -> tuple[int, int]:
        """The exponents of scales that a design may use freely."""

    @property
    @abstractmethod
    def reaches_far(self) -> bool:
        """Whether scales of 2^-30 and 2^30 exist, and numbers under them."""

    @abstractmethod
    def write(self, codes: npt.NDArray[Any], powers: npt.NDArray[Any]) -> Numbers:
        """A dense side of codes [rows, k], each run times a power of two: exponents [rows, runs]."""

    @abstractmethod
    def write_positions(self, rows: int, k: int) -> Numbers:
        """A dense side of every finite code in turn, and scales no two of which are alike in neighbouring runs and rows."""

    @abstractmethod
    def write_quantized(self, x: Floats) -> Numbers:
        """A dense side of ordinary numbers in this side's format."""

    @abstractmethod
    def write_ends(self, rows: int, k: int, other: OperandWriter, *, first: bool) -> tuple[Numbers, npt.NDArray[Any] | int] | None:
        """A dense side under the ends of its scale format, and the exponents that the other side takes them back by; None:
        there are no scales. first: whether the side is a."""

    @abstractmethod
    def spoil(self, numbers: Numbers, row: int, place: int, run: int) -> Iterator[tuple[str, str, Numbers]]:
        """A side with a NaN or an Inf in a row, in all ways that its format has: (topic, what, the side).

        place: of what is stored in the row; run: the block or group whose scale is replaced.
        """

    @property
    def dense(self) -> OperandSpec:
        """The side as if nothing were dropped."""
        return replace(self.spec, sparsity=None)

    @cached_property
    def finite(self) -> npt.NDArray[np.intp]:
        """Codes that are numbers."""
        return np.flatnonzero(np.isfinite(self.values))

    @cached_property
    def positive(self) -> npt.NDArray[np.intp]:
        """Codes of small numbers above zero."""
        codes = self.lattice(4)
        return codes[self.values[codes] > 0]

    def lattice(self, most: int, reach: Reach = Reach.MANY) -> npt.NDArray[np.intp]:
        """Codes whose values are multiples of one power of two and at most `most` times it."""
        return find_lattice(self.values.tobytes(), most, reach)

    def numbers(self, codes: npt.NDArray[Any], exponents: npt.NDArray[Any] | int = 0, *, keep: int | None = None) -> Numbers:
        """A side of codes [rows, k], each run times a power of two: exponents [rows, runs], or one for all.

        keep: a place along k that a sparse side does not drop.
        """
        rows, k = codes.shape
        powers = np.broadcast_to(np.asarray(exponents), (rows, -(-k // self.run)))
        return self.thin(self.write(codes, powers), self.values[codes] != 0, keep)

    def thin(self, numbers: Numbers, wanted: Places, keep: int | None = None) -> Numbers:
        """What a sparse side keeps, first of all what is wanted, else at random; a dense side is as it is."""
        if self.spec.sparsity is None:
            return numbers
        return thin_out(numbers, self.spec, choose_places(wanted, self.spec.sparsity, self.draw, keep))

    def pick(self, codes: npt.NDArray[np.intp], rows: int, k: int) -> npt.NDArray[np.intp]:
        """A matrix of codes at random."""
        place = self.draw.integers(0, len(codes), (rows, k))
        picked: npt.NDArray[np.intp] = codes[place]
        return picked

    def code_of(self, value: float) -> int:
        """The code of a value that the format has."""
        return int(np.flatnonzero(self.values == value)[0])

    def has(self, value: float) -> bool:
        """Whether a code has this value."""
        return bool((self.values == value).any())

    def one_hot(self, rows: int, k: int, places: npt.NDArray[Any]) -> Numbers:
        """Rows of zeros but for a one at a place; -1: none. Every scale is one."""
        codes = np.full((rows, k), self.code_of(0.0))
        used = np.flatnonzero(places >= 0)
        codes[used, places[used]] = self.code_of(1.0)
        return self.numbers(codes)

    def positions(self, rows: int, k: int) -> Numbers:
        """Every finite code in turn, and scales no two of which are alike in neighbouring runs and rows."""
        return self.thin(self.write_positions(rows, k), np.ones((rows, k), np.bool_))

    def patterned(self, codes: npt.NDArray[Any]) -> Numbers:
        """A sparse side of codes [rows, k] under the scale one, its nibbles in turn."""
        rule = self.spec.sparsity
        assert rule is not None
        rows, k = codes.shape
        dense = self.write(codes, np.zeros((rows, -(-k // self.run)), int))
        return thin_out(dense, self.spec, cycle_places(rows, k // rule.group))

    def quantized(self, x: Floats) -> Numbers:
        """Ordinary numbers in this side's format."""
        return self.thin(self.write_quantized(x), np.ones(x.shape, np.bool_))

    def ends(self, rows: int, k: int, other: OperandWriter, *, first: bool) -> tuple[Numbers, npt.NDArray[Any] | int] | None:
        """As `write_ends`, sparse where the side is."""
        found = self.write_ends(rows, k, other, first=first)
        return None if found is None else (self.thin(found[0], np.ones((rows, k), np.bool_)), found[1])
