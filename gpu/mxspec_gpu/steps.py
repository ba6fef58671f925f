"""The documents' steps on the GPU: the thread models that notes and courses describe, each a kernel with the model's bits.

They are for reading and for measuring: `quantize`, `dequantize`, `dequantize_records` and `affine_gemv` do the same faster. Each is
built from the rules that a profile generates, so that a step differs from the real kernel in who does what, not in what is computed.
"""

from __future__ import annotations

import sys
from typing import Any

from mxspec.affine import AffineContract, AffineFormat, get_contract
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_gpu import step_kernels
from mxspec_gpu.affine import check_affine, check_parts
from mxspec_gpu.api import check_packed, check_values_output, find_dequantize_rules, scale_shape
from mxspec_gpu.arguments import check_apart, check_format, check_layout
from mxspec_gpu.arrays import ITEM_BYTES, OnDevice, View, copy_contiguous, current_stream, empty_array, view_array, view_output
from mxspec_gpu.build import import_cupy
from mxspec_gpu.launch import POINTER, U32, get_kernel
from mxspec_gpu.product_kernels import records_rules
from mxspec_gpu.records import RECORDS
from mxspec_gpu.vectors import take_rows
from mxspec_gpu.views import count_tiles

#: Threads of a block, where a step's document leaves them open.
THREADS = 256
_RECORDS = POINTER * 2 + U32
_WAYS = POINTER * 4 + U32 * 2
_QUANTIZE = POINTER * 4 + U32 * 4
_AFFINE = POINTER * 5 + U32 * 3


def _check_half(dtype: Any) -> str:
    if not isinstance(dtype, str) or dtype not in step_kernels.HALVES:
        raise TypeError(f"dtype = {dtype!r}; the steps have {', '.join(step_kernels.HALVES)}")
    return dtype


def _check_four_bits(fmt: Any) -> BlockFormat:
    block = check_format(fmt)
    if block.element.name != "e2m1":
        raise ValueError(f"fmt = {block.name!r}; the steps are of mxfp4 and nvfp4; use mxspec_gpu.quantize and dequantize for others")
    return block


def _take_output(out: Any, dtype: str, shape: tuple[int, ...], like: View, sources: list[tuple[str, View]]) -> tuple[Any, View]:
    """An array to write to, the caller's or a new one, and its view."""
    if out is None:
        out = empty_array(shape, dtype, like.library, like.device)
    target = view_output(out)
    check_values_output(target, dtype, shape, like.device)
    check_apart([("out", *target.range)], [(name, *view.range) for name, view in sources])
    return out, target


