"""Input dtypes by name, and ml_dtypes' types of scalar formats: casting to them, and what survives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

#: What the names of input dtypes mean.
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

#: ml_dtypes' type of each scalar format that it has; of ue4m3 it has the codes without a sign.
SCALAR_TYPES: dict[str, Any] = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "ue4m3": ml_dtypes.float8_e4m3fn,
}


def is_representable(x: Floats, dtype: str) -> npt.NDArray[np.bool_]:
    """Which values survive a dtype; a NaN does."""
    with np.errstate(all="ignore"):
        back = x.astype(DTYPES[dtype]).astype(np.float32)
    kept: npt.NDArray[np.bool_] = np.isnan(x) | (back.view(np.uint32) == x.view(np.uint32))
    return kept


def cast_input(x: Floats, dtype: str) -> npt.NDArray[Any]:
    """x in an input dtype; a NaN keeps the upper bits of its payload, which a cast would make quiet."""
    with np.errstate(all="ignore"):
        narrow = x.astype(DTYPES[dtype])
    if dtype == "float32" or not np.isnan(x).any():
        return narrow
    bits, words = x.view(np.uint32), narrow.view(np.uint16)
    if dtype == "bfloat16":
        kept, fraction = bits >> 16, np.uint32(0x7F)
    else:
        kept, fraction = bits >> 16 & 0x8000 | 0x7C00 | bits >> 13 & 0x3FF, np.uint32(0x3FF)
    words[...] = np.where(np.isnan(x) & (kept & fraction != 0), kept, words)
    return narrow


def preferred_dtype(dtypes: tuple[str, ...]) -> str:
    """float32 where a target takes it, else the first that it takes."""
    return "float32" if "float32" in dtypes else dtypes[0]
