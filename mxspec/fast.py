"""Hand-tuned array paths; each is held to the profile's expressions by the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import Codes, Float32s
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Arithmetic, Profile


def quantize(
    x: Float32s,
    fmt: BlockFormat,
    profile: Profile,
    level: Arithmetic,
    bindings: dict[str, Any],
    scales: Codes,
    codes: Codes,
) -> bool:
    """Fill scales [n, 1] and codes [n, k] and return True, or return False where no tuned path applies."""
    return False


def dequantize(
    codes: Codes, scales: Codes, fmt: BlockFormat, level: Arithmetic, bindings: dict[str, Any], out: npt.NDArray[Any]
) -> bool:
    """Fill out [n, k] and return True, or return False where no tuned path applies."""
    return False
