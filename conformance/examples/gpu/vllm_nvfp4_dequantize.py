"""vLLM: the Triton dequantizer of NVFP4."""

import torch
import vllm
from vllm.model_executor.layers.quantization.utils.nvfp4_emulation_utils import _triton_dequantize_nvfp4

NAME, VERSION = "vllm-nvfp4-dequantize-triton", vllm.__version__
ARRAYS, DEVICE, LAYOUT = "torch", "cuda", ["nibble-low"]
FORMATS = ["nvfp4"]


def dequantize(codes, scales, fmt, tensor_scale=None):
    scale = torch.tensor([1.0 if tensor_scale is None else tensor_scale], device=codes.device)
    return _triton_dequantize_nvfp4(codes, scales, scale, torch.float32, 16)
