"""compressed-tensors on the CPU as a target: its dynamic scales, then its compressors; its `dequantize`.

Scales come from `compute_dynamic_scales_and_zp` under the library's preset scheme of each format, the bytes
from that scheme's compressor. Its tensor scale is of the encode kind (about 2688 / amax); without one the
block scale is amax / 6 alone. MXFP8 compression is given the zero points that the library itself returns, as
its modules do. `dequantize` unpacks to float32 and calls the library's `dequantize`; `decompress` would
return bfloat16.
"""

from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import torch
from compressed_tensors.compressors.mxfp4 import MXFP4PackedCompressor
from compressed_tensors.compressors.mxfp6.base import MXFP6PackedCompressor
from compressed_tensors.compressors.mxfp6.helpers import unpack_fp6_from_uint8
from compressed_tensors.compressors.mxfp8 import MXFP8QuantizationCompressor
from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor, unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize as ct_dequantize
from compressed_tensors.quantization.quant_scheme import MXFP4A16, MXFP6A16, MXFP8A16, NVFP4A16
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp, generate_gparam

NAME = "compressed-tensors"
VERSION = version("compressed-tensors")
FORMATS = ["mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "encode"
PROFILES = {fmt: f"compressed-tensors-0.20/{fmt}/eager" for fmt in FORMATS}
PROFILES_ONE_LEVEL = {"nvfp4": "compressed-tensors-0.20/nvfp4/eager"}

_COMPRESSORS: dict[str, Any] = {
    "mxfp4": MXFP4PackedCompressor,
    "mxfp6_e2m3": MXFP6PackedCompressor,
    "mxfp8_e4m3": MXFP8QuantizationCompressor,
    "nvfp4": NVFP4PackedCompressor,
}
_PRESETS: dict[str, Any] = {
    "mxfp4": MXFP4A16,
    "mxfp6_e2m3": MXFP6A16,
    "mxfp8_e4m3": MXFP8A16,
    "nvfp4": NVFP4A16,
}
_SCHEMES = {fmt: QuantizationScheme(targets=["Linear"], **preset) for fmt, preset in _PRESETS.items()}


def _to_torch(x: Any) -> torch.Tensor:
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x))


def _global_scale(fmt: str, tensor_scale: float | None) -> torch.Tensor | None:
    if tensor_scale is None:
        return None
    if fmt != "nvfp4":
        raise NotImplementedError("compressed-tensors has a tensor scale for nvfp4 only")
    return torch.tensor([tensor_scale], dtype=torch.float32)


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
    scheme = _SCHEMES[fmt]
    weight = _to_torch(x)
    global_scale = _global_scale(fmt, tensor_scale)
    scale, zero_point = compute_dynamic_scales_and_zp(weight, scheme.weights, None, global_scale)
    state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero_point}
    if global_scale is not None:
        state["weight_global_scale"] = global_scale
    state = _COMPRESSORS[fmt].compress(state, scheme)
    return _codes(state, fmt, x.shape), state["weight_scale"].view(torch.uint8).numpy()


def _codes(state: dict[str, torch.Tensor], fmt: str, shape: tuple[int, ...]) -> Any:
    if fmt == "mxfp8_e4m3":
        return state["weight"].view(torch.uint8).numpy()
    packed = state["weight_packed"].numpy()
    if fmt != "mxfp6_e2m3":
        return np.stack([packed & 0x0F, packed >> 4], axis=-1).reshape(shape)
    low, mid, high = (packed.reshape(-1, 3)[:, i] for i in range(3))
    fields = [low & 63, (low >> 6) | ((mid & 15) << 2), (mid >> 4) | ((high & 3) << 4), high >> 2]
    return np.stack(fields, axis=-1).reshape(shape)


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k]."""
    scheme = _SCHEMES[fmt]
    rows, k = codes.shape
    stored = torch.from_numpy(np.ascontiguousarray(scales))
    if fmt == "nvfp4":
        scale = NVFP4PackedCompressor._decompress_scale(stored.view(torch.float8_e4m3fn), torch.float32)
    else:
        scale = MXFP4PackedCompressor._decompress_scale(stored, torch.float32)
    values = _values(np.ascontiguousarray(codes), fmt, rows, k)
    global_scale = _global_scale(fmt, tensor_scale)
    out = ct_dequantize(x_q=values, scale=scale, args=scheme.weights, dtype=torch.float32, global_scale=global_scale)
    return out.numpy()


def _values(codes: Any, fmt: str, rows: int, k: int) -> torch.Tensor:
    if fmt == "mxfp8_e4m3":
        return torch.from_numpy(codes).view(torch.float8_e4m3fn)
    if fmt != "mxfp6_e2m3":
        packed = torch.from_numpy(codes[:, 0::2] | (codes[:, 1::2] << 4))
        return unpack_fp4_from_uint8(packed, rows, k, dtype=torch.float32)
    words = codes.reshape(-1, 4).astype(np.uint32) << np.array([0, 6, 12, 18], np.uint32)
    merged = np.bitwise_or.reduce(words, axis=1)
    data = np.stack([merged & 255, (merged >> 8) & 255, merged >> 16], axis=1).astype(np.uint8)
    return unpack_fp6_from_uint8(torch.from_numpy(data).reshape(rows, -1), rows, k, dtype=torch.float32)


def tensor_scale(x: Any, fmt: str) -> float:
    """The library's global scale of a whole tensor, from `generate_gparam`."""
    if fmt != "nvfp4":
        raise NotImplementedError("compressed-tensors has a tensor scale for nvfp4 only")
    values = _to_torch(x)
    return float(generate_gparam(values.min(), values.max()).item())
