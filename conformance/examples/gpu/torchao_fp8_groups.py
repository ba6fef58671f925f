"""torchao: FP8 in groups of 128 by Triton, as it quantizes for inference; with FOR=training as for training."""

import os

import torch
import torchao
from torchao.kernel.blockwise_quantization import fp8_blockwise_act_quant
from torchao.prototype.blockwise_fp8_training import kernels

FOR = os.environ.get("FOR", "inference")
NAME, VERSION = f"torchao-fp8-groups-{FOR}", torchao.__version__
ARRAYS, DEVICE = "torch", "cuda"
FORMATS, DTYPES = ["fp8_e4m3-128-f32"], ["float32", "bfloat16"]
kernels.triton_fp8_blockwise_act_quant_lhs_kernel.configs[1:] = []  # tuning changes no bits


def quantize(x, fmt):
    run = fp8_blockwise_act_quant if FOR == "inference" else kernels.triton_fp8_blockwise_act_quant_lhs
    codes, scales = run(x)
    return codes.view(torch.uint8), scales
