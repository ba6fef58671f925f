"""NumPy's own products of decoded numbers: what a reference in many test suites is, in float32 and in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from mxspec.dot import block_factor
from mxspec_conformance.adapters.registry import Kept, Library

_FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")
_DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


class _Products:
    OUT_DTYPES = tuple(_DTYPES)

    def __init__(self, dtype: str) -> None:
        self.VERSION = np.__version__
        self._dtype = np.dtype(dtype)
        pairs = [(fmt, fmt) for fmt in _FORMATS] + [("mxfp8_e4m3", "mxfp4"), ("bfloat16", "mxfp4"), ("bfloat16", "nvfp4")]
        self.OPERANDS = [{"a": a, "b": b} for a, b in pairs]

    def _decode(self, side: Any) -> Any:
        if not hasattr(side, "codes"):
            return np.asarray(side).astype(self._dtype)
        values = block_factor(side.codes, side.scales, side.format).values
        return values.astype(self._dtype) * self._dtype.type(1 if side.tensor_scale is None else side.tensor_scale)

    def matmul(
        self, a: Any, b: Any, out_dtype: str, alpha: float | None = None, beta: float | None = None, c: Any = None, bias: Any = None
    ) -> Any:
        """The product, the epilogue in the same dtype, and one cast; from float64 by way of float32."""
        with np.errstate(all="ignore"):
            y = self._decode(a) @ self._decode(b).T * self._dtype.type(1 if alpha is None else alpha)
            if c is not None:
                y = y + self._dtype.type(1 if beta is None else beta) * np.asarray(c).astype(self._dtype)
            if bias is not None:
                y = y + np.asarray(bias).astype(self._dtype)
            return y.astype(np.float32).astype(_DTYPES[out_dtype])


_LIBRARY = Library(name="numpy", requires="numpy", imports="numpy", packages=("numpy",), light=True)

ADAPTERS = tuple(
    _LIBRARY.target(
        f"numpy-products-{dtype}", f"NumPy's matmul of decoded numbers in {dtype}", partial(_Products, dtype), kept=Kept.PRODUCTS
    )
    for dtype in ("float32", "float64")
)
