"""What products take in addition to weights: vectors or rows of x, alpha and bias, and the chip's shared memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mxspec_gpu.arrays import View, copy_contiguous, view_array
from mxspec_gpu.build import import_cupy
from mxspec_gpu.gemv_tunings import SharedMemory


def take_rows(x: Any, dtype: str) -> tuple[View, tuple[int, ...]]:
    """x as [K] or [M, K], contiguous and aligned; and its own leading shape.

    Raises TypeError for another dtype, ValueError for another rank.
    """
    view = view_array(x)
    if view.dtype != dtype:
        raise TypeError(f"x has dtype {view.dtype}; pass {dtype}")
    if len(view.shape) not in (1, 2):
        raise ValueError(f"x has shape {view.shape}; pass [K] or [M, K]")
    return (view if view.contiguous and view.pointer % 16 == 0 else copy_contiguous(view)), view.shape[:-1]


def take_vectors(x: Any, dtype: str, most: int) -> tuple[View, tuple[int, ...]]:
    """The same, of at most so many vectors."""
    view, lead = take_rows(x, dtype)
    if lead and not 1 <= lead[0] <= most:
        raise ValueError(f"x has {lead[0]} vectors; pass 1 to {most}, or use mxspec_gpu.gemm")
    return view, lead


def take_alpha(alpha: Any, device: int, experts: int = 1) -> tuple[int, int, Any]:
    """Address of one for each expert, or 0 and float32 bits; and what keeps the memory."""
    if isinstance(alpha, (int, float, np.floating)) and not isinstance(alpha, bool):
        return 0, int(np.float32(alpha).view(np.uint32)), None
    view = view_array(alpha, "alpha")
    if view.dtype != "float32" or view.size != experts or view.device != device:
        raise ValueError(
            f"alpha has dtype {view.dtype} and shape {view.shape} on device {view.device}; pass a number, or "
            f"{'one float32' if experts == 1 else f'float32 [{experts}], one for each expert,'} on device {device}"
        )
    return (view := view if view.contiguous else copy_contiguous(view)).pointer, 0, view.owner


def take_bias(bias: Any, dtype: str, n: int, device: int, experts: int | None = None) -> View | None:
    """A bias [N] of the output's dtype, or [experts, N], contiguous."""
    if bias is None:
        return None
    view = view_array(bias, "bias")
    shape = (n,) if experts is None else (experts, n)
    if view.dtype != dtype or view.shape != shape or view.device != device:
        raise ValueError(
            f"bias has dtype {view.dtype} and shape {view.shape} on device {view.device}; pass {dtype} of shape {shape}, one number "
            f"for each row of the weights, on device {device}"
        )
    return view if view.contiguous else copy_contiguous(view)


@lru_cache(maxsize=64)
def read_shared_memory(device: int) -> SharedMemory:
    """What the chip has."""
    runtime = import_cupy().cuda.runtime
    block, multiprocessor, system = (
        runtime.deviceGetAttribute(attribute, device)
        for attribute in (
            runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin,
            runtime.cudaDevAttrMaxSharedMemoryPerMultiprocessor,
            runtime.cudaDevAttrReservedSharedMemoryPerBlock,
        )
    )
    return SharedMemory(block=block, multiprocessor=multiprocessor, system=system)
