"""torch: `_scaled_mm` of FP8 with a float32 scale for each row of a and each column of b; with FAST=1 the fast accumulation."""

import os

import torch

FAST = os.environ.get("FAST") == "1"
NAME, VERSION = f"torch-scaled-rows-{'fast' if FAST else 'slow'}", torch.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "float8_e4m3fn", "b": "float8_e4m3fn"}


def matmul(a, b, out_dtype, alpha=1.0):
    (m, _), n = a.shape, len(b)
    scales = torch.full((m, 1), float(alpha), device="cuda"), torch.ones(1, n, device="cuda")
    return torch._scaled_mm(a, b.T, *scales, out_dtype=torch.bfloat16, use_fast_accum=FAST)
