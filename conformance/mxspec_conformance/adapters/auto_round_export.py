"""auto-round's checkpoint export on the CPU as a target: RTN weights through its packed linear layer.

MX formats take the library's model-free route (`quant_mx`, then `QuantLinear.pack`); NVFP4 takes `nv_fp4`,
then `QuantLinear.pack`, as its layer wrapper and exporter do. `pack` is given weights that are quantized
already. The tensor scale is of the encode kind, 2688 / amax.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from auto_round.data_type import nvfp
from auto_round.experimental.qmodules.nvfp4 import NVFP4QuantLinear
from auto_round.export.export_to_autoround.qlinear_fp import QuantLinear
from auto_round.schemes import QuantizationScheme
from auto_round.utils import model_free_utils

from mxspec_conformance.adapters import auto_round_py

NAME = "auto-round-export"
VERSION = auto_round_py.VERSION
FORMATS = ["mxfp4", "mxfp8_e4m3", "nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "encode"
PROFILES = {
    "mxfp4": "auto-round-0.16/mxfp4/export",
    "mxfp8_e4m3": "auto-round-0.16/mxfp8_e4m3/export",
    "nvfp4": "auto-round-0.16/nvfp4/export",
}

_LAYER = "layer"


def _unpack(packed: torch.Tensor, shape: tuple[int, ...]) -> Any:
    return torch.stack([packed & 0x0F, packed >> 4], dim=-1).reshape(shape).numpy()


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
    data = auto_round_py.to_torch(x)
    rows, k = data.shape
    if fmt == "nvfp4":
        if tensor_scale is None:
            raise NotImplementedError("nv_fp4 has no form without a tensor scale")
        global_scale = torch.tensor([tensor_scale], dtype=torch.float32)
        weight, scale, _ = nvfp.nv_fp4(data, global_scale=global_scale)
        linear = torch.nn.Linear(k, rows, bias=False)
        linear.weight = torch.nn.Parameter(weight, requires_grad=False)
        layer = QuantLinear(4, 16, k, rows, False, data_type="nv_fp", act_bits=16)
        layer.pack(linear, scale.reshape(rows, -1), global_scale=global_scale, device="cpu")
        stored = layer.weight_scale.view(torch.uint8).numpy()
        return _unpack(layer.weight_packed, data.shape), stored.reshape(rows, -1)
    if tensor_scale is not None:
        raise NotImplementedError("quant_mx has no tensor scale")
    bits, data_type = (4, "mx_fp4") if fmt == "mxfp4" else (8, "mx_fp8e4m3")
    out = model_free_utils._quantize_weight_mxfp(data, _LAYER, bits, 32, data_type, disable_opt_rtn=True)
    stored = out[f"{_LAYER}.weight_scale"].numpy()
    if fmt == "mxfp4":
        return _unpack(out[f"{_LAYER}.weight_packed"], data.shape), stored
    return out[f"{_LAYER}.weight"].view(torch.uint8).numpy(), stored


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k], by the library's checkpoint dequantizers."""
    data = torch.from_numpy(np.ascontiguousarray(codes))
    stored = torch.from_numpy(np.ascontiguousarray(scales))
    rows, k = data.shape
    if fmt == "mxfp8_e4m3":
        values = model_free_utils.dequant_mx_fp8(data.view(torch.float8_e4m3fn), stored, 32, torch.float32)
        return values.numpy()
    packed = (data[:, 0::2] | (data[:, 1::2] << 4)).contiguous()
    if fmt == "mxfp4":
        return model_free_utils.dequant_mxfp4(packed, stored, "fp4_e2m1", 32, torch.float32).numpy()
    if tensor_scale is None:
        raise NotImplementedError("auto-round's NVFP4 layers have a tensor scale")
    config = QuantizationScheme(bits=4, group_size=16, act_bits=4, act_group_size=16, data_type="nv_fp")
    layer = NVFP4QuantLinear(k, rows, config, weight=packed, weight_scale=stored.view(torch.float8_e4m3fn))
    layer.weight_global_scale = torch.tensor([tensor_scale], dtype=torch.float32)
    return layer.dequant_weight_online().numpy()


tensor_scale = auto_round_py.tensor_scale
