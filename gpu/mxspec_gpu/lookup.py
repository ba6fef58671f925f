"""What a model does with quantized weights where they lie: a product with a few vectors, and rows of a table by their numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_gpu import kernels
from mxspec_gpu.api import DEQUANTIZE_TYPES, check_packed, check_values_output, find_dequantize_rules
from mxspec_gpu.arguments import check_apart, check_float_name, check_format
from mxspec_gpu.arrays import ITEM_BYTES, OnDevice, View, copy_contiguous, current_stream, empty_array, view_array, view_output
from mxspec_gpu.gemv_tunings import MOST_VECTORS, GemvTuning, plan_gemv
from mxspec_gpu.launch import POINTER, U32, Kernel, get_kernel, make_division
from mxspec_gpu.vectors import read_shared_memory, take_alpha, take_vectors
from mxspec_gpu.views import count_tiles

_GEMV = POINTER * 5 + U32 * 4


@lru_cache(maxsize=256)
def _gemv(fmt: str, dtype: str, tuning: GemvTuning, shared: int, device: int) -> Kernel:
    return get_kernel(kernels.gemv_kernel(fmt, dtype, tuning, shared), _GEMV, device)


def gemv(
    x: Any, codes: Any, scales: Any, fmt: str | BlockFormat, *, alpha: Any = 1.0, dtype: str = "bfloat16", out: Any = None
) -> Any:  # fmt: skip
    """alpha * W x for up to 64 vectors: the weights of a checkpoint as they lie there, bfloat16 x, sums in float32.

    x: bfloat16 [K] or [M, K]. codes: uint8 [N, K / 2], packed e2m1 (mxfp4 or nvfp4); scales: uint8 [N, K / k], row-major;
        K is a multiple of 32. alpha: a number or a float32 array [1] on the GPU, such as the tensor's decode scale.
    Returns [N] or [M, N] of `dtype`. A weight is its code's value times its scale, exactly; the order of the sums is the
    kernel's own and the same in every call, for every M.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = check_format(fmt)
    if block.element.name != "e2m1":
        raise ValueError(f"fmt = {block.name!r}; gemv takes mxfp4 and nvfp4; dequantize other formats and multiply")
    check_float_name(dtype)
    view, lead = take_vectors(x, "bfloat16", MOST_VECTORS)
    weights, weight_scales = check_packed(codes, scales, block, "row-major")
    n, k = (weights.shape[0], weights.shape[1] * 2) if len(weights.shape) == 2 else (0, 0)
    if len(weights.shape) != 2 or k % 32 or view.shape[-1] != k:
        raise ValueError(
            f"codes of shape {weights.shape} and x of shape {view.shape} do not match; pass codes [N, K / 2] and x [..., K], K a "
            "multiple of 32"
        )
    if view.device != weights.device:
        raise ValueError(f"x is on device {view.device} and codes on device {weights.device}; pass all on one")
    if n >= 1 << 31 or k >= 1 << 31:
        raise ValueError(f"codes have shape {weights.shape}; pass fewer than 2**31 rows and columns")
    if not weights.contiguous or weights.pointer % 16:
        weights = copy_contiguous(weights)
    if weight_scales.pointer % 2:
        weight_scales = copy_contiguous(weight_scales)
    pointer, bits, _kept = take_alpha(alpha, view.device)
    shape = (*lead, n)
    if out is None:
        out = empty_array(shape, dtype, view.library, view.device)
    target = view_output(out)
    check_values_output(target, dtype, shape, view.device)
    check_apart([("out", *target.range)], [("x", *view.range), ("codes", *weights.range), ("scales", *weight_scales.range)])
    if n and k:
        batch = lead[0] if lead else 1
        copy = k % 256 == 0 and weight_scales.pointer % 16 == 0
        memory = read_shared_memory(view.device)
        plan = plan_gemv(block.name, (n, k), batch, copy=copy, factors=256 // block.k, memory=memory)
        kernel = _gemv(block.name, dtype, plan.tuning, plan.shared, view.device)
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            for first in range(0, batch, plan.vectors):
                kernel.launch(
                    (-(-n // plan.tuning.rows), 1), plan.tuning.threads, stream, weights.pointer, weight_scales.pointer,
                    view.pointer + first * k * ITEM_BYTES[view.dtype], target.pointer + first * n * ITEM_BYTES[dtype], pointer, bits,
                    n, k, min(plan.vectors, batch - first),
                )  # fmt: skip
    return out


def embedding(
    ids: Any, codes: Any, scales: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None,
    tensor_scale: Any = None, scale_layout: str = "row-major", dtype: str = "bfloat16", out: Any = None,
) -> Any:  # fmt: skip
    """Rows of a quantized table: what `dequantize(codes, scales, ...)[ids]` gives, without the rest of the table.

    ids: int64 or int32, any shape. codes: uint8 [V, K bits / 8]; scales, profile, tensor_scale, scale_layout, dtype: as
        `dequantize` takes them. Returns [..., K]. A row of another number than 0 to V - 1 is NaN, since a call cannot wait to
        refuse it.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = check_format(fmt)
    check_float_name(dtype)
    numbers = view_array(ids, "ids")
    if numbers.dtype not in ("int64", "int32"):
        raise TypeError(f"ids have dtype {numbers.dtype}; pass int64 or int32")
    table, table_scales = check_packed(codes, scales, block, scale_layout)
    if len(table.shape) != 2:
        raise ValueError(f"codes have shape {table.shape}; pass a table [V, bytes of a row]")
    if numbers.device != table.device:
        raise ValueError(f"ids are on device {numbers.device} and codes on device {table.device}; pass all on one")
    rules, tensor = find_dequantize_rules(table, block, profile, tensor_scale)
    per_row = table.shape[1] * 8 // block.element.bits // block.k
    columns, device = per_row * block.k, table.device
    if numbers.size * per_row >= 1 << 29 or table.shape[0] * per_row >= 1 << 29:
        raise ValueError(
            f"ids of shape {numbers.shape} and codes of shape {table.shape}: fewer than 2**29 blocks are done at once; pass parts"
        )
    if not table.contiguous or table.pointer % 8:
        table = copy_contiguous(table)
    if numbers.dtype == "int32" or not numbers.contiguous:
        numbers = _widen(numbers)
    shape = (*numbers.shape, columns)
    if out is None:
        out = empty_array(shape, dtype, numbers.library, device)
    target = view_output(out)
    check_values_output(target, dtype, shape, device)
    check_apart([("out", *target.range)], [("ids", *numbers.range), ("codes", *table.range), ("scales", *table_scales.range)])
    if numbers.size and columns:
        tuning = kernels.tune_dequantize(block.name, dtype)
        tiled = scale_layout == "128x4"
        kernel = get_kernel(kernels.dequantize_kernel(rules, dtype, tiled=tiled, tuning=tuning, gather=True), DEQUANTIZE_TYPES, device)
        division, eights = make_division(per_row), numbers.size * columns // 8
        stream = current_stream(numbers.library, device)
        with OnDevice(device):
            kernel.launch(
                (-(-eights // (tuning.threads * tuning.unroll)), 1), tuning.threads, stream, table.pointer,
                table_scales.pointer, target.pointer, tensor.pointer, eights, per_row, division.multiplier, division.shift,
                count_tiles(per_row), tensor.bits, numbers.pointer, table.shape[0],
            )  # fmt: skip
    return out


def _widen(ids: View) -> View:
    """ids as contiguous int64, in the caller's library."""
    if ids.library == "torch":
        return view_array(ids.owner.long().contiguous(), "ids")
    with OnDevice(ids.device):
        return view_array(ids.owner.astype(np.int64, order="C"), "ids")
