"""torch: `_scaled_grouped_mm`, rows of experts in FP8 with a float32 scale for each row and column; with FAST=1 the fast accumulation."""

import os

import torch

FAST = os.environ.get("FAST") == "1"
NAME, VERSION = f"torch-scaled-grouped-{'fast' if FAST else 'slow'}", torch.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = {"a": "float8_e4m3fn", "b": "float8_e4m3fn", "form": "offsets"}
PRODUCT_SHAPES = {"n": 16, "k": 16}


def grouped_matmul(a, b, groups, form, out_dtype, alpha=None):
    e, n, _ = b.shape
    scales = torch.ones(len(a), device="cuda"), torch.ones(e, n, device="cuda")
    if alpha is not None:
        scales = scales[0], scales[1] * alpha[:, None]
    return torch._scaled_grouped_mm(
        a, b.transpose(-2, -1), *scales, offs=groups[1:].contiguous(), out_dtype=torch.bfloat16, use_fast_accum=FAST
    )
