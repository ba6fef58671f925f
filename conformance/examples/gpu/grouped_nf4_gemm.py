"""grouped-nf4-gemm: rows of experts with MXFP4 weights."""

from importlib.metadata import version

import torch
from mxfp4_grouped import gemm_mxfp4_grouped

NAME, VERSION = "grouped-nf4-gemm", version("grouped-nf4-gemm")
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = {"a": "bfloat16", "b": "mxfp4/nibble-low", "form": "counts"}


def grouped_matmul(a, b, groups, form, out_dtype):
    e, n, k = b.shape
    rows = groups.tolist()
    used = [expert for expert in range(e) if rows[expert]]
    if not used:
        return torch.empty(0, n, dtype=torch.bfloat16, device="cuda")
    return gemm_mxfp4_grouped(a, b.codes.reshape(e, n, k // 2), b.scales, [rows[expert] for expert in used], used)
