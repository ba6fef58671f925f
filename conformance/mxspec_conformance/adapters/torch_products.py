"""torch's `matmul` of decoded numbers on the CPU: what a linear layer computes that dequantizes its weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from mxspec.dot import block_factor
from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters.registry import Kept, Library

_FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")
_DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


class _Products:
    def __init__(self, dtype: str) -> None:
        import torch

        self.VERSION = torch.__version__
        self._torch, self._dtype = torch, dtype
        pairs = [(fmt, fmt) for fmt in _FORMATS] + [(dtype, fmt) for fmt in ("mxfp4", "nvfp4", "mxfp8_e4m3")]
        self.OPERANDS = [{"a": a, "b": b} for a, b in pairs]
        self.OUT_DTYPES = (dtype,)
        self.CONTRACT = dtype

    def _decode(self, side: Any) -> Any:
        """The numbers, tensor scale included, rounded once to the dtype."""
        if not hasattr(side, "codes"):
            return to_torch(np.asarray(side))
        values = block_factor(side.codes, side.scales, side.format).values
        scale = np.float32(1 if side.tensor_scale is None else side.tensor_scale)
        with np.errstate(all="ignore"):
            numbers: np.ndarray[Any, Any] = values * np.float64(scale)
            return to_torch(numbers.astype(np.float32).astype(_DTYPES[self._dtype]))

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] in the dtype that torch multiplies in."""
        return from_torch(self._torch.matmul(self._decode(a), self._decode(b).T))


_LIBRARY = Library(name="torch", requires="torch", imports="torch")

ADAPTERS = tuple(
    _LIBRARY.target(
        f"torch-products-{dtype}", f"torch's matmul of decoded numbers in {dtype}", partial(_Products, dtype), kept=Kept.PRODUCTS
    )
    for dtype in ("float32", "bfloat16", "float16")
)
