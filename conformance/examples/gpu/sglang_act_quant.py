"""SGLang: `act_quant`, FP8 in groups of 128; with SCALE=ue8m0 with scales that are powers of two."""

import os

import sglang
import torch
from sglang.kernels.ops.quantization.act_quant_triton import act_quant

SCALE = os.environ.get("SCALE")
NAME, VERSION = f"sglang-act-quant-{SCALE or 'f32'}", sglang.__version__
ARRAYS, DEVICE = "torch", "cuda"
FORMATS, DTYPES = ["fp8_e4m3-128-f32"], ["float32", "float16", "bfloat16"]


def quantize(x, fmt):
    codes, scales = act_quant(x, 128, SCALE)
    return codes.view(torch.uint8), scales
