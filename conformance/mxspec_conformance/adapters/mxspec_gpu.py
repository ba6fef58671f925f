"""This project's GPU kernels; they need CuPy and an NVIDIA GPU.

`mxspec_gpu-tiles` returns what the fast paths return: packed nibbles, scales in 128x4 tiles.
"""

from __future__ import annotations

from typing import Any

import mxspec
from mxspec_conformance.adapters.registry import Adapter, Library


class _Target:
    VERSION = mxspec.__version__
    DTYPES = ("float32", "float16", "bfloat16")
    ARRAYS = "cupy"
    TENSOR_SCALE = "amax"

    def __init__(self) -> None:
        import mxspec_gpu

        try:
            mxspec_gpu.check_gpu()
        except mxspec_gpu.GpuMissingError as error:
            raise ImportError(str(error)) from error
        import cupy

        self._cupy: Any = cupy
        self._gpu = mxspec_gpu


class _Kernels(_Target):
    FORMATS = tuple(mxspec.BLOCKS)
    ELEMENTS = (*mxspec.ELEMENTS, *mxspec.SCALES)

    def quantize(
        self, x: Any, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False
    ) -> tuple[Any, Any]:
        """Codes, one a byte, and scales by the format's default profile, in x's axis order."""
        q = self._gpu.quantize(x, fmt, tensor_scale=_scale(tensor_scale), axis=axis, pad=pad)
        return self._cupy.moveaxis(q.unpack(), -1, axis), self._cupy.moveaxis(q.scales, -1, axis)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values by the format's default profile."""
        packed = self._gpu.pack(codes, fmt)
        return self._gpu.dequantize(packed, scales, fmt, tensor_scale=_scale(tensor_scale), dtype="float32")

    def encode(self, x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
        """Codes of single numbers."""
        return self._gpu.encode(x, element, rounding=rounding, overflow=overflow)

    def decode(self, codes: Any, element: str) -> Any:
        """Values of single codes."""
        return self._gpu.decode(codes, element)

    def encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        """Codes by the integer rule with 32 random bits."""
        return self._gpu.encode(x, element, rounding="sr", random_bits=random_bits)

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The tensor's largest magnitude."""
        return float(self._gpu.tensor_scale(x, fmt)[0])


class _Tiles(_Target):
    FORMATS = ("mxfp4", "nvfp4")
    LAYOUT = ("nibble-low", "128x4")

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Packed codes and the flat bytes of the scales' tiles."""
        q = self._gpu.quantize(x, fmt, tensor_scale=_scale(tensor_scale), scale_layout="128x4")
        return q.codes, q.scales

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values."""
        return self._gpu.dequantize(
            codes, scales, fmt, tensor_scale=_scale(tensor_scale), scale_layout="128x4", dtype="float32"
        )


def _scale(value: float | None) -> mxspec.TensorScale | None:
    return None if value is None else mxspec.TensorScale.from_float("amax", value)


_LIBRARY = Library(name="mxspec_gpu", requires="CuPy and an NVIDIA GPU", imports="cupy")

ADAPTERS = (
    Adapter(name="mxspec_gpu", library=_LIBRARY, about="this project's GPU kernels", make=_Kernels),
    Adapter(
        name="mxspec_gpu-tiles",
        library=_LIBRARY,
        about="this project's GPU kernels, packed, scales in tiles",
        make=_Tiles,
    ),
)
