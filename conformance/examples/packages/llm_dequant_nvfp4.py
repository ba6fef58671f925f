"""llm-dequant: NVFP4 weights as compressed-tensors stores them."""

from importlib.metadata import version

import torch
from llm_dequant.nvfp4 import dequantize_nvfp4

NAME, VERSION, FORMATS = "llm-dequant-nvfp4", version("llm-dequant"), ["nvfp4"]
ARRAYS, LAYOUT, TENSOR_SCALE = "torch", "nibble-low", "encode"


def dequantize(codes, scales, fmt, tensor_scale=None):
    divisor = None if tensor_scale is None else torch.tensor(tensor_scale)
    return dequantize_nvfp4(codes, scales.view(torch.float8_e4m3fn), divisor, torch.float32)
