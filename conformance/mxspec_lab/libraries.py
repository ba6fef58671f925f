"""Installed libraries, asked to quantize and to dequantize."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.adapters.registry import Adapter, known_adapters

#: Arrays, or why there are none.
Reply = tuple[npt.NDArray[Any], ...] | str


@cache
def load_library(adapter: str) -> Any:
    """The target that an adapter loads."""
    return known_adapters()[adapter].load()


def ask(adapter: str, operation: str, fmt: str, *arrays: npt.NDArray[Any], tensor_scale: float | None = None) -> Reply:
    """What a library returns: `quantize` of float32 [rows, k], `dequantize` of codes [rows, k] and scales, `decode` of codes.

    tensor_scale: in the adapter's own kind.
    """
    function = getattr(load_library(adapter), operation, None)
    if function is None:
        return f"{adapter} has no {operation}"
    try:
        with np.errstate(all="ignore"):
            got = function(*arrays, fmt, **({} if tensor_scale is None else {"tensor_scale": tensor_scale}))
    except Exception as error:  # a library may raise anything for a format or a NaN that it does not take
        return f"{type(error).__name__}: {error}"
    return tuple(np.asarray(a) for a in (got if isinstance(got, tuple) else (got,)))


def find_version(adapter: str) -> str:
    """The version of an adapter's library."""
    return str(getattr(load_library(adapter), "VERSION", ""))


def list_here() -> list[Adapter]:
    """The adapters of float32 blocks whose libraries are light and installed."""
    return [
        a for a in known_adapters().values()
        if a.library.light and a.library.is_here() and (a.profiles or a.name == "mxspec") and not a.name.endswith(("-bfloat16", "-float16"))
    ]  # fmt: skip
