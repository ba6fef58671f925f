"""MLX on its default device as a target: `mx.quantize`, `mx.dequantize`, `mx.to_fp8`, `mx.from_fp8`.

MLX packs codes in little-endian uint32 words, the first element in the low bits. Its NVFP4 `global_scale` is
the largest magnitude of the tensor. `mx.quantize` and `mx.dequantize` raise for an odd number of NVFP4
blocks: one row of zeros is added here, and taken away again.
"""

from importlib.metadata import version
from typing import Any

import mlx.core as mx
import numpy as np

NAME = "mlx"
VERSION = version("mlx")
FORMATS = ["mxfp4", "mxfp8_e4m3", "nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "amax"
PROFILES = {
    "mxfp4": "mlx-0.32/mxfp4/cpu",
    "mxfp8_e4m3": "mlx-0.32/mxfp8_e4m3/cpu",
    "nvfp4": "mlx-0.32/nvfp4/cpu",
}
PROFILES_ONE_LEVEL = {"nvfp4": "mlx-0.32/nvfp4/cpu"}

_MODES = {"mxfp4": "mxfp4", "mxfp8_e4m3": "mxfp8", "nvfp4": "nvfp4"}


def _to_mlx(x: Any) -> mx.array:
    if x.dtype == "bfloat16":
        return mx.array(x.view(np.uint16)).view(mx.bfloat16)
    return mx.array(x)


def _global_scale(tensor_scale: float | None) -> mx.array | None:
    return None if tensor_scale is None else mx.array(tensor_scale, dtype=mx.float32)


def _pad_odd(data: Any, blocks: int) -> Any:
    if blocks % 2 == 0:
        return data
    return np.concatenate([data, np.zeros((1, data.shape[1]), data.dtype)])


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
    scale = _global_scale(tensor_scale)
    rows = x.shape[0]
    data = _pad_odd(x, x.size // 16) if fmt == "nvfp4" else x
    words, scales = mx.quantize(_to_mlx(data), mode=_MODES[fmt], global_scale=scale)[:2]
    codes = np.array(words)[:rows].view(np.uint8)
    if fmt != "mxfp8_e4m3":
        codes = np.stack([codes & 0x0F, codes >> 4], axis=-1)
    return codes.reshape(x.shape), np.array(scales)[:rows]


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k]."""
    rows = codes.shape[0]
    data, sf = codes, scales
    if fmt != "mxfp8_e4m3":
        data = data[:, 0::2] | (data[:, 1::2] << 4)
    if fmt == "nvfp4":
        data, sf = _pad_odd(data, scales.size), _pad_odd(scales, scales.size)
    words = mx.array(np.ascontiguousarray(data).view(np.uint32))
    scale = _global_scale(tensor_scale)
    values = mx.dequantize(words, mx.array(sf), mode=_MODES[fmt], global_scale=scale, dtype=mx.float32)
    return np.array(values)[:rows]


def encode(x: Any, element: str) -> Any:
    """Code of each value; MLX has one scalar encoder, for e4m3."""
    if element != "e4m3":
        raise NotImplementedError(f"MLX has no encoder for {element}")
    return np.array(mx.to_fp8(_to_mlx(x)))


def decode(codes: Any, element: str) -> Any:
    """Float32 value of each code; MLX has one scalar decoder, for e4m3."""
    if element != "e4m3":
        raise NotImplementedError(f"MLX has no decoder for {element}")
    return np.array(mx.from_fp8(mx.array(codes), dtype=mx.float32))
