"""convert-to-quant: NVFP4, and FP8 under a float32 scale for each row or tensor, by its torch code."""

from importlib.metadata import version

import torch
from convert_to_quant.comfy.quant_ops import RowWiseFP8Layout, TensorCoreFP8Layout
from convert_to_quant.converters import quantize_nvfp4

NAME, VERSION = "convert-to-quant-fp8", version("convert-to-quant")
FORMATS, ARRAYS, LAYOUT = ["nvfp4", "fp8_e4m3-row-f32", "fp8_e4m3-tensor-f32"], "torch", ["unpacked", "128x4"]


def quantize(x, fmt, tensor_scale=None):
    if x.dtype is not torch.float32 or (fmt == "nvfp4" and tensor_scale is None):
        raise NotImplementedError
    if fmt == "nvfp4":
        packed, scales, _ = quantize_nvfp4(x, torch.tensor(tensor_scale), pad_to_16x=False)
        return torch.stack([packed >> 4, packed & 15], dim=-1).view(x.shape), scales
    codes, kept = RowWiseFP8Layout.quantize(x) if "row" in fmt else TensorCoreFP8Layout.quantize(x, "recalculate")
    return codes, kept["scale"]
