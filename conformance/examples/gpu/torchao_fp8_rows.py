"""torchao: FP8 with a float32 scale for each row by Triton, as its products of experts quantize."""

import torch
import torchao
from torchao.prototype.moe_training.kernels import float8_rowwise

NAME, VERSION = "torchao-fp8-rows", torchao.__version__
ARRAYS, DEVICE = "torch", "cuda"
FORMATS, DTYPES = ["fp8_e4m3-row-f32"], ["float32", "bfloat16"]


def quantize(x, fmt):
    codes, factors = float8_rowwise.triton_fp8_rowwise_2d_scale_and_cast(x)
    return codes.view(torch.uint8), factors.reciprocal()  # as the library passes them to a product
