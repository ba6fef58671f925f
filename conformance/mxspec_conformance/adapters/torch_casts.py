"""torch's own casts of single numbers: to and from `float8_e4m3fn`, `float8_e5m2` and `float8_e8m0fnu`, on the CPU and on a GPU.

A cast is `Tensor.to`, which neither saturates nor takes a rounding mode. `float4_e2m1fn_x2` has no cast.
"""

from __future__ import annotations

from typing import Any

from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library

_TYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu"}


class _Casts:
    ELEMENTS = tuple(_TYPES)
    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self, device: str = "cpu") -> None:
        import torch

        self.VERSION = torch.__version__.partition("+")[0]
        self._torch, self._device = torch, device

    def _type(self, element: str) -> Any:
        if element not in _TYPES:
            raise NotImplementedError(f"torch has no cast to and from {element}")
        return getattr(self._torch, _TYPES[element])

    def encode(self, x: Any, element: str) -> Any:
        """Code of each value, one per byte."""
        return from_torch(to_torch(x, self._device).to(self._type(element)).view(self._torch.uint8))

    def decode(self, codes: Any, element: str) -> Any:
        """Float32 value of each code."""
        return from_torch(to_torch(codes, self._device).view(self._type(element)).to(self._torch.float32))


_ON_CPU = Library(name="torch-casts", requires="torch", imports="torch", packages=(TORCH,)).target(
    "torch-casts", "torch's own casts of single numbers", _Casts
)

ADAPTERS = (_ON_CPU, on_gpu(_ON_CPU))
