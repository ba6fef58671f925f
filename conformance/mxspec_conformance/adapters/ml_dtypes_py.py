"""ml_dtypes as a target: NumPy casts to and from its scalar types. It has elements only, no blocks."""

from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np

NAME = "ml_dtypes"
VERSION = version("ml_dtypes")
FORMATS: list[str] = []
ELEMENTS = ["e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "e8m0"]
DTYPES = ["float32", "float16", "bfloat16"]

_TYPES: dict[str, Any] = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}


def _type(element: str) -> Any:
    if element not in _TYPES:
        raise NotImplementedError(f"ml_dtypes has no type for {element}")
    return _TYPES[element]


def encode(x: Any, element: str) -> Any:
    """Code of each value, one per byte."""
    return x.astype(_type(element)).view(np.uint8)


def decode(codes: Any, element: str) -> Any:
    """Float32 value of each code."""
    return codes.view(_type(element)).astype(np.float32)
