"""deepseek-ai/DeepGEMM's casts to FP8: name a checkout of it in MXSPEC_DEEPGEMM_SOURCE.

They are torch code in one file, which is loaded by itself: the package needs a GPU and builds its kernels when it is imported.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import numpy as np

from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library, Source

_SOURCE = Source("MXSPEC_DEEPGEMM_SOURCE", "a checkout of deepseek-ai/DeepGEMM")
_LIBRARY = Library(name="deepgemm", requires=_SOURCE.what, imports="deep_gemm", source=_SOURCE, packages=(TORCH,))


class _DeepGemm:
    VERSION = "2.6.1"
    FORMATS = ("fp8_e4m3-128", "fp8_e4m3-128-f32")
    DTYPES = ("float32", "bfloat16")

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        path = _SOURCE.find() / "deep_gemm" / "utils" / "math.py"
        spec = spec_from_file_location("deep_gemm_math", path) if path.is_file() else None
        if spec is None or spec.loader is None:
            raise ImportError(f"{_SOURCE.variable} has to name {_SOURCE.what}; there is no {path}")
        self._math = module_from_spec(spec)
        spec.loader.exec_module(self._math)

    def quantize(self, x: Any, fmt: str, axis: int = -1) -> tuple[Any, Any]:
        """Codes, and scales of groups of 128 along an axis: bytes, or float32."""
        if axis not in (-2, -1, 0, 1):
            raise ValueError(f"axis = {axis}; a matrix has the axes 0 and 1")
        cast = self._math.per_token_cast_to_fp8 if axis in (-1, 1) else self._math.per_channel_cast_to_fp8
        codes, scales = cast(to_torch(x, self._device), use_ue8m0=fmt == self.FORMATS[0])
        codes, scales = from_torch(codes.view(self._math.torch.uint8)), from_torch(scales)
        if fmt == self.FORMATS[1]:
            return codes, scales
        # A scale is a power of two, whose exponent field is its byte.
        return codes, (scales.view(np.uint32) >> 23).astype(np.uint8)


_CPU = _LIBRARY.target("deepgemm", "DeepSeek's FP8 in groups of 128, scales in E8M0 or float32", _DeepGemm, {"fp8_e4m3-128": "deepgemm-2.6/fp8-128/ue8m0", "fp8_e4m3-128-f32": "deepgemm-2.6/fp8-128/float32"})  # fmt: skip
ADAPTERS = (
    _CPU,
    on_gpu(_CPU, profiles={"fp8_e4m3-128": "deepgemm-2.6/fp8-128/ue8m0-cuda", "fp8_e4m3-128-f32": "deepgemm-2.6/fp8-128/float32-cuda"}),
)
