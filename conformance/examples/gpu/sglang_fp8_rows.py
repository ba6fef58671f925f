"""SGLang: FP8 with a float32 scale for each row, as its diffusion models quantize."""

import sglang
import torch
from sglang.kernels.ops.diffusion.quantization.fp8_rowwise_triton import fp8_rowwise

NAME, VERSION = "sglang-fp8-rows", sglang.__version__
ARRAYS, DEVICE = "torch", "cuda"
FORMATS, DTYPES = ["fp8_e4m3-row-f32"], ["float32", "float16", "bfloat16"]


def quantize(x, fmt):
    codes, scales = fp8_rowwise(x)
    return codes.view(torch.uint8), scales
