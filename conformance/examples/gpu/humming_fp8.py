"""humming-kernels: bfloat16 rows with FP8 weights: scales of a checkpoint's blocks, or with KIND=float32 and KIND=mx of its own."""

import os

import humming
import torch
from humming.layer import HummingLayer

KIND = os.environ.get("KIND", "checkpoint")
NAME, VERSION = f"humming-fp8-{KIND}", humming.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "bfloat16", "b": "mxfp8_e4m3" if KIND == "mx" else "fp8_e4m3-128-f32/128x128"}
PRODUCT_SHAPES = {"n": 64 if KIND == "mx" else 128, "k": 64 if KIND == "mx" else 128}
OWN = {"quant_method": "humming", "dtype": "float8e4m3"}
CONFIGS = {
    "checkpoint": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "float32": {**OWN, "group_size": 128, "group_size_n": 128},
    "mx": {**OWN, "group_size": 32, "scale_dtype": "float8e8m0"},
}


def prepare(b):
    n, k = b.shape
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config=dict(CONFIGS[KIND]), torch_dtype=torch.bfloat16).cuda()
    scales = {"weight_scale_inv" if KIND == "checkpoint" else "weight_scale": b.scales}
    if KIND == "mx":
        scales["weight_scale"] = b.scales.view(torch.float8_e8m0fnu)
    layer.load_from_tensors({"weight": b.codes.clone().view(torch.float8_e4m3fn if KIND == "checkpoint" else torch.int32), **scales})
    layer.transform()
    return layer


def matmul(a, b, out_dtype):
    return b(a)
