"""Meta's FBGEMM on the CPU: `py_quantize_mx4` and `py_dequantize_mx4`, one target for each mode of the shared exponent.

These are what `fp32_to_mx4` and `mx4_to_float` call for a tensor on the CPU. They are Python on torch; the package around them
loads shared libraries that are bound to another torch, and is left out.

The library returns groups of 17 bytes: 32 codes, the first of two in the low nibble, then the scale byte. "even" is the default
of `fp32_to_mx4`, "ceil" that of `py_quantize_mx4` below it. The Triton kernels for GPUs were not run.
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

from mxspec_conformance.adapters._convert import pack_nibbles, to_torch, unpack_nibbles
from mxspec_conformance.adapters.registry import TORCH, Adapter, Library

_BLOCK = 32


class _Mx4:
    FORMATS = ("mxfp4",)
    DTYPES = ("float32",)

    def __init__(self, mode: str) -> None:
        self.VERSION = version("fbgemm-gpu-cpu")
        self._library: Any = _import_reference()
        self._mode: Any = self._library.RoundingMode[mode]

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        stored = self._library.py_quantize_mx4(to_torch(x), _BLOCK, rounding_mode=self._mode).numpy()
        groups = stored.reshape(-1, _BLOCK // 2 + 1)
        return unpack_nibbles(groups[:, :-1]).reshape(x.shape), groups[:, -1].reshape(len(x), -1)

    def dequantize(self, codes: Any, scales: Any, fmt: str) -> Any:
        """Float32 values [rows, k]."""
        packed = pack_nibbles(codes).reshape(-1, _BLOCK // 2)
        stored = np.concatenate([packed, scales.reshape(-1, 1)], axis=1).reshape(len(codes), -1)
        return self._library.py_dequantize_mx4(to_torch(stored), _BLOCK).numpy().reshape(codes.shape)


def _import_reference() -> Any:
    """The module, with empty packages in the place of those around it."""
    if "fbgemm_gpu" not in sys.modules:
        spec = find_spec("fbgemm_gpu")
        if spec is None or spec.origin is None:
            raise ImportError("fbgemm_gpu is not installed; install fbgemm-gpu-cpu")
        folder = Path(spec.origin).parent
        for name, path in (("fbgemm_gpu", folder), ("fbgemm_gpu.triton", folder / "triton")):
            module = ModuleType(name)
            module.__path__ = [str(path)]
            sys.modules[name] = module
    return import_module("fbgemm_gpu.triton.quantize_ref")


_LIBRARY = Library(
    name="fbgemm",
    requires="fbgemm-gpu-cpu",
    imports="fbgemm_gpu",
    packages=(TORCH,),
    bare_packages=("fbgemm-gpu-cpu==1.9.0",),
)

ADAPTERS = tuple(
    Adapter(
        name=f"fbgemm-{mode}",
        library=_LIBRARY,
        about=f"FBGEMM's MX4, {mode}",
        make=partial(_Mx4, mode),
        profiles={"mxfp4": f"fbgemm-1.9/mxfp4/{mode}"},
    )
    for mode in ("even", "ceil", "floor")
)
