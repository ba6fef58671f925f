"""Products with quantized weights of any number of rows: the weights where they lie, or made 16-bit numbers for cuBLAS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mxspec.affine import AffineFormat
from mxspec.formats import BlockFormat
from mxspec_gpu import product_kernels
from mxspec_gpu.affine import affine_dequantize, affine_gemv, check_affine, check_parts, gemv_contract
from mxspec_gpu.api import check_packed, check_values_output, dequantize
from mxspec_gpu.arguments import check_apart, check_format
from mxspec_gpu.arrays import ITEM_BYTES, OnDevice, View, current_stream, empty_array, view_array, view_output
from mxspec_gpu.blas import Scalars, multiply_rows
from mxspec_gpu.gemv_tunings import MOST_VECTORS
from mxspec_gpu.launch import POINTER, U32, U64, get_kernel
from mxspec_gpu.lookup import gemv
from mxspec_gpu.vectors import take_alpha, take_bias, take_rows

#: Rows of x up to which the weights are multiplied where they lie; see `choose_way`.
MOST_ROWS = MOST_VECTORS
#: Weights of few rows make few blocks of threads. At most so many, and fewer than so many columns -> rows of x.
_FEW = (
    (1 << 10, 1 << 13, 8), (1 << 10, 1 << 31, 4), (1 << 11, 1 << 31, 16), (1 << 12, 1 << 13, 32), (1 << 12, 1 << 31, 48),
)  # fmt: skip
_BIAS = POINTER * 3 + U64 + U32


@dataclass(frozen=True, slots=True)
class _Weights:
    """A matrix of weights: its shape, and the ways to use it."""

    shape: tuple[int, int]
    #: The dtype of x and of the weights' numbers.
    dtype: str
    views: tuple[View, ...]
    #: (x, alpha, dtype, out): the product with at most MOST_VECTORS vectors, None where no kernel has that.
    vectors: Any
    #: () -> the numbers [N, K].
    numbers: Any


def _block_weights(codes: Any, scales: Any, block: BlockFormat, scale_layout: str) -> _Weights:
    views = check_packed(codes, scales, block, scale_layout)
    shape = views[0].shape
    if len(shape) != 2:
        raise ValueError(f"codes have shape {shape}; pass [N, bytes of a row]")
    k = shape[1] * 8 // block.element.bits
    here = block.element.name == "e2m1" and k % 32 == 0 and scale_layout == "row-major"
    return _Weights(
        (shape[0], k), "bfloat16", views,
        (lambda x, alpha, dtype, out: gemv(x, codes, scales, block, alpha=alpha, dtype=dtype, out=out)) if here else None,
        partial(dequantize, codes, scales, block, scale_layout=scale_layout, dtype="bfloat16"),
    )  # fmt: skip


def _affine_weights(codes: Any, scales: Any, offsets: Any, fmt: AffineFormat) -> _Weights:
    if fmt.dtype == "float32":
        raise ValueError(f"fmt = {fmt.name}; gemm takes 16-bit scales; use affine_dequantize and multiply")
    views = check_parts(codes, scales, offsets, fmt)
    if len(views[0].shape) != 2:
        raise ValueError(f"codes have shape {views[0].shape}; pass [N, codes of a row]")
    k = views[0].shape[1] * 2 * ITEM_BYTES[views[0].dtype]
    q, s, o = (v.owner for v in views)
    here = fmt.group % 32 == 0
    return _Weights(
        (views[0].shape[0], k), fmt.dtype, views,
        (lambda x, alpha, dtype, out: affine_gemv(x, q, s, o, fmt, alpha=alpha, dtype=dtype, out=out)) if here else None,
        partial(affine_dequantize, q, s, o, fmt, contract=gemv_contract(fmt), dtype=fmt.dtype),
    )  # fmt: skip


def choose_way(rows: int, shape: tuple[int, int], *, has_vectors: bool) -> str:
    """ "vectors", one launch with the weights where they lie, or "numbers": dequantized, then cuBLAS; for weights [N, K].

    On an H200 a launch with 64 rows takes less time than dequantizing and a product, two as much or more; of weights with few rows
    fewer (reports/gpu/README.md).
    """
    most = next((most for n, k, most in _FEW if shape[0] <= n and shape[1] < k), MOST_ROWS)
    return "vectors" if has_vectors and rows <= most else "numbers"


def gemm(
    x: Any, codes: Any, scales: Any, fmt: str | BlockFormat | AffineFormat, *, offsets: Any = None, alpha: Any = 1.0,
    bias: Any = None, dtype: str | None = None, scale_layout: str = "row-major", out: Any = None,
) -> Any:  # fmt: skip
    """`mxspec_gpu.gemm`, which documents the arguments, without tiles: rows as vectors, or by cuBLAS after `dequantize`.

    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    is_affine = isinstance(fmt, AffineFormat) or (isinstance(fmt, str) and fmt.startswith("int"))
    if is_affine:
        weights = _affine_weights(codes, scales, offsets, check_affine(fmt))
    elif offsets is not None:
        raise ValueError(f"offsets were given with fmt = {fmt!r}, which has none; pass an affine format or leave them out")
    else:
        weights = _block_weights(codes, scales, check_format(fmt), scale_layout)
    view, lead = take_rows(x, weights.dtype)
    n, k = weights.shape
    device = view.device
    if view.shape[-1] != k:
        raise ValueError(f"x has shape {view.shape} and the weights {weights.shape}; x is [K] or [M, K] with weights [N, K]")
    if weights.views[0].device != device:
        raise ValueError(f"x is on device {device} and codes on device {weights.views[0].device}; pass all on one")
    wanted = weights.dtype if dtype is None else dtype
    if wanted not in (weights.dtype, "float32"):
        raise TypeError(f"dtype = {dtype!r}; allowed are the names {weights.dtype}, float32")
    rows = lead[0] if lead else 1
    if not k or max(n, k, rows) >= 1 << 31:
        raise ValueError(f"x has shape {view.shape} and the weights {weights.shape}; K is 1 or more, each less than 2**31")
    pointer, bits, _kept = take_alpha(alpha, device)
    added = take_bias(bias, wanted, n, device)
    if out is None:
        out = empty_array((*lead, n), wanted, view.library, device)
    target = view_output(out)
    check_values_output(target, wanted, (*lead, n), device)
    sources = [("x", view), *zip(("codes", "scales", "offsets"), weights.views, strict=False)]
    check_apart([("out", *target.range)], [(name, *v.range) for name, v in [*sources, *([("bias", added)] if added else [])]])
    if not (n and rows):
        return out
    if choose_way(rows, (n, k), has_vectors=weights.vectors is not None) == "vectors":
        _multiply_vectors(view, weights, alpha, added, target, wanted)
        return out
    numbers = view_array(weights.numbers(), "numbers")
    stream = current_stream(view.library, device)
    # cuBLAS may round a 16-bit result before it adds a bias to it.
    sums = out if added is None else empty_array((rows, n), "float32", view.library, device)
    multiply_rows(
        view.pointer, numbers.pointer, view_array(sums, "sums").pointer, (rows, n, k), weights.dtype,
        wanted if added is None else "float32", device, stream,
        Scalars(alpha=float(np.uint32(bits).view(np.float32)), pointer=pointer),
    )  # fmt: skip
    if added is not None:
        _launch_bias(view_array(sums, "sums").pointer, added, target, wanted, device, stream, rows, n)
    return out


def _multiply_vectors(view: View, weights: _Weights, alpha: Any, added: View | None, target: View, wanted: str) -> None:
    rows, n, device = view.size // view.shape[-1], weights.shape[0], view.device
    dtype = wanted if added is None else "float32"
    sums = target.owner.reshape(rows, n) if added is None else empty_array((rows, n), dtype, view.library, device)
    weights.vectors(view.owner.reshape(rows, -1), alpha, dtype, sums)
    if added is not None:
        stream = current_stream(view.library, device)
        _launch_bias(view_array(sums, "sums").pointer, added, target, wanted, device, stream, rows, n)


def _launch_bias(sums: int, added: View, target: View, dtype: str, device: int, stream: int, rows: int, n: int) -> None:
    kernel = get_kernel(product_kernels.bias_kernel(dtype), _BIAS, device)
    count = rows * n
    with OnDevice(device):
        kernel.launch((min(-(-count // 256), 1 << 16), 1), 256, stream, sums, added.pointer, target.pointer, count, n)
