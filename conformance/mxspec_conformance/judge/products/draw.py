"""The writers of block and plain sides, and the choice of a side's writer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.dot import PLAIN_DTYPES
from mxspec.elements import decode_table
from mxspec.formats import ScalarFormat
from mxspec.profiles import list_profiles
from mxspec_conformance.judge.products.draw_affine import AffineWriter
from mxspec_conformance.judge.products.operand_writer import Floats, OperandWriter, Reach
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec

__all__ = ["PLAIN_RUN", "OperandWriter", "Reach", "make_writer", "takes_tensor_scale", "with_tensor_scale"]

#: Length of the runs in which plain numbers share a power of two, as blocks share a scale.
PLAIN_RUN = 32
#: Bits of a plain dtype's numbers.
_PLAIN_BITS = {"float32": 24, "bfloat16": 8, "float16": 11, "float8_e4m3fn": 4, "float8_e5m2": 3}
#: Exponents by which a plain dtype's integers may be scaled.
_PLAIN_POWERS = {"float32": 12, "bfloat16": 12, "float16": 6, "float8_e4m3fn": 4, "float8_e5m2": 8}
#: The exponent of a float32 scale at an end: sums of numbers under it are ordinary.
_FAR = 60
#: Dtypes that hold neither 2^-30 nor 2^30.
_NARROW = ("float16", "float8_e4m3fn", "float8_e5m2")


def make_writer(spec: OperandSpec, draw: np.random.Generator) -> OperandWriter:
    """The writer of a side's kind."""
    writers: dict[OperandKind, type[OperandWriter]] = {
        OperandKind.BLOCK: BlockWriter, OperandKind.PLAIN: PlainWriter, OperandKind.AFFINE: AffineWriter,
    }  # fmt: skip
    return writers[spec.kind](spec, draw)


def _take_turns(rows: int, runs: int) -> npt.NDArray[np.intp]:
    """0 to 10, different in neighbouring runs and rows."""
    order: npt.NDArray[np.intp] = (np.arange(rows)[:, None] * 3 + np.arange(runs)[None, :] * 4) % 11
    return order


def _count_through(codes: npt.NDArray[np.intp], rows: int, k: int) -> npt.NDArray[np.intp]:
    found: npt.NDArray[np.intp] = codes[(np.arange(rows)[:, None] * 5 + np.arange(k)[None, :] * 7) % len(codes)]
    return found


@lru_cache(maxsize=64)
def _code_numbers(fmt: ScalarFormat) -> dict[float, int]:
    """The code of every number of a format."""
    return {float(v): code for code, v in enumerate(decode_table(fmt).astype(np.float64)) if np.isfinite(v)}


