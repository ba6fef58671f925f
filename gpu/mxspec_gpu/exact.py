"""Exact products of block-scaled matrices on the GPU: float64 sums, and for each of them whether it is the exact one.

Every product of a sum is a multiple of a power of two u. Where the sum of magnitudes is below 2**53 u, float64 adds in any
order without an error, and the sum of magnitudes that float64 itself finds decides that (see mxspec.dot.sums). So two float64
products of cuBLAS on tensor cores, and the least exponent for each output, give sums with a proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mxspec.formats import BlockFormat
from mxspec_gpu import product_kernels
from mxspec_gpu.api import check_packed
from mxspec_gpu.arguments import check_format, check_layout
from mxspec_gpu.arrays import OnDevice, View, copy_contiguous, current_stream, empty_array, view_array
from mxspec_gpu.blas import check_no_emulation, multiply_rows
from mxspec_gpu.launch import POINTER, U32, get_kernel, make_division
from mxspec_gpu.views import count_tiles

_DECODE = POINTER * 5 + U32 * 5
_CERTIFY = POINTER * 6 + U32 * 3
#: Elements whose lowest bits are examined together.
_RUN = 16


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a product; a `Quantized` tensor of two axes is one, too."""

    #: uint8 [rows, k bits / 8], packed.
    codes: Any
    #: uint8 [rows, k / block], or the flat bytes of 128x4 tiles.
    scales: Any
    format: str | BlockFormat
    scale_layout: str = "row-major"


@dataclass(frozen=True, slots=True)
class ExactProduct:
    """Sums of products of codes times block scales, [m, n], in the library of the first side."""

    #: float64. Where not certain, the sum in the order of cuBLAS.
    values: Any
    #: bool: whether `values` is the exact sum; a NaN or an infinity there is that of any order.
    certain: Any
    #: float64: the sum of the products' magnitudes, exact where `certain`.
    magnitude: Any
    #: int16: every product of the sum is a multiple of 2**unit.
    unit: Any
    #: Products in each sum.
    k: int


@dataclass(frozen=True, slots=True)
class _Side:
    rows: int
    k: int
    values: Any
    magnitudes: Any
    lowest: Any


def _take(operand: Any, name: str) -> tuple[View, View, BlockFormat, str]:
    missing = [a for a in ("codes", "scales", "format") if not hasattr(operand, a)]
    if missing:
        raise TypeError(
            f"{name} is of type {type(operand).__name__} without {', '.join(missing)}; pass a Quantized, or mxspec_gpu.Operand(codes, "
            "scales, format)"
        )
    block = check_format(operand.format)
    layout = getattr(operand, "scale_layout", "row-major")
    check_layout(layout)
    codes, scales = check_packed(operand.codes, operand.scales, block, layout)
    if len(codes.shape) != 2:
        raise ValueError(f"the codes of {name} have shape {codes.shape}; an operand of a product has two axes, [rows, bytes]")
    return codes, scales, block, layout


def _pointer(array: Any) -> int:
    return view_array(array, "array").pointer


def _decode(codes: View, scales: View, block: BlockFormat, layout: str, library: str, stream: int) -> _Side:
    rows, k = codes.shape[0], codes.shape[1] * 8 // block.element.bits
    eights, per_row = rows * k // 8, k // block.k
    if eights >= 1 << 31:
        raise ValueError(f"codes of shape {codes.shape}: fewer than 2**34 elements are done at once; pass parts")
    if not codes.contiguous or codes.pointer % 8:
        codes = copy_contiguous(codes)
    device = codes.device
    values, magnitudes = (empty_array((rows, k), "float64", library, device) for _ in range(2))
    lowest = empty_array((rows, k // _RUN), "int16", library, device)
    if eights:
        tiled = layout == "128x4"
        kernel = get_kernel(product_kernels.exact_kernel(block, tiled=tiled), _DECODE, device)
        division, threads = make_division(per_row), product_kernels.EXACT_THREADS
        kernel.launch(
            (-(-eights // threads), 1), threads, stream, codes.pointer, scales.pointer, _pointer(values), _pointer(magnitudes),
            _pointer(lowest), eights, per_row, division.multiplier, division.shift, count_tiles(per_row),
        )  # fmt: skip
    return _Side(rows, k, values, magnitudes, lowest)


def exact_product(a: Any, b: Any) -> ExactProduct:
    """The product of a [m, k] and b [n, k], row by row, with the outputs that are proven to be the exact sums.

    a, b: `Quantized` tensors of two axes, or `Operand`s, of any of the seven block formats. Tensor scales are left out, as
        `mxspec.dot.sum_products` leaves them out; where certain, `values` are its `nearest` and nothing remains.
    Needs 16 bytes of the GPU's memory for each element of either side, and 19 for each output.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do; RuntimeError where cuBLAS is set
    to emulate float64.
    """
    check_no_emulation()
    left, right = _take(a, "a"), _take(b, "b")
    device = left[0].device
    if right[0].device != device:
        raise ValueError(f"a is on device {device} and b on device {right[0].device}; pass both on one")
    k, other = (s[0].shape[1] * 8 // s[2].element.bits for s in (left, right))
    if k != other:
        raise ValueError(f"a has k = {k} and b has k = {other}; both operands of a product have one k, their last axis")
    m, n = left[0].shape[0], right[0].shape[0]
    tile = product_kernels.CERTIFY_TILE
    if m > tile * 65535 or n >= 1 << 31 or k >= 1 << 31:
        raise ValueError(f"a product of {m} x {n} x {k}: at most {tile * 65535} rows of a are done at once; pass parts")
    library = left[0].library
    stream = current_stream(library, device)
    values, magnitude = (empty_array((m, n), "float64", library, device) for _ in range(2))
    unit, certain = (empty_array((m, n), dtype, library, device) for dtype in ("int16", "bool"))
    if m and n:
        with OnDevice(device):
            sides = [_decode(*side, library, stream) for side in (left, right)]
            shape = m, n, k
            for out, part in ((values, "values"), (magnitude, "magnitudes")):
                if k:
                    first, second = (_pointer(getattr(s, part)) for s in sides)
                    multiply_rows(first, second, _pointer(out), shape, "float64", "float64", device, stream)
                else:
                    out[...] = 0
            kernel = get_kernel(product_kernels.certify_kernel(), _CERTIFY, device)
            lowest = [_pointer(s.lowest) if k else 0 for s in sides]
            kernel.launch(
                (-(-n // tile), -(-m // tile)), 256, stream, *lowest, _pointer(values), _pointer(magnitude), _pointer(unit),
                _pointer(certain), m, n, k // _RUN,
            )  # fmt: skip
    return ExactProduct(values, certain, magnitude, unit, k)
