"""ggml's C reference functions, called through ctypes.

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

from mxspec_conformance.adapters.registry import Adapter, Library, Source

_SOURCE = Source("MXSPEC_GGML_LIBRARY", "the libggml-base that ggml-org/ggml builds, a shared library")
#: format -> (elements per stored block, scale bytes in it, elements per scale)
_SHAPES = {"mxfp4": (32, 1, 32), "nvfp4": (64, 4, 16)}


class _Ggml:
    FORMATS = tuple(_SHAPES)
    DTYPES = ("float32",)

    def __init__(self) -> None:
        path = _SOURCE.find()
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(f"{_SOURCE.variable} is {path}, which cannot be loaded: {error}") from error
        self.VERSION = _version(library)
        self._quantize = {fmt: _function(library, f"quantize_row_{fmt}_ref") for fmt in _SHAPES}
        self._dequantize = {fmt: _function(library, f"dequantize_row_{fmt}") for fmt in _SHAPES}

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]; zeros fill up blocks for the call."""
        _refuse_tensor_scale(tensor_scale)
        stored, scale_bytes, block = _SHAPES[fmt]
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        count = len(flat)
        flat = np.concatenate([flat, np.zeros(-count % stored, np.float32)])
        out = np.zeros((len(flat) // stored, scale_bytes + stored // 2), np.uint8)
        self._quantize[fmt](flat.ctypes.data, out.ctypes.data, len(flat))
        packed = out[:, scale_bytes:].reshape(-1, block // 2)
        codes = np.concatenate([packed & 0x0F, packed >> 4], axis=1).reshape(-1)[:count]
        scales = out[:, :scale_bytes].reshape(-1)[: count // block]
        return codes.reshape(x.shape), scales.reshape(x.shape[0], -1)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values [rows, k]."""
        _refuse_tensor_scale(tensor_scale)
        stored, scale_bytes, block = _SHAPES[fmt]
        count = codes.size
        fill = -count % stored
        flat = np.concatenate([np.ravel(codes), np.zeros(fill, np.uint8)]).reshape(-1, 2, block // 2)
        packed = (flat[:, 0] | (flat[:, 1] << 4)).reshape(-1, stored // 2)
        bytes_of_scales = np.concatenate([np.ravel(scales), np.zeros(fill // block, np.uint8)])
        data = np.ascontiguousarray(np.concatenate([bytes_of_scales.reshape(-1, scale_bytes), packed], axis=1))
        values = np.zeros(count + fill, np.float32)
        self._dequantize[fmt](data.ctypes.data, values.ctypes.data, len(values))
        return values[:count].reshape(codes.shape)


def _function(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, name)
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function.restype = None
    return function


def _version(library: ctypes.CDLL) -> str:
    try:
        function = library.ggml_version
    except AttributeError:
        return os.environ.get("MXSPEC_GGML_VERSION", "unknown")
    function.restype = ctypes.c_char_p
    return str(function().decode())


def _refuse_tensor_scale(tensor_scale: float | None) -> None:
    if tensor_scale is not None:
        raise NotImplementedError("ggml's NVFP4 has no tensor scale in the block functions")


ADAPTERS = (
    Adapter(
        name="ggml-c",
        library=Library(name="ggml-c", requires="a ggml library", source=_SOURCE),
        about="llama.cpp's C reference",
        make=_Ggml,
        profiles={"mxfp4": "ggml-0.21/mxfp4"},
        profiles_one_level={"nvfp4": "ggml-0.21/nvfp4"},
    ),
)
