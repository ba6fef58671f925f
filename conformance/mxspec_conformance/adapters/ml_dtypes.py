"""ml_dtypes: NumPy casts to and from its scalar types. It has elements only, no blocks."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec_conformance.adapters.registry import Library
from mxspec_conformance.targets.dtypes import SCALAR_TYPES

#: ue4m3 is no type of its own there: its codes are those of e4m3 without a sign.
_TYPES = {name: kind for name, kind in SCALAR_TYPES.items() if name != "ue4m3"}


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
    Library(
        name="ml_dtypes",
        requires="ml_dtypes",
        imports="ml_dtypes",
        packages=("ml_dtypes==0.6.0",),
        light=True,
        earlier=("ml_dtypes==0.5.1",),
    ).target("ml_dtypes", "NumPy scalar types (elements only)", _MlDtypes),
)
