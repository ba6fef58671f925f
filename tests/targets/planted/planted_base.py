"""What the planted targets share: the right answer, which each of them spoils in one rare case."""

from __future__ import annotations

from typing import Any

import numpy as np

import mxspec


def quantize_right(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes and scale bytes by the format's default profile, writable."""
    scale = None if tensor_scale is None else mxspec.TensorScale.from_float("amax", tensor_scale)
    t = mxspec.quantize(x, fmt, tensor_scale=scale)
    return np.array(t.codes), np.array(t.scales)


def quotients(x: Any, scales: Any, k: int) -> Any:
    """|x| / scale of MX blocks in float64, where it is exact."""
    sf = mxspec.decode(scales, "e8m0").astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(np.asarray(x, np.float64)) / np.repeat(sf, k, axis=1)
