"""humming-kernels: bfloat16 rows with NVFP4 weights."""

import humming
import torch
from humming.layer import HummingLayer

NAME, VERSION = "humming-nvfp4", humming.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "bfloat16", "b": "nvfp4/nibble-low"}


def prepare(b):
    n, k = b.shape
    config = {"quant_method": "modelopt", "quant_algo": "nvfp4"}
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config=config, torch_dtype=torch.bfloat16).cuda()
    scale = torch.tensor([1.0 if b.tensor_scale is None else b.tensor_scale], device="cuda")
    scales = b.scales.view(torch.float8_e4m3fn)
    layer.load_from_tensors({"weight": b.codes.reshape(n, k // 2), "weight_scale": scales, "weight_scale_2": scale})
    layer.transform()
    return layer


def matmul(a, b, out_dtype):
    return b(a)
