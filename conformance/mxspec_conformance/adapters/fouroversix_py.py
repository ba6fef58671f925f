"""fouroversix's PyTorch reference on the CPU as a target: MXFP4, and NVFP4 with its default rule (`mse`).

The library takes bfloat16 only. Its tensor scale is of the decode kind, in bfloat16: amax / 1536 under the
Four-over-Six rules, amax / 2688 under `always_6`. It works in tiles of 128 rows and of four scales, so rows
and columns are filled with zeros here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import torch
from fouroversix.quantize import reference
from fouroversix.utils import AdaptiveBlockScalingRule, FP4Format

NAME = "fouroversix"
VERSION = version("fouroversix")
FORMATS = ["mxfp4", "nvfp4"]
DTYPES = ["bfloat16"]
TENSOR_SCALE = "decode"
PROFILES = {"mxfp4": "fouroversix-0.1/mxfp4", "nvfp4": "fouroversix-0.1/nvfp4/mse"}

_ROWS, _SCALES = 128, 4


def _tensor(x: Any) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x
    array = np.ascontiguousarray(x)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _norm_constant(fmt: str, tensor_scale: float | None) -> torch.Tensor | None:
    if fmt == "mxfp4":
        if tensor_scale is not None:
            raise NotImplementedError("fouroversix has no tensor scale for mxfp4")
        return None
    if tensor_scale is None:
        raise NotImplementedError("fouroversix's nvfp4 has no form without a tensor scale")
    return torch.tensor([tensor_scale], dtype=torch.float32)


def quantizer(rule: str) -> Callable[..., tuple[Any, Any]]:
    """The target's `quantize` for one of the library's NVFP4 scale rules; MXFP4 has `always_6` alone."""

    def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        data = _tensor(x)
        rows, k = data.shape
        fp4_format = FP4Format(fmt)
        block = fp4_format.block_size()
        padded = torch.nn.functional.pad(data, (0, -k % (block * _SCALES), 0, -rows % _ROWS))
        packed, blocked, _ = reference.quantize_to_fp4(
            padded,
            _norm_constant(fmt, tensor_scale),
            fp4_format=fp4_format,
            scale_rule=AdaptiveBlockScalingRule("always_6" if fmt == "mxfp4" else rule),
        )
        codes = torch.stack([packed & 0x0F, packed >> 4], dim=-1).reshape(padded.shape)
        scales = reference.from_blocked(blocked, (padded.shape[0], padded.shape[1] // block))
        return codes[:rows, :k].numpy(), scales.view(torch.uint8)[:rows, : k // block].numpy()

    return quantize


quantize = quantizer("mse")


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k]."""
    fp4_format = FP4Format(fmt)
    data = torch.from_numpy(np.ascontiguousarray(codes))
    packed = data[:, 0::2] | (data[:, 1::2] << 4)
    stored = torch.from_numpy(np.ascontiguousarray(scales)).view(fp4_format.scale_dtype())
    values = reference.dequantize_from_fp4(
        packed, stored, _norm_constant(fmt, tensor_scale), dtype=torch.float32, fp4_format=fp4_format
    )
    return values.numpy()


def norm_constant(rule: str) -> Callable[[Any, str], float]:
    """The target's `tensor_scale`: the library's norm constant of a whole tensor under one of its rules."""

    def tensor_scale(x: Any, fmt: str) -> float:
        """The library's norm constant of a whole tensor."""
        if fmt != "nvfp4":
            raise NotImplementedError("fouroversix has a tensor scale for nvfp4 only")
        four_over_six = rule != "always_6"
        return float(reference.get_nvfp4_tensor_scale(_tensor(x), enable_four_over_six=four_over_six).item())

    return tensor_scale


tensor_scale = norm_constant("mse")


def pack(codes: Any, layout: str) -> Any:
    """Two codes per byte, first code in the low nibble; the library packs along the second axis."""
    if layout != "nibble-low":
        raise NotImplementedError(f"layout {layout}")
    if codes.ndim != 2:
        raise NotImplementedError(f"pack_unpacked_fp4 packs the second axis, which is not the last of {codes.ndim}")
    return reference.pack_unpacked_fp4(torch.from_numpy(np.ascontiguousarray(codes))).numpy()


def _require_whole_tiles(function: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise NotImplementedError(f"{function} takes two dimensions, not {len(shape)}")
    if shape[0] % _ROWS or shape[1] % _SCALES:
        raise NotImplementedError(f"{function} takes whole 128x4 tiles, not {shape[0]} x {shape[1]} scales")


def swizzle(scales: Any, layout: str) -> Any:
    """Row-major scale bytes to flat 128x4 tiles; the library takes whole tiles only."""
    if layout != "128x4":
        raise NotImplementedError(f"layout {layout}")
    _require_whole_tiles("to_blocked", tuple(scales.shape))
    return reference.to_blocked(torch.from_numpy(np.ascontiguousarray(scales))).numpy()


def unswizzle(data: Any, layout: str, shape: tuple[int, ...]) -> Any:
    """The inverse of `swizzle`."""
    if layout != "128x4":
        raise NotImplementedError(f"layout {layout}")
    _require_whole_tiles("from_blocked", tuple(shape))
    return reference.from_blocked(torch.from_numpy(np.ascontiguousarray(data)), (shape[0], shape[1])).numpy()
