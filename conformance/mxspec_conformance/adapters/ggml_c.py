"""ggml's C reference functions as a target, called through ctypes.

The environment variable MXSPEC_GGML_LIBRARY names a shared library that exports `quantize_row_mxfp4_ref`,
`quantize_row_nvfp4_ref`, `dequantize_row_mxfp4` and `dequantize_row_nvfp4` (libggml-base of ggml or llama.cpp
does). A block stores the scale bytes first, then two codes per byte: the low nibble holds element j, the high
one j + k/2. Four NVFP4 blocks are stored together. The bytes of NaN, Inf and wrapped exponents are those of
this build: the C conversions behind them are undefined.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

NAME = "ggml"
FORMATS = ["mxfp4", "nvfp4"]
DTYPES = ["float32"]
PROFILES = {"mxfp4": "ggml-0.21/mxfp4"}
PROFILES_ONE_LEVEL = {"nvfp4": "ggml-0.21/nvfp4"}

_VARIABLE = "MXSPEC_GGML_LIBRARY"
#: format -> (elements per stored block, scale bytes in it, elements per scale)
_SHAPES = {"mxfp4": (32, 1, 32), "nvfp4": (64, 4, 16)}


def _open() -> ctypes.CDLL:
    path = os.environ.get(_VARIABLE)
    if not path:
        raise ImportError(f"{_VARIABLE} is not set; point it at a libggml-base shared library")
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{_VARIABLE} is {path}, which cannot be loaded: {error}") from error


_library = _open()


def _function(name: str) -> Any:
    function = getattr(_library, name)
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function.restype = None
    return function


_QUANTIZE = {fmt: _function(f"quantize_row_{fmt}_ref") for fmt in FORMATS}
_DEQUANTIZE = {fmt: _function(f"dequantize_row_{fmt}") for fmt in FORMATS}


def _version() -> str:
    try:
        function = _library.ggml_version
    except AttributeError:
        return os.environ.get("MXSPEC_GGML_VERSION", "unknown")
    function.restype = ctypes.c_char_p
    return str(function().decode())


VERSION = _version()


def _refuse_tensor_scale(tensor_scale: float | None) -> None:
    if tensor_scale is not None:
        raise NotImplementedError("ggml's NVFP4 has no tensor scale in the block functions")


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/block]; zeros fill up blocks for the call."""
    _refuse_tensor_scale(tensor_scale)
    stored, scale_bytes, block = _SHAPES[fmt]
    flat = np.ascontiguousarray(x, np.float32).reshape(-1)
    count = len(flat)
    flat = np.concatenate([flat, np.zeros(-count % stored, np.float32)])
    out = np.zeros((len(flat) // stored, scale_bytes + stored // 2), np.uint8)
    _QUANTIZE[fmt](flat.ctypes.data, out.ctypes.data, len(flat))
    packed = out[:, scale_bytes:].reshape(-1, block // 2)
    codes = np.concatenate([packed & 0x0F, packed >> 4], axis=1).reshape(-1)[:count]
    scales = out[:, :scale_bytes].reshape(-1)[: count // block]
    return codes.reshape(x.shape), scales.reshape(x.shape[0], -1)


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """float32 values [rows, k]."""
    _refuse_tensor_scale(tensor_scale)
    stored, scale_bytes, block = _SHAPES[fmt]
    count = codes.size
    fill = -count % stored
    flat = np.concatenate([np.ravel(codes), np.zeros(fill, np.uint8)]).reshape(-1, 2, block // 2)
    packed = (flat[:, 0] | (flat[:, 1] << 4)).reshape(-1, stored // 2)
    bytes_of_scales = np.concatenate([np.ravel(scales), np.zeros(fill // block, np.uint8)]).reshape(-1, scale_bytes)
    data = np.ascontiguousarray(np.concatenate([bytes_of_scales, packed], axis=1))
    values = np.zeros(count + fill, np.float32)
    _DEQUANTIZE[fmt](data.ctypes.data, values.ctypes.data, len(values))
    return values[:count].reshape(codes.shape)
