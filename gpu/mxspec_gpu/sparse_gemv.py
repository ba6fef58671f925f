"""Products of 2:4 sparse block-scaled weights with a few vectors, by the sparse tensor cores."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mxspec.formats import BlockFormat
from mxspec_gpu import step_kernels
from mxspec_gpu.api import check_values_output
from mxspec_gpu.arguments import check_apart, check_float_name, check_format
from mxspec_gpu.arrays import OnDevice, View, copy_contiguous, current_stream, empty_array, view_array, view_output
from mxspec_gpu.launch import POINTER, U32, Kernel, get_kernel
from mxspec_gpu.vectors import take_alpha, take_vectors

_TYPES = POINTER * 6 + U32 * 4
#: Vectors of one launch.
MOST_VECTORS = 16


@lru_cache(maxsize=64)
def _kernel(fmt: str, dtype: str, batch: int, device: int) -> tuple[Kernel, step_kernels.SparseGemvTuning]:
    tuning = step_kernels.tune_sparse_gemv(fmt, batch)
    return get_kernel(step_kernels.sparse_gemv_kernel(fmt, dtype, batch, tuning), _TYPES, device), tuning


def _take_parts(kept: Any, metadata: Any, scales: Any, block: BlockFormat) -> tuple[View, View, View]:
    """What is kept, nibbles and scales, contiguous and aligned.

    Raises TypeError and ValueError for what does not match.
    """
    views = tuple(view_array(a, name) for a, name in ((kept, "kept"), (metadata, "metadata"), (scales, "scales")))
    if {v.dtype for v in views} != {"uint8"}:
        raise TypeError(f"kept, metadata and scales have dtypes {', '.join(v.dtype for v in views)}; all are uint8")
    if len({v.device for v in views}) > 1:
        raise ValueError(f"kept, metadata and scales are on devices {', '.join(str(v.device) for v in views)}; pass all on one")
    shape = views[0].shape
    if len(shape) != 2 or shape[1] % 16:
        raise ValueError(f"kept has shape {shape}; pass [N, K / 4], K a multiple of 64; pad with zeros and the nibble 4")
    wanted = (shape[0], shape[1] // 2), (shape[0], shape[1] * 4 // block.k)
    if views[1].shape != wanted[0] or views[2].shape != wanted[1]:
        raise ValueError(
            f"kept of shape {shape}, metadata of shape {views[1].shape} and scales of shape {views[2].shape} do not match for 2:4 "
            f"{block.name}; pass metadata of shape {wanted[0]} and scales of shape {wanted[1]}"
        )
    codes, nibbles, scale_view = (v if v.contiguous and v.pointer % 16 == 0 else copy_contiguous(v) for v in views)
    return codes, nibbles, scale_view


def sparse_gemv(
    x: Any, kept: Any, metadata: Any, scales: Any, fmt: str | BlockFormat, *, alpha: Any = 1.0, dtype: str = "bfloat16", out: Any = None
) -> Any:
    """alpha * W x for up to 16 vectors and 2:4 sparse weights, which nothing unpacks: `mxspec.dot.sparse_factor`'s product.

    x: bfloat16 [K] or [M, K]. kept: uint8 [N, K / 4], the codes that are kept, two to a byte; metadata: uint8 [N, K / 8], nibbles two
        to a byte; scales: uint8 [N, K / k] of the dense K, row-major; as `sparse_dequantize` takes them. K is a multiple of 64.
    fmt: mxfp4 or nvfp4. alpha: a number or a float32 array [1] on the GPU, such as the tensor's decode scale.
    Returns [N] or [M, N] of `dtype`. A weight is its code's value times its scale, exactly; x across from a dropped weight does not
    count, not even an infinity. Sums are float32; their order is the same in every call, for every M. A row with an illegal nibble
    is NaN, since a call cannot wait to refuse it.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = check_format(fmt)
    if block.element.name != "e2m1":
        raise ValueError(f"fmt = {block.name!r}; sparse_gemv takes mxfp4 and nvfp4")
    check_float_name(dtype)
    view, lead = take_vectors(x, "bfloat16", MOST_VECTORS)
    codes, nibbles, scale_view = _take_parts(kept, metadata, scales, block)
    n, k = codes.shape[0], codes.shape[1] * 4
    if view.shape[-1] != k or view.device != codes.device:
        raise ValueError(
            f"kept of shape {codes.shape} on device {codes.device} and x of shape {view.shape} on device {view.device} do not match; pass "
            "kept [N, K / 4] and x [..., K] on one device"
        )
    if n >= 1 << 31 or k >= 1 << 31 or n * k >= 1 << 38:
        raise ValueError(f"kept has shape {codes.shape}; pass fewer than 2**31 rows and columns, and fewer than 2**38 weights")
    pointer, bits, _kept = take_alpha(alpha, view.device)
    shape = (*lead, n)
    if out is None:
        out = empty_array(shape, dtype, view.library, view.device)
    target = view_output(out)
    check_values_output(target, dtype, shape, view.device)
    sources = [("x", view), ("kept", codes), ("metadata", nibbles), ("scales", scale_view)]
    check_apart([("out", *target.range)], [(name, *v.range) for name, v in sources])
    if n and k:
        batch = lead[0] if lead else 1
        kernel, tuning = _kernel(block.name, dtype, 8 if batch <= 8 else 16, view.device)
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            kernel.launch(
                (-(-n // step_kernels.SPARSE_ROWS), 1), 32 * tuning.warps, stream, codes.pointer, nibbles.pointer, scale_view.pointer, view.pointer,
                target.pointer, pointer, bits, n, k, batch,
            )  # fmt: skip
    return out