@dataclass(frozen=True)
class PlainWriter(OperandWriter):
    """Writes floats: integers up to the precision, and their negatives."""

    def _list_nan_codes(self) -> Iterator[tuple[str, int]]:
        """The codes next to infinity and of all ones; not of formats that have one NaN."""
        dtype = np.dtype(PLAIN_DTYPES[self.spec.format])
        code = np.array(np.inf).astype(dtype).view(f"u{dtype.itemsize}")
        if np.isinf(code.view(dtype).astype(np.float64)):
            yield "the NaN next to infinity", int(code) + 1
            yield "the NaN of all ones", (1 << (8 * dtype.itemsize - 1)) - 1

    @property
    def _largest(self) -> float:
        return float(ml_dtypes.finfo(PLAIN_DTYPES[self.spec.format]).max)

    @property
    def run(self) -> int:
        """Numbers that share a power of two."""
        return PLAIN_RUN

    @cached_property
    def values(self) -> Floats:
        """The integers."""
        most = 1 << min(_PLAIN_BITS[self.spec.format], 8)
        return np.concatenate([np.arange(most + 1), -np.arange(1, most + 1)]).astype(np.float64)

    @property
    def powers(self) -> tuple[int, int]:
        """What the dtype holds with room."""
        most = _PLAIN_POWERS[self.spec.format]
        return -most, most

    @property
    def reaches_far(self) -> bool:
        """float32 and bfloat16 do."""
        return self.spec.format not in _NARROW

    def write(self, codes: npt.NDArray[Any], powers: npt.NDArray[Any]) -> Numbers:
        """Integers times powers of two."""
        scale = np.repeat(np.ldexp(1.0, powers), self.run, axis=1)[:, : codes.shape[1]]
        scaled = self.values[codes] * scale
        assert np.abs(scaled).max(initial=0) <= self._largest
        return Numbers(spec=self.dense, values=scaled.astype(PLAIN_DTYPES[self.spec.format]))

    def write_positions(self, rows: int, k: int) -> Numbers:
        """Every integer in turn."""
        turns = np.clip(_take_turns(rows, -(-k // self.run)) - 5, *self.powers)
        return self.write(_count_through(self.finite, rows, k), turns)

    def write_quantized(self, x: Floats) -> Numbers:
        """The numbers in the dtype."""
        most = self._largest if self.spec.format in _NARROW else np.inf  # FP8 casts make NaN of what is larger
        return Numbers(spec=self.dense, values=np.clip(x, -most, most).astype(np.float32).astype(PLAIN_DTYPES[self.spec.format]))

    def write_ends(self, rows: int, k: int, other: OperandWriter, *, first: bool) -> None:
        """There are no scales."""

    def spoil(self, numbers: Numbers, row: int, place: int, run: int) -> Iterator[tuple[str, str, Numbers]]:
        """A NaN of either sign, the ones with the fewest and the most bits set, one Inf."""
        assert numbers.values is not None
        for what, code in self._list_nan_codes():
            values = numbers.values.copy()
            values.view(f"u{values.itemsize}")[row, place] = code
            yield "nan", what, replace(numbers, values=values)
        for topic, what, value in (("nan", "a NaN", np.nan), ("nan", "a negative NaN", -np.nan), ("inf", "a positive Inf", np.inf)):
            values = numbers.values.copy()
            values[row, place] = value
            if topic == "inf" and not np.isinf(values[row, place]):  # float8_e4m3fn has none
                continue
            yield topic, what, replace(numbers, values=values)


@dataclass(frozen=True)
class BlockWriter(OperandWriter):
    """Writes a block format."""

    @property
    def run(self) -> int:
        """Elements of a block."""
        return self.spec.block.k

    @cached_property
    def values(self) -> Floats:
        """The elements' decode table."""
        return decode_table(self.spec.block.element).astype(np.float64)

    @property
    def powers(self) -> tuple[int, int]:
        """Those of e4m3, or as many of e8m0 and float32."""
        return (-12, 12) if self.spec.block.is_mx or self.is_float else (-5, 7)

    @property
    def is_float(self) -> bool:
        """Whether scales are float32."""
        return self.spec.block.scale.bits > 8

    @property
    def reaches_far(self) -> bool:
        """e8m0 does."""
        return self.spec.block.is_mx

    def write(self, codes: npt.NDArray[Any], powers: npt.NDArray[Any]) -> Numbers:
        """Codes under scales that are powers of two."""
        assert codes.shape[1] % self.run == 0
        return Numbers(spec=self.dense, codes=codes.astype(np.uint8), scales=self.power_scales(powers))

    def power_scales(self, exponents: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The scale codes of powers of two."""
        if self.is_float:
            return (exponents.astype(np.int64) + 127 << 23).astype(np.uint32)
        codes = _code_numbers(self.spec.block.scale)
        least, most = int(exponents.min(initial=0)), int(exponents.max(initial=0))
        table = np.array([codes.get(math.ldexp(1.0, power), -1) for power in range(least, most + 1)])
        found = table[exponents - least]
        assert found.min(initial=0) >= 0
        return np.asarray(found, np.uint8)

    def write_positions(self, rows: int, k: int) -> Numbers:
        """Every code in turn; of scales that have a mantissa every mantissa."""
        codes = _count_through(self.finite, rows, k)
        order = _take_turns(rows, k // self.run)
        if self.spec.block.is_mx:
            return self.write(codes, order - 5)
        # Every mantissa of three bits, exponents around one.
        scales = (0x3F800000 + (5 * order - 25 << 20)).astype(np.uint32) if self.is_float else (0x21 + 5 * order).astype(np.uint8)
        return Numbers(spec=self.dense, codes=codes.astype(np.uint8), scales=scales)

    def write_quantized(self, x: Floats) -> Numbers:
        """By the format's default profile; at random where nobody says how to quantize to a registered format."""
        assert x.shape[1] % self.run == 0
        if not list_profiles(self.spec.block):
            return self.write(self.pick(self.finite, *x.shape), np.zeros((len(x), x.shape[1] // self.run), int))
        t = mxspec.quantize(x.astype(np.float32), self.spec.format)
        return Numbers(spec=self.dense, codes=t.codes, scales=t.scales)

    def write_ends(self, rows: int, k: int, other: OperandWriter, *, first: bool) -> tuple[Numbers, npt.NDArray[Any] | int]:
        """00 and its like; the largest scale of the other side's takes e8m0's smallest back where there is one."""
        # No float32 or bfloat16 is subnormal that holds the smallest scale times a number: a unit may flush these.
        largest = np.abs(self.values[self.finite]).max()
        least = 2.0 if largest >= 2 else 1.0
        magnitudes = np.abs(self.values[self.finite])
        taken_back = self.spec.block.is_mx and other.spec.kind is OperandKind.BLOCK and other.spec.block.is_mx
        # Under the other side's scale first, or last, float32 holds the sum of a block of which one number counts.
        codes = self.pick(self.finite[(magnitudes >= least) & (magnitudes < (2 * least if taken_back else np.inf))], rows, k)
        end = 127 if least == 2 else 126
        runs = k // self.run
        if self.is_float:  # kernels multiply the scales of both first
            return self.write(codes, np.full((rows, runs), -_FAR if first else _FAR)), 0
        if not self.spec.block.is_mx:
            ends = np.resize(np.array([1, 2, 7, 8, 0x7E, 0x38], np.uint8), (rows, runs))
            for row in range(rows):
                ends[row] = ends[row, row % min(6, runs)]
            return Numbers(spec=self.dense, codes=codes.astype(np.uint8), scales=ends), 0
        if taken_back:
            return self.write(codes, np.full((rows, runs), -end)), 126
        return self.write(codes, np.full((rows, runs), -100 if first else 100)), 0

    def spoil(self, numbers: Numbers, row: int, place: int, run: int) -> Iterator[tuple[str, str, Numbers]]:
        """A NaN scale, and elements that are no numbers."""
        assert numbers.codes is not None
        assert numbers.scales is not None
        table = self.spec.block.scale
        if table.nan_code is not None:
            scales = numbers.scales.copy()
            scales[row, run] = table.nan_code
            yield "nan", "a NaN scale", replace(numbers, scales=scales)
        for topic, found in (("nan", np.isnan(self.values)), ("inf", np.isinf(self.values))):
            codes = np.flatnonzero(found)
            for code in codes[[0, -1] if len(codes) else []].tolist():  # one of either sign
                changed = numbers.codes.copy()
                changed[row, place] = code
                yield topic, f"the code {code:02x}", replace(numbers, codes=changed)


def with_tensor_scale(numbers: Numbers, value: float) -> Numbers:
    """The side under a tensor scale."""
    return replace(numbers, tensor_scale=value)


def takes_tensor_scale(spec: OperandSpec) -> bool:
    """Whether a tensor scale belongs to the side's format."""
    return spec.kind is OperandKind.BLOCK and spec.block.has_tensor_scale
