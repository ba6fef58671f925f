"""fireworks-prequant: the NVFP4 weights of experts, by its reference in torch."""

from importlib.metadata import version

import torch
from fireworks_prequant.quantize import compute_global_scale, ref_quant_nvfp4

NAME, VERSION, FORMATS = "fireworks-nvfp4", version("fireworks-prequant"), ["nvfp4"]
ARRAYS, LAYOUT, TENSOR_SCALE = "torch", "nibble-low", "encode"


def quantize(x, fmt, tensor_scale):
    codes, scales = ref_quant_nvfp4(x, torch.tensor([tensor_scale]))
    return codes, scales.view(torch.uint8)


def tensor_scale(x, fmt):
    return compute_global_scale(x)
