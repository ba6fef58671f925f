"""This project's GPU kernels as a target; they need CuPy and an NVIDIA GPU."""

from __future__ import annotations

from typing import Any

import mxspec
import mxspec_gpu

try:
    mxspec_gpu.check_gpu()
except mxspec_gpu.GpuMissingError as error:
    raise ImportError(str(error)) from error

NAME, VERSION = "mxspec_gpu", mxspec.__version__
FORMATS = list(mxspec.BLOCKS)
ELEMENTS = [*mxspec.ELEMENTS, *mxspec.SCALES]
DTYPES = ["float32", "float16", "bfloat16"]
ARRAYS = "cupy"
TENSOR_SCALE = "amax"


def _scale(value: float | None) -> mxspec.TensorScale | None:
    return None if value is None else mxspec.TensorScale.from_float("amax", value)


def quantize(x: Any, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False) -> tuple[Any, Any]:
    """Codes, one a byte, and scales by the format's default profile, in x's axis order."""
    import cupy

    q = mxspec_gpu.quantize(x, fmt, tensor_scale=_scale(tensor_scale), axis=axis, pad=pad)
    return cupy.moveaxis(q.unpack(), -1, axis), cupy.moveaxis(q.scales, -1, axis)


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """float32 values by the format's default profile."""
    packed = mxspec_gpu.pack(codes, fmt)
    return mxspec_gpu.dequantize(packed, scales, fmt, tensor_scale=_scale(tensor_scale), dtype="float32")


def encode(x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
    """Codes of single numbers."""
    return mxspec_gpu.encode(x, element, rounding=rounding, overflow=overflow)


def decode(codes: Any, element: str) -> Any:
    """Values of single codes."""
    return mxspec_gpu.decode(codes, element)


def encode_stochastic(x: Any, element: str, random_bits: Any) -> Any:
    """Codes by the integer rule with 32 random bits."""
    return mxspec_gpu.encode(x, element, rounding="sr", random_bits=random_bits)


def tensor_scale(x: Any, fmt: str) -> float:
    """The tensor's largest magnitude."""
    return float(mxspec_gpu.tensor_scale(x, fmt)[0])
