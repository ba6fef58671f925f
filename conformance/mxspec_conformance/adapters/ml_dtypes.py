"""ml_dtypes: NumPy casts to and from its scalar types. It has elements only, no blocks."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_conformance.adapters.registry import Adapter, Library

_TYPES: dict[str, Any] = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}


class _MlDtypes:
    ELEMENTS = tuple(_TYPES)
    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self) -> None:
        self.VERSION = version("ml_dtypes")

    def encode(self, x: Any, element: str) -> Any:
        """Code of each value, one per byte."""
        return x.astype(_type(element)).view(np.uint8)

    def decode(self, codes: Any, element: str) -> Any:
        """Float32 value of each code."""
        return codes.view(_type(element)).astype(np.float32)


def _type(element: str) -> Any:
    if element not in _TYPES:
        raise NotImplementedError(f"ml_dtypes has no type for {element}")
    return _TYPES[element]


ADAPTERS = (
    Adapter(
        name="ml_dtypes",
        library=Library(
            name="ml_dtypes", requires="ml_dtypes", imports="ml_dtypes", packages=("ml_dtypes==0.6.0",), light=True
        ),
        about="NumPy scalar types (elements only)",
        make=_MlDtypes,
    ),
)
