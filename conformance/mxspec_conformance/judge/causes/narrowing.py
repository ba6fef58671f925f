"""float32 held in 16 bits, or in 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

NARROW_DTYPES: Mapping[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
#: Through which elements of fewer bits may pass, by a conversion that saturates.
FP8_DTYPES: Mapping[str, Any] = {"float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


def to_nearest(x: Floats, dtype: Any) -> Floats:
    """x in a narrower dtype, as float32."""
    return x.astype(dtype).astype(np.float32)


def cut(x: Floats, dtype: Any) -> Floats:
    """x in a narrower dtype, toward zero."""
    narrow = x.astype(dtype)
    away = np.isfinite(x) & (np.abs(narrow.astype(np.float32)) > np.abs(x))
    # One step toward zero is one less in the bits of a float, also from infinity.
    bits = narrow.view(np.uint8 if narrow.itemsize == 1 else np.uint16)
    toward: Floats = np.where(away, bits - 1, bits).astype(bits.dtype).view(dtype).astype(np.float32)
    return toward


#: What is said of each way of narrowing.
WAYS: Mapping[str, Callable[[Floats, Any], Floats]] = {"": to_nearest, " by cutting": cut}
