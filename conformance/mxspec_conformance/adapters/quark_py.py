"""AMD Quark's `downcast_to_mxfp_torch` (scale mode ROUND_UP) and `upcast_from_mxfp_torch` as a CPU target.

The modules `quark_down` and `quark_even` take the other scale modes from here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import torch
from quark.torch.kernel.mx.triton import (
    DequantScaleRoundingMode,
    downcast_to_mxfp_torch,
    upcast_from_mxfp_torch,
)

NAME = "quark"
VERSION = version("amd-quark")
FORMATS = ["mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"]
DTYPES = ["float32", "float16", "bfloat16"]
PROFILES = {
    "mxfp4": "quark-0.13/mxfp4/round-up",
    "mxfp8_e4m3": "quark-0.13/mxfp8/round-up",
    "mxfp8_e5m2": "quark-0.13/mxfp8/round-up",
}

_TYPES: dict[str, Any] = {
    "mxfp4": torch.uint8,
    "mxfp8_e4m3": torch.float8_e4m3fn,
    "mxfp8_e5m2": torch.float8_e5m2,
}


def to_torch(x: Any) -> torch.Tensor:
    """The array as a torch tensor of the same bits."""
    if isinstance(x, torch.Tensor):
        return x
    array = np.ascontiguousarray(x)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def quantizer(mode: str) -> Callable[..., tuple[Any, Any]]:
    """The target's `quantize` for one of the library's scale modes."""
    rounding = DequantScaleRoundingMode[mode]

    def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        if tensor_scale is not None:
            raise NotImplementedError("Quark's MX formats have no tensor scale")
        data = to_torch(x)
        codes, scales = downcast_to_mxfp_torch(data, _TYPES[fmt], axis=-1, DEQUANT_SCALE_ROUNDING_MODE=rounding)
        if fmt == "mxfp4":
            codes = torch.stack([codes & 0x0F, codes >> 4], dim=-1).reshape(data.shape)
        return codes.view(torch.uint8).numpy(), scales.numpy()

    return quantize


quantize = quantizer("ROUND_UP")


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k]."""
    if tensor_scale is not None:
        raise NotImplementedError("Quark's MX formats have no tensor scale")
    data = torch.from_numpy(np.ascontiguousarray(codes))
    data = data[:, 0::2] | (data[:, 1::2] << 4) if fmt == "mxfp4" else data.view(_TYPES[fmt])
    stored = torch.from_numpy(np.ascontiguousarray(scales))
    return upcast_from_mxfp_torch(data, stored, torch.float32, axis=-1).numpy()
