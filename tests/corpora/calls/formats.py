"""The formats of this set, as both engines and all kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FLT_MAX = np.float32(np.finfo(np.float32).max)
BFLOAT16: Any = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Element:
    """A signed float format: width, mantissa bits, exponent of its smallest normal number, largest magnitude code."""

    bits: int
    mantissa: int
    emin: int
    largest: int
    #: Magnitude code of NaN.
    nan: int | None = None

    @property
    def sign(self) -> int:
        """The sign's bit."""
        return 1 << (self.bits - 1)


@dataclass(frozen=True)
class Block:
    """A block format: its element, its lanes, and the exponent and significand of the element's largest value."""

    element: str
    k: int
    emax: int
    top: float


ELEMENTS = {"e2m1": Element(4, 1, 0, 0x07), "e4m3": Element(8, 3, -6, 0x7E, nan=0x7F), "e5m2": Element(8, 2, -14, 0x7B, nan=0x7F)}
BLOCKS = {
    "mxfp4": Block("e2m1", 32, 2, 1.5),
    "mxfp8_e4m3": Block("e4m3", 32, 8, 1.75),
    "mxfp8_e5m2": Block("e5m2", 32, 15, 1.75),
    "nvfp4": Block("e2m1", 16, 2, 1.5),
}
