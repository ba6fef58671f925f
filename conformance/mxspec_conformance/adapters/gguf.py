"""gguf, the Python package of llama.cpp: its own quantizer and dequantizers, bytes unpacked.

A GGUF block stores the scale bytes first, then two codes per byte: the low nibble holds element j of the
block, the high nibble element j + k/2. gguf has no NVFP4 quantizer and no tensor scale.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec_conformance.adapters._convert import refuse_tensor_scale
from mxspec_conformance.adapters.registry import Kept, Library

_NVFP4_SUPERBLOCK = 4  # NVFP4 blocks of 16 are stored four at a time


class _Gguf:
    FORMATS = ("mxfp4", "nvfp4")
    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self) -> None:
        from gguf import GGMLQuantizationType, quants

        self.VERSION = version("gguf")
        self._quants: Any = quants
        self._types: dict[str, Any] = {"mxfp4": GGMLQuantizationType.MXFP4, "nvfp4": GGMLQuantizationType.NVFP4}

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k] and scale bytes [rows, k/32]."""
        refuse_tensor_scale(tensor_scale, "gguf has")
        if fmt != "mxfp4":
            raise NotImplementedError(f"gguf has no quantizer for {fmt}")
        rows = x.shape[0]
        data = self._quants.quantize(x, self._types[fmt]).reshape(rows, -1, 17)
        packed = data[..., 1:]
        codes = np.concatenate([packed & 0x0F, packed >> 4], axis=-1)
        return codes.reshape(rows, -1), data[..., 0].copy()

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]; NVFP4 blocks are grouped by four and the last group is filled with zeros."""
        refuse_tensor_scale(tensor_scale, "gguf has")
        rows, blocks = scales.shape
        half = codes.shape[1] // blocks // 2
        nibbles = codes.reshape(rows * blocks, 2, half)
        packed = nibbles[:, 0] | (nibbles[:, 1] << 4)
        flat = scales.reshape(rows * blocks)
        group = 1 if fmt == "mxfp4" else _NVFP4_SUPERBLOCK
        fill = -len(flat) % group
        packed = np.concatenate([packed, np.zeros((fill, half), np.uint8)]).reshape(-1, group * half)
        flat = np.concatenate([flat, np.zeros(fill, np.uint8)]).reshape(-1, group)
        values = self._quants.dequantize(np.concatenate([flat, packed], axis=1), self._types[fmt])
        return values.reshape(-1, 2 * half)[: rows * blocks].reshape(rows, -1)

    def encode(self, x: Any, element: str) -> Any:
        """Code of each value; gguf has one element encoder of its own, the NVFP4 scale's."""
        if element != "ue4m3":
            raise NotImplementedError(f"gguf has no encoder for {element}")
        return self._quants.NVFP4.fp32_to_ue4m3(x)


class _Products:
    """NumPy's product of numbers that gguf dequantizes, in float32."""

    def __init__(self) -> None:
        inner = _Gguf()
        self.VERSION, self._dequantize = inner.VERSION, inner.dequantize
        self.OPERANDS = [{"a": a, "b": b} for a, b in (("mxfp4", "mxfp4"), ("nvfp4", "nvfp4"), ("float32", "mxfp4"), ("float32", "nvfp4"))]

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] float32."""
        x, w = (self._dequantize(s.codes, s.scales, s.format, s.tensor_scale) if hasattr(s, "codes") else s for s in (a, b))
        with np.errstate(all="ignore"):
            return x @ w.T


_LIBRARY = Library(name="gguf", requires="gguf", imports="gguf", packages=("gguf==0.19.0",), light=True)

ADAPTERS = (
    _LIBRARY.target("gguf", "llama.cpp's Python package", _Gguf, {"mxfp4": "gguf-0.19/mxfp4"}),
    _LIBRARY.target("gguf-products", "NumPy's matmul of numbers that gguf dequantizes", _Products, kept=Kept.PRODUCTS),
)
