"""humming-kernels: bfloat16 rows with MXFP4 weights."""

import humming
import torch
from humming.layer import HummingLayer

NAME, VERSION = "humming-mxfp4", humming.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "bfloat16", "b": "mxfp4/nibble-low"}


def prepare(b):
    n, k = b.shape
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config={"quant_method": "mxfp4"}, torch_dtype=torch.bfloat16).cuda()
    layer.load_from_tensors({"weight": b.codes.reshape(n, k // 2), "weight_scale": b.scales})
    layer.transform()
    return layer


def matmul(a, b, out_dtype):
    return b(a)
