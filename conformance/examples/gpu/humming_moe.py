"""humming-kernels: bfloat16 rows of experts with MXFP4 weights."""

import humming
import torch
from humming.layer import HummingLayer

NAME, VERSION = "humming-moe", humming.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = [{"a": "bfloat16", "b": "mxfp4/nibble-low", "form": form} for form in ("offsets", "masked")]
PRODUCT_SHAPES = {"n": 64, "k": 64}


def prepare(b):
    e, n, k = b.shape
    layer = HummingLayer(shape_n=n, shape_k=k, num_experts=e, weight_config={"quant_method": "mxfp4"}, torch_dtype=torch.bfloat16).cuda()
    layer.load_from_tensors({"weight": b.codes.reshape(e, n, k // 2), "weight_scale": b.scales})
    layer.transform()
    return layer


def grouped_matmul(a, b, groups, form, out_dtype):
    kind = "grouped_masked" if form == "masked" else "grouped_contiguous"
    out = b(a.reshape(-1, a.shape[-1]), expert_layout=groups, compute_config={"gemm_type": kind})
    return out.reshape(*a.shape[:-1], -1)
