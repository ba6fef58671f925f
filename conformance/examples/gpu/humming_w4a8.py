"""humming-kernels: FP8 rows in groups of 128 under float32 scales with MXFP4 weights."""

import humming
import torch
from humming.layer import HummingLayer

NAME, VERSION = "humming-w4a8", humming.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "fp8_e4m3-128-f32", "b": "mxfp4/nibble-low"}
PRODUCT_SHAPES = {"n": 64, "k": 128}
ROWS = {"quant_method": "humming", "dtype": "float8e4m3", "group_size": 128, "scale_dtype": "float32", "quant_mode": "dynamic_group"}


def prepare(b):
    n, k = b.shape
    weights = {"quant_method": "mxfp4"}
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config=weights, input_config=dict(ROWS), torch_dtype=torch.bfloat16).cuda()
    layer.load_from_tensors({"weight": b.codes.reshape(n, k // 2), "weight_scale": b.scales})
    layer.transform()
    return layer


def matmul(a, b, out_dtype):
    return b(a.codes.view(torch.float8_e4m3fn), input_scale=a.scales)
