"""humming-kernels: bfloat16 rows with FP8 weights under float32 scales of tiles of 128 x 128."""

import humming
import torch
from humming.layer import HummingLayer

NAME, VERSION = "humming-fp8", humming.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "bfloat16", "b": "fp8_e4m3-128-f32/128x128"}


def prepare(b):
    n, k = b.shape
    config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config=config, torch_dtype=torch.bfloat16).cuda()
    layer.load_from_tensors({"weight": b.codes.view(torch.float8_e4m3fn), "weight_scale_inv": b.scales})
    layer.transform()
    return layer


def matmul(a, b, out_dtype):
    return b(a)