def _dequantize_records(function: str, records: Any, fmt: Any, dtype: str, out: Any) -> Any:
    block = _check_four_bits(fmt)
    _check_half(dtype)
    size, elements = RECORDS[block.name]
    view = view_array(records, "records")
    if view.dtype != "uint8" or not view.shape or view.shape[-1] % size:
        raise ValueError(
            f"records have dtype {view.dtype} and shape {view.shape}; pass uint8 [..., a multiple of {size} bytes], {elements} values each"
        )
    count = view.size // size
    if count >= 1 << 31:
        raise ValueError(f"{count} records; fewer than 2**31 are done at once; pass parts")
    held = view if view.contiguous else copy_contiguous(view)
    shape = (*view.shape[:-1], view.shape[-1] // size * elements)
    out, target = _take_output(out, dtype, shape, held, [("records", held)])
    if count:
        kernel = get_kernel(step_kernels.step_records_kernel(records_rules(block.name), function, dtype), _RECORDS, held.device)
        each = function == "dequantize_records_each"
        grid, threads = (-(-count // THREADS), THREADS) if each else (count, elements)
        stream = current_stream(held.library, held.device)
        with OnDevice(held.device):
            kernel.launch((grid, 1), threads, stream, held.pointer, target.pointer, count)
    return out


def dequantize_elements(records: Any, fmt: str | BlockFormat, *, dtype: str = "float16", out: Any = None) -> Any:
    """The values of ggml's records, a block of threads a record and a thread an element: the first kernel of the MXFP4 notes.

    records: uint8 [..., bytes], 17 bytes (mxfp4) or 36 (nvfp4) a record, the scales first. dtype: float16 or bfloat16.
    Returns [..., K] as `mxspec_gpu.dequantize_records` does.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    return _dequantize_records("dequantize_elements", records, fmt, dtype, out)


def dequantize_blocks(records: Any, fmt: str | BlockFormat, *, dtype: str = "float16", out: Any = None) -> Any:
    """The same, a thread a record.

    records, dtype, out, Returns, Raises: as `dequantize_elements`.
    """
    return _dequantize_records("dequantize_records_each", records, fmt, dtype, out)


def dequantize_ways(
    codes: Any, scales: Any, fmt: str | BlockFormat, way: int, *, profile: str | Profile | None = None, tensor_scale: Any = None,
    dtype: str = "float16", out: Any = None,
) -> Any:  # fmt: skip
    """The values of packed codes, `way` neighbours a thread (2, 4 or 8): what `mxspec_gpu.dequantize` gives.

    codes: uint8 [..., K / 2]; scales: uint8 [..., K / k], row-major. dtype: float16 or bfloat16.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = _check_four_bits(fmt)
    _check_half(dtype)
    if way not in step_kernels.WAYS:
        raise ValueError(f"way = {way!r}; allowed are {', '.join(map(str, step_kernels.WAYS))} elements a thread")
    view, scale_view = check_packed(codes, scales, block, "row-major")
    rules, tensor = find_dequantize_rules(view, block, profile, tensor_scale)
    if not view.contiguous or view.pointer % 4:
        view = copy_contiguous(view)
    count = view.size * 2 // way
    if count >= 1 << 31:
        raise ValueError(f"codes have shape {view.shape}; fewer than 2**31 threads are started at once; pass parts")
    shape = (*view.shape[:-1], view.shape[-1] * 2)
    out, target = _take_output(out, dtype, shape, view, [("codes", view), ("scales", scale_view)])
    if count:
        kernel = get_kernel(step_kernels.step_ways_kernel(rules, way, dtype), _WAYS, view.device)
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            kernel.launch(
                (-(-count // THREADS), 1), THREADS, stream, view.pointer, scale_view.pointer, target.pointer, tensor.pointer,
                tensor.bits, count,
            )  # fmt: skip
    return out


def find_grid(rows: int, columns: int, multiprocessors: int, threads_of_sm: int) -> tuple[int, int]:
    """Blocks of threads and threads of a block that the LightX2V notes start for a matrix: eight elements a thread, at most 256
    threads, and as many blocks as are resident at once."""
    threads = min(columns // 8, THREADS)
    return min(rows, multiprocessors * (threads_of_sm // threads)), threads


def quantize_grid_stride(
    x: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scale: Any = None,
    scale_layout: str = "row-major", out: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Packed codes and scales of the rows of x, eight elements a thread, scales by shuffles: what `mxspec_gpu.quantize` gives.

    x: float16 or bfloat16 [M, K], K a multiple of the block. tensor_scale: None, a TensorScale or a float32 array [1] on the GPU.
    scale_layout: "row-major", uint8 [M, K / k], or "128x4", flat tiles whose padding is zero. out: (codes, scales); tiles that are
        given keep what lies in their padding.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = _check_four_bits(fmt)
    tiled = check_layout(scale_layout)
    view = view_array(x)
    _check_half(view.dtype)
    if len(view.shape) != 2 or view.shape[1] % block.k:
        raise ValueError(f"x has shape {view.shape}; pass [M, K], K a multiple of the {block.k}-element block of {block.name}")
    rows, columns = view.shape
    if max(rows, columns) >= 1 << 31:
        raise ValueError(f"x has shape {view.shape}; pass fewer than 2**31 rows and columns")
    rules, tensor = find_dequantize_rules(view, block, profile, tensor_scale)
    held = view if view.contiguous and view.pointer % 16 == 0 else copy_contiguous(view)
    blocks = columns // block.k
    shapes = (rows, columns // 2), scale_shape(rows, blocks, scale_layout) if tiled else (rows, blocks)
    if out is None:
        out = tuple(empty_array(shape, "uint8", view.library, view.device) for shape in shapes)
        _fill_zeros(out[1])
    targets = tuple(view_output(array) for array in out)
    for target, shape in zip(targets, shapes, strict=True):
        check_values_output(target, "uint8", shape, view.device)
    check_apart([(name, *t.range) for name, t in zip(("codes", "scales"), targets, strict=True)], [("x", *held.range)])
    if rows and columns:
        kernel = get_kernel(step_kernels.step_quantize_kernel(rules, view.dtype, tiled=tiled), _QUANTIZE, view.device)
        attributes = import_cupy().cuda.Device(view.device).attributes
        grid, threads = find_grid(rows, columns, attributes["MultiProcessorCount"], attributes["MaxThreadsPerMultiProcessor"])
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            kernel.launch(
                (grid, 1), threads, stream, held.pointer, targets[0].pointer, targets[1].pointer, tensor.pointer, tensor.bits, rows,
                columns // 8, count_tiles(blocks),
            )  # fmt: skip
    return out[0], out[1]


def _fill_zeros(array: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        array.zero_()
    else:
        array.fill(0)


def affine_matmul_naive(
    x: Any, codes: Any, scales: Any, offsets: Any, fmt: str | AffineFormat, *, contract: str | AffineContract = "float32",
    out: Any = None,
) -> Any:  # fmt: skip
    """x W^T with four-bit affine weights, a thread an output: `mxspec.affine.quantized_matmul` in its sequential order, bit for bit.

    x: float16 or bfloat16 [n] or [M, n], the dtype of the scales. codes: uint8 [N, n / 2] or words [N, n / 8]; scales, offsets:
        [N, n / group]. contract: one whose weights are float32. Returns [N] or [M, N] in x's dtype; sums are float32, column after column.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    affine = check_affine(fmt)
    _check_half(affine.dtype)
    rule = get_contract(contract, affine)
    if rule.dtype != "float32":
        raise ValueError(f"contract = {rule.name!r} has weights of {rule.dtype}; this step has float32 ones, say contract='float32'")
    view, lead = take_rows(x, affine.dtype)
    weights, s, o = check_parts(codes, scales, offsets, affine)
    n = weights.shape[-1] * 2 * ITEM_BYTES[weights.dtype]
    if len(weights.shape) != 2 or view.shape[-1] != n or view.device != weights.device:
        raise ValueError(
            f"codes of shape {weights.shape} on device {weights.device} and x of shape {view.shape} on device {view.device} do not match; "
            "pass codes of N rows of n codes and x [..., n] on one device"
        )
    m, k = (lead[0] if lead else 1), weights.shape[0]
    if -(-m // step_kernels.AFFINE_TILE[0]) > 65535 or max(n, k) >= 1 << 31:
        raise ValueError(f"x has shape {view.shape} and codes have shape {weights.shape}; at most 2**20 rows of x are done at once")
    sources = [("x", view), ("codes", weights), ("scales", s), ("offsets", o)]
    out, target = _take_output(out, affine.dtype, (*lead, k), view, sources)
    if m and k:
        kernel = get_kernel(step_kernels.step_affine_kernel(affine, rule), _AFFINE, view.device)
        across, down = step_kernels.AFFINE_TILE
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            kernel.launch(
                (-(-k // down), -(-m // across)), across * down, stream, view.pointer, weights.pointer, s.pointer, o.pointer,
                target.pointer, m, n, k,
            )  # fmt: skip
    return out
