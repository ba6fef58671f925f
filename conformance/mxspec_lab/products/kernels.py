"""A matrix product whose every step can be replaced: decoding, scales, places, additions, epilogue, output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.operands import Side

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

#: Element format -> bits, and the value of every code, by ml_dtypes; int8 is code / 64.
_TYPES: dict[str, tuple[int, Any]] = {
    "mxfp4": (4, ml_dtypes.float4_e2m1fn), "nvfp4": (4, ml_dtypes.float4_e2m1fn), "mxfp6_e2m3": (6, ml_dtypes.float6_e2m3fn),
    "mxfp6_e3m2": (6, ml_dtypes.float6_e3m2fn), "mxfp8_e4m3": (8, ml_dtypes.float8_e4m3fn), "mxfp8_e5m2": (8, ml_dtypes.float8_e5m2),
}  # fmt: skip
OUTPUTS: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def element_table(fmt: str) -> Floats:
    """The value of every code."""
    bits, kind = _TYPES.get(fmt, (8, np.int8))
    table: Floats = np.arange(1 << bits).astype(np.uint8).view(kind).astype(np.float32).astype(np.float64)
    return table / 64 if fmt == "mxint8" else table


def scale_table(fmt: str) -> Floats:
    """The value of every scale code."""
    if fmt == "nvfp4":
        table: Floats = np.arange(256).astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32).astype(np.float64)
        return table
    return np.append(np.ldexp(1.0, np.arange(-127, 128)), np.nan)


def unswizzle(data: Bytes, rows: int, columns: int) -> Bytes:
    """Scales from tiles of 128 rows and 4 columns: byte (row % 32) * 16 + (row / 32 % 4) * 4 + column % 4 of a tile."""
    r, c = np.mgrid[0:rows, 0:columns]
    tiles = -(-columns // 4)
    place = (r // 128 * tiles + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4
    found: Bytes = data[place]
    return found


def keep(x: Any, *_: Any) -> Any:
    """x."""
    return x


def add_float32(a: Floats, b: Floats) -> Floats:
    """What NumPy's float32 product gives."""
    with np.errstate(all="ignore"):
        product: Floats = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float64)
    return product


def add_double(a: Floats, b: Floats) -> Floats:
    """In float64, rounded to float32."""
    with np.errstate(all="ignore"):
        return (a @ b.T).astype(np.float32).astype(np.float64)


def finish_float32(
    total: Floats, scale: float, alpha: float | None, beta: float | None, c: Any, bias: Any, out_dtype: str
) -> npt.NDArray[Any]:
    """alpha times the tensor scales times the sum, plus beta times C, plus bias, in float32; then one rounding."""
    with np.errstate(all="ignore"):
        y = total.astype(np.float32) * np.float32(np.float32(1 if alpha is None else alpha) * np.float32(scale))
        if c is not None:
            y = y + np.float32(0 if beta is None else beta) * c.astype(np.float32)
        if bias is not None:
            y = y + bias.astype(np.float32)
        return np.asarray(y, np.float32).astype(OUTPUTS[out_dtype])


@dataclass(frozen=True, kw_only=True)
class AnyKernel:
    """What every kernel has: its name, and what it declares."""

    name: str
    #: The product by which it is judged.
    product: tuple[str, str]
    #: The class of accumulations and the contract that it declares.
    accumulator: str = ""
    contract: str = ""
    out_dtypes: tuple[str, ...] = ("float32",)

    def matmul(
        self, a: Any, b: Any, out_dtype: str, alpha: float | None = None, beta: float | None = None, c: Any = None, bias: Any = None
    ) -> npt.NDArray[Any]:
        """The product of two sides, [m, n] in out_dtype."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Kernel(AnyKernel):
    """One kernel; by default a right one. The steps of `sides` alone are replaced."""

    product: tuple[str, str] = ("mxfp8_e4m3", "mxfp4/nibble-low+128x4")
    #: (codes [rows, k], block) -> codes.
    place_codes: Callable[[Bytes, int], Bytes] = keep
    #: scales [rows, blocks] -> scales.
    place_scales: Callable[[Bytes], Bytes] = keep
    #: (table, format) -> table.
    elements: Callable[[Floats, str], Floats] = keep
    scales: Callable[[Floats, str], Floats] = keep
    #: (numbers [rows, k], block) -> numbers.
    numbers: Callable[[Floats, int], Floats] = keep
    #: How swizzled scales are read.
    read_tiles: Callable[[Bytes, int, int], Bytes] = unswizzle
    #: Both sides -> sums.
    add: Callable[[Floats, Floats], Floats] = add_float32
    #: Both tensor scales -> the factor of the sum.
    scale: Callable[[float, float], float] = lambda a, b: a * b
    #: Whether tensor scales go into the numbers, and as what.
    fold: str = ""
    finish: Callable[..., npt.NDArray[Any]] = finish_float32
    #: The outputs -> what is returned.
    returned: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = keep
    sides: str = "ab"

    def decode(self, side: Side, which: str) -> Floats:
        """The numbers of one side."""
        if side.values is not None or not isinstance(side, Side):
            raise TypeError("a block side is needed")
        mine = which in self.sides
        rows, k = side.shape
        run = 16 if side.format == "nvfp4" else 32
        codes, scales = np.asarray(side.codes), np.asarray(side.scales)
        if "nibble-low" in side.spec:
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(rows, k)
        if "128x4" in side.spec:
            scales = (self.read_tiles if mine else unswizzle)(scales, rows, k // run)
        q, sf = element_table(side.format), scale_table(side.format)
        if mine:
            codes, scales = self.place_codes(codes, run), self.place_scales(scales)
            q, sf = self.elements(q, side.format), self.scales(sf, side.format)
        numbers = q[codes] * np.repeat(sf[scales], run, axis=1)
        if self.fold and side.tensor_scale is not None:
            numbers = (numbers * np.float64(side.tensor_scale)).astype(np.float32)
        if self.fold:
            numbers = numbers.astype(OUTPUTS[self.fold]).astype(np.float64)
        return self.numbers(numbers, run) if mine else numbers

    @np.errstate(all="ignore")
    def matmul(
        self, a: Any, b: Any, out_dtype: str, alpha: float | None = None, beta: float | None = None, c: Any = None, bias: Any = None
    ) -> npt.NDArray[Any]:
        """The product of two sides."""
        factors = [1.0 if x.tensor_scale is None else float(np.float32(x.tensor_scale)) for x in (a, b)]
        scale = 1.0 if self.fold else self.scale(factors[0], factors[1])
        total = self.add(self.decode(a, "a"), self.decode(b, "b"))
        return self.returned(self.finish(total, scale, alpha, beta, c, bias, out_dtype))


@dataclass
class KernelTarget:
    """A kernel as a target."""

    kernel: AnyKernel
    VERSION: str = "1"
    NAME: str = field(init=False)

    def __post_init__(self) -> None:
        self.NAME = self.kernel.name
        a, b = self.kernel.product
        self.OPERANDS = {"a": a, "b": b}
        self.OUT_DTYPES = list(self.kernel.out_dtypes)
        self.ACCUMULATOR = self.kernel.accumulator
        self.CONTRACT = self.kernel.contract
        self.matmul = self.kernel.matmul
