"""This project's GPU kernels as their fast paths return them: packed nibbles, scales in 128x4 tiles."""

from __future__ import annotations

from typing import Any

import mxspec_gpu
from mxspec_conformance.adapters import mxspec_gpu_kernels

NAME, VERSION = "mxspec_gpu-tiles", mxspec_gpu_kernels.VERSION
FORMATS = ["mxfp4", "nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
ARRAYS = "cupy"
TENSOR_SCALE = "amax"
LAYOUT = ["nibble-low", "128x4"]

_scale = mxspec_gpu_kernels._scale


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Packed codes and the flat bytes of the scales' tiles."""
    q = mxspec_gpu.quantize(x, fmt, tensor_scale=_scale(tensor_scale), scale_layout="128x4")
    return q.codes, q.scales


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """float32 values."""
    return mxspec_gpu.dequantize(
        codes, scales, fmt, tensor_scale=_scale(tensor_scale), scale_layout="128x4", dtype="float32"
    )
