"""ggml's C reference functions, called through ctypes.

The environment variable MXSPEC_GGML_LIBRARY names a shared library that exports `quantize_row_mxfp4_ref`,
`quantize_row_nvfp4_ref`, `dequantize_row_mxfp4` and `dequantize_row_nvfp4` (libggml-base of ggml or llama.cpp
does); MXSPEC_GGML_CPU_LIBRARY one that exports `ggml_vec_dot_mxfp4_q8_0` (libggml-cpu). A block stores the scale bytes first, then two codes per byte: the low nibble holds element j, the high
one j + k/2. Four NVFP4 blocks are stored together. The bytes of NaN, Inf and wrapped exponents are those of
this build: the C conversions behind them are undefined.
"""

from __future__ import annotations

import ctypes
import os
from functools import partial
from typing import Any

import numpy as np

from mxspec.elements import decode_table
from mxspec.formats import get_block
from mxspec_conformance.adapters.registry import Kept, Library, Source

_SOURCE = Source("MXSPEC_GGML_LIBRARY", "the libggml-base that ggml-org/ggml builds, a shared library")
#: Formats whose numbers are integers of 8 bits over a power of two, and that power.
_STEPS = {"mxfp6_e2m3": 3, "mxint8": 6}
#: format -> (elements per stored block, scale bytes in it, elements per scale)
_SHAPES = {"mxfp4": (32, 1, 32), "nvfp4": (64, 4, 16)}


_CPU_SOURCE = Source("MXSPEC_GGML_CPU_LIBRARY", "the libggml-cpu that ggml-org/ggml builds, a shared library")


def _load(source: Source) -> ctypes.CDLL:
    path = source.find()
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{source.variable} is {path}, which cannot be loaded: {error}") from error


class _Ggml:
    FORMATS = tuple(_SHAPES)
    DTYPES = ("float32",)

    def __init__(self) -> None:
        library = _load(_SOURCE)
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


class _Products:
    """`ggml_vec_dot_mxfp4_q8_0` and `ggml_vec_dot_nvfp4_q8_0`, one call for each output, as ggml's matrix products make them.

    Activations are Q8_0: 32 integers of 8 bits under a float16. MXFP6 E2M3 blocks (eighths) and MXINT8 blocks (64ths) are such
    blocks wherever a float16 holds the scale of the integers. ggml's own quantizer never stores -128, which MXINT8 has.
    """

    def __init__(self, variant: str = "") -> None:
        library = _load(_CPU_SOURCE)
        if hasattr(library, "ggml_cpu_init"):
            library.ggml_cpu_init()  # fills the tables of float16
        self.VERSION = _version(library)
        self.OPERANDS = [{"a": a, "b": b} for a in _STEPS for b in _SHAPES]
        self.PRODUCT_SHAPES = {"k": 64}
        self._dots = {fmt: _dot(library, f"ggml_vec_dot_{fmt}_q8_0{variant}") for fmt in _SHAPES}

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] float32."""
        _refuse_tensor_scale(b.tensor_scale)
        k = a.shape[1]
        x, w = _store_q8(a.codes, a.scales, a.format), _store(b.codes, b.scales, b.format)
        out = np.zeros((len(x), len(w)), np.float32)
        dot, total = self._dots[b.format], ctypes.c_float()
        for i, j in np.ndindex(*out.shape):
            dot(k, ctypes.byref(total), 0, w[j].ctypes.data, 0, x[i].ctypes.data, 0, 1)
            out[i, j] = total.value
        return out


def _store_q8(codes: Any, scales: Any, fmt: str) -> Any:
    """Rows of Q8_0 blocks: a float16, then 32 integers."""
    step = _STEPS[fmt]
    table = np.ldexp(decode_table(get_block(fmt).element).astype(np.float64), step)
    integers = np.where(np.isfinite(table), table, 0).astype(np.int8).view(np.uint8)[codes]
    exponents = scales.astype(int) - 127 - step
    known = (exponents >= -24) & (exponents <= 15) | (scales == 0xFF)
    if not known.all():
        raise NotImplementedError("no float16 holds this scale")
    halves = np.where(scales == 0xFF, np.nan, np.ldexp(1.0, np.clip(exponents, -24, 15))).astype(np.float16)
    rows, blocks = scales.shape
    parts = [halves.reshape(rows, blocks, 1).view(np.uint8), integers.reshape(rows, blocks, 32)]
    return np.ascontiguousarray(np.concatenate(parts, axis=-1)).reshape(rows, -1)


def _store(codes: Any, scales: Any, fmt: str) -> Any:
    """Rows of stored blocks."""
    stored, scale_bytes, block = _SHAPES[fmt]
    rows, k = codes.shape
    halves = np.asarray(codes).reshape(rows, -1, 2, block // 2)
    packed = (halves[:, :, 0] | (halves[:, :, 1] << 4)).reshape(rows, k // stored, stored // 2)
    parts = [np.asarray(scales).reshape(rows, k // stored, scale_bytes), packed]
    return np.ascontiguousarray(np.concatenate(parts, axis=-1)).reshape(rows, -1)


def _dot(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, name)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    function.argtypes = (ctypes.c_int, pointer, size, pointer, size, pointer, size, ctypes.c_int)
    function.restype = None
    return function


def _function(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, name)
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function.restype = None
    return function


def load_function(name: str) -> Any:
    """A function of libggml-base that takes a source, a destination and a number of elements.

    Raises ImportError where MXSPEC_GGML_LIBRARY names no library.
    """
    return _function(_load(_SOURCE), name)


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


_CPU_LIBRARY = Library(name="ggml-products", requires="a ggml library", source=_CPU_SOURCE)

ADAPTERS = (
    Library(name="ggml-c", requires="a ggml library", source=_SOURCE).target(
        "ggml-c", "llama.cpp's C reference", _Ggml, {"mxfp4": "ggml-0.21/mxfp4"}, profiles_one_level={"nvfp4": "ggml-0.21/nvfp4"}
    ),
    *(
        _CPU_LIBRARY.target(name, f"llama.cpp's dot products of Q8_0 activations, {words}", partial(_Products, variant), kept=Kept.PRODUCTS)
        for name, variant, words in (("ggml-products", "", "vectorized for this CPU"), ("ggml-products-generic", "_generic", "plain C"))
    ),
)
