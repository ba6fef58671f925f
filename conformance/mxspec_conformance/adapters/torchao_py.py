"""torchao's MX and NVFP4 quantizers (eager) behind the target interface.

One module per scale rule (`torchao_floor`, `torchao_ceil`, `torchao_even`, `torchao_rceil`) takes its
functions from here. The library's own functions do all arithmetic; this file converts arrays, unpacks nibbles
with the library's unpacker and chooses the element type. Arrays may be numpy (bfloat16 from ml_dtypes) or
torch tensors; results are numpy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torchao.prototype.mx_formats import kernels, mx_tensor, nvfp4_tensor
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
from torchao.prototype.mx_formats.utils import from_blocked, to_blocked

VERSION = version("torchao")
MX_FORMATS = ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2"]
BLOCK = 32
NVFP4_BLOCK = 16

_ELEMENT: dict[str, Any] = {
    "mxfp4": torch.float4_e2m1fn_x2,
    "mxfp6_e2m3": DTYPE_FP6_E2M3,
    "mxfp6_e3m2": DTYPE_FP6_E3M2,
    "mxfp8_e4m3": torch.float8_e4m3fn,
    "mxfp8_e5m2": torch.float8_e5m2,
}
_ENCODERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "e2m1": kernels.f32_to_f4_unpacked,
    "e2m3": kernels.f32_to_f6_e2m3_unpacked,
    "e3m2": kernels.f32_to_f6_e3m2_unpacked,
}
_DECODERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "e2m1": kernels.f4_unpacked_to_f32,
    "e2m3": kernels.f6_e2m3_unpacked_to_f32,
    "e3m2": kernels.f6_e3m2_unpacked_to_f32,
    "e8m0": mx_tensor.get_fp_scale,
}


def _tensor(x: Any) -> torch.Tensor:
    """The array as a contiguous torch tensor of the same bits."""
    if isinstance(x, torch.Tensor):
        return x.contiguous()
    array = np.ascontiguousarray(x)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _bytes(x: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    codes: np.ndarray[Any, np.dtype[np.uint8]] = x.contiguous().view(torch.uint8).numpy()
    return codes


def quantizer(mode: str) -> Callable[..., tuple[Any, Any]]:
    """The target's `quantize` for one of the library's scale rules."""
    scaling_mode = ScaleCalculationMode(mode)

    def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        data = _tensor(x)
        if fmt == "nvfp4":
            per_tensor = None if tensor_scale is None else torch.tensor(tensor_scale, dtype=torch.float32)
            scales, packed = nvfp4_tensor.nvfp4_quantize(data, NVFP4_BLOCK, per_tensor)
            return _bytes(kernels.unpack_uint4(packed)), _bytes(scales)
        scales, codes = mx_tensor.to_mx(data, _ELEMENT[fmt], BLOCK, scaling_mode)
        if fmt == "mxfp4":
            codes = kernels.unpack_uint4(codes)
        return _bytes(codes), _bytes(scales)

    return quantize


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None, dtype: str = "float32") -> Any:
    """The library's dequantization to `dtype`; the result is widened to float32 (exact) for the caller."""
    target: torch.dtype = getattr(torch, dtype)
    data, scale = _tensor(codes), _tensor(scales)
    if fmt == "nvfp4":
        per_tensor = None if tensor_scale is None else torch.tensor(tensor_scale, dtype=torch.float32)
        tensor = nvfp4_tensor.NVFP4Tensor(
            kernels.pack_uint4(data), scale.view(torch.float8_e4m3fn), NVFP4_BLOCK, target, per_tensor
        )
        return tensor.dequantize(target).to(torch.float32).numpy()
    if fmt == "mxfp4":
        data = kernels.pack_uint4(data)
    elif fmt in ("mxfp8_e4m3", "mxfp8_e5m2"):
        data = data.view(_ELEMENT[fmt])
    result = mx_tensor.to_dtype(data, scale.view(torch.float8_e8m0fnu), _ELEMENT[fmt], BLOCK, target)
    return result.to(torch.float32).numpy()


def encode(x: Any, element: str) -> Any:
    """The library's own casts: fp4 and fp6 (its fp8 casts are torch's)."""
    if element not in _ENCODERS:
        raise NotImplementedError(f"torchao has no cast of its own to {element}")
    return _bytes(_ENCODERS[element](_tensor(x)))


def decode(codes: Any, element: str) -> Any:
    """The library's own decoders: fp4, fp6 and the e8m0 scale."""
    if element not in _DECODERS:
        raise NotImplementedError(f"torchao has no decoder of its own for {element}")
    return _DECODERS[element](_tensor(codes)).numpy()


def tensor_scale(x: Any, fmt: str) -> float:
    """The NVFP4 tensor scale (decode kind) of a tensor, as the library's dynamic path computes it."""
    if fmt != "nvfp4":
        raise NotImplementedError(f"{fmt} has no tensor scale")
    return float(nvfp4_tensor.per_tensor_amax_to_scale(torch.max(torch.abs(_tensor(x)))))


def pack(codes: Any, layout: str) -> Any:
    """Two codes per byte, first code in the low nibble."""
    if layout != "nibble-low":
        raise NotImplementedError(f"layout {layout}")
    return _bytes(kernels.pack_uint4(_tensor(codes)))


def unpack(data: Any, layout: str, shape: tuple[int, ...]) -> Any:
    """The inverse of `pack`."""
    if layout != "nibble-low":
        raise NotImplementedError(f"layout {layout}")
    packed = _tensor(data).reshape(*shape[:-1], shape[-1] // 2).contiguous()
    return _bytes(kernels.unpack_uint4(packed))


def swizzle(scales: Any, layout: str) -> Any:
    """Row-major scale bytes to flat 128x4 tiles; the library takes one matrix."""
    if layout != "128x4":
        raise NotImplementedError(f"layout {layout}")
    if scales.ndim != 2:
        raise NotImplementedError(f"to_blocked takes two dimensions, not {scales.ndim}")
    return _bytes(to_blocked(_tensor(scales), use_triton_kernel=False)).reshape(-1)


def unswizzle(data: Any, layout: str, shape: tuple[int, ...]) -> Any:
    """The inverse of `swizzle`, cropped to `shape`."""
    if layout != "128x4":
        raise NotImplementedError(f"layout {layout}")
    if len(shape) != 2:
        raise NotImplementedError(f"from_blocked takes two dimensions, not {len(shape)}")
    return _bytes(from_blocked(_tensor(data), shape[0], shape[1]))
