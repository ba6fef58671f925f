"""NVIDIA ModelOpt on the CPU as a target: `MXFP4QTensor`, `MXFP8QTensor` and `NVFP4QTensor` (dynamic scales).

NVFP4 takes and returns the tensor scale as `weights_scaling_factor_2`, of the decode kind (amax / 2688).
"""

from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import torch
from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor

NAME = "modelopt"
VERSION = version("nvidia-modelopt")
FORMATS = ["mxfp4", "mxfp8_e4m3", "nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "decode"
PROFILES = {
    "mxfp4": "modelopt-0.47/mxfp4",
    "mxfp8_e4m3": "modelopt-0.47/mxfp8_e4m3",
    "nvfp4": "modelopt-0.47/nvfp4/dynamic",
}


def to_torch(x: Any) -> torch.Tensor:
    """The same values as a tensor; bfloat16 arrays of ml_dtypes become torch.bfloat16."""
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x))


def unpack_nibbles(packed: torch.Tensor, shape: tuple[int, ...]) -> Any:
    """One code per byte from two per byte, the low nibble first."""
    data = packed.numpy()
    return np.stack([data & 0x0F, data >> 4], axis=-1).reshape(shape)


def _factor2(fmt: str, tensor_scale: float | None) -> torch.Tensor:
    if tensor_scale is None:
        raise NotImplementedError("NVFP4QTensor has no form without a tensor scale")
    if fmt != "nvfp4":
        raise NotImplementedError("ModelOpt has a tensor scale for nvfp4 only")
    return torch.tensor(tensor_scale, dtype=torch.float32)


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
    weight = to_torch(x)
    if fmt == "nvfp4":
        qtensor, scales, _ = NVFP4QTensor.quantize(weight, 16, weights_scaling_factor_2=_factor2(fmt, tensor_scale))
        return unpack_nibbles(qtensor._quantized_data, x.shape), scales.view(torch.uint8).numpy()
    if tensor_scale is not None:
        raise NotImplementedError("ModelOpt has a tensor scale for nvfp4 only")
    if fmt == "mxfp4":
        qtensor, scales = MXFP4QTensor.quantize(weight, 32)
        return unpack_nibbles(qtensor._quantized_data, x.shape), scales.numpy().reshape(x.shape[0], -1)
    qtensor, scales = MXFP8QTensor.quantize(weight)
    return qtensor._quantized_data.view(torch.uint8).numpy(), scales.numpy()


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k]."""
    data = np.ascontiguousarray(codes)
    stored = torch.from_numpy(np.ascontiguousarray(scales))
    if fmt == "mxfp8_e4m3":
        elements = torch.from_numpy(data).view(torch.float8_e4m3fn)
        return MXFP8QTensor(codes.shape, torch.float32, elements).dequantize(scale=stored).numpy()
    packed = torch.from_numpy(data[:, 0::2] | (data[:, 1::2] << 4))
    if fmt == "mxfp4":
        out = MXFP4QTensor(codes.shape, torch.float32, packed).dequantize(
            scale=stored.reshape(-1, 1), block_sizes={-1: 32}
        )
        return out.numpy()
    out = NVFP4QTensor(codes.shape, torch.float32, packed).dequantize(
        scale=stored.view(torch.float8_e4m3fn),
        double_scale=_factor2(fmt, tensor_scale),
        block_sizes={-1: 16},
    )
    return out.numpy()


def tensor_scale(x: Any, fmt: str) -> float:
    """`weights_scaling_factor_2` of a whole tensor."""
    if fmt != "nvfp4":
        raise NotImplementedError("ModelOpt has a tensor scale for nvfp4 only")
    return float(NVFP4QTensor.get_weights_scaling_factor_2(to_torch(x)).item())
