"""Meta's FBGEMM: `py_quantize_mx4` and `py_dequantize_mx4`, one target for each mode of the shared exponent; on a GPU its kernels.

These are what `fp32_to_mx4` and `mx4_to_float` call for a tensor on the CPU; for one on a GPU they call `triton_quantize_mx4` and
`triton_dequantize_mx4`. All are Python; the package around them loads shared libraries that are bound to another torch, and is left
out.

The library returns groups of 17 bytes: 32 codes, the first of two in the low nibble, then the scale byte. "even" is the default
of `fp32_to_mx4`, "ceil" that of the functions below it.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mxspec_conformance.adapters._convert import from_torch, pack_nibbles, to_torch, unpack_nibbles
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library

_BLOCK = 32


class _Mx4:
    FORMATS = ("mxfp4",)
    DTYPES = ("float32",)

    def __init__(self, mode: str, device: str = "cpu") -> None:
        self.VERSION = version("fbgemm-gpu-cpu")
        self._device = device
        library = _import_module("quantize_ref" if device == "cpu" else "quantize")
        ways = "py" if device == "cpu" else "triton"
        self._quantize: Any = getattr(library, f"{ways}_quantize_mx4")
        self._dequantize: Any = getattr(library, f"{ways}_dequantize_mx4")
        self._mode: Any = library.RoundingMode[mode]

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        stored = from_torch(self._quantize(to_torch(x, self._device), _BLOCK, rounding_mode=self._mode))
        groups = stored.view(np.uint8).reshape(-1, _BLOCK // 2 + 1)
        return unpack_nibbles(groups[:, :-1]).reshape(x.shape), groups[:, -1].reshape(len(x), -1)

    def dequantize(self, codes: Any, scales: Any, fmt: str) -> Any:
        """Float32 values [rows, k]."""
        packed = pack_nibbles(codes).reshape(-1, _BLOCK // 2)
        stored = np.concatenate([packed, scales.reshape(-1, 1)], axis=1).reshape(len(codes), -1)
        return from_torch(self._dequantize(to_torch(stored, self._device), _BLOCK)).reshape(codes.shape)


def _import_module(module_name: str) -> Any:
    """A module of its Triton folder, with empty packages in the place of those around it."""
    if "fbgemm_gpu" not in sys.modules:
        spec = find_spec("fbgemm_gpu")
        if spec is None or spec.origin is None:
            raise ImportError("fbgemm_gpu is not installed; install fbgemm-gpu-cpu")
        folder = Path(spec.origin).parent
        for name, path in (("fbgemm_gpu", folder), ("fbgemm_gpu.triton", folder / "triton")):
            module = ModuleType(name)
            module.__path__ = [str(path)]
            sys.modules[name] = module
    return import_module(f"fbgemm_gpu.triton.{module_name}")


_LIBRARY = Library(
    name="fbgemm", requires="fbgemm-gpu-cpu", imports="fbgemm_gpu", packages=(TORCH,), bare_packages=("fbgemm-gpu-cpu==1.9.0",)
)

_ON_CPU = tuple(
    _LIBRARY.target(f"fbgemm-{mode}", f"FBGEMM's MX4, {mode}", partial(_Mx4, mode), {"mxfp4": f"fbgemm-1.9/mxfp4/{mode}"})
    for mode in ("even", "ceil", "floor")
)

ADAPTERS = (*_ON_CPU, *(on_gpu(a, about=f"{a.about}, its Triton kernels") for a in _ON_CPU))
