"""SGLang: FP8 in groups of 128 with tiles of 128 x 128, in the default configuration; with SPLIT_K=4 by the kernel for a Hopper GPU."""

import os

import sglang
import torch
from sglang.kernels.ops.gemm import fp8_kernel

SPLIT = int(os.environ.get("SPLIT_K", "1"))
NAME, VERSION = f"sglang-fp8-product-{SPLIT}", sglang.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16", "float32"]
OPERANDS = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128"}
if SPLIT > 1:  # a file with the tuned configurations of a shape says so
    tiles = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 3}
    fp8_kernel.get_w8a8_block_fp8_configs = lambda *_: {1: {**tiles, "SWAP_AB": True, "SPLIT_K": SPLIT}}


def matmul(a, b, out_dtype):
    codes = [x.codes.view(torch.float8_e4m3fn) for x in (a, b)]
    return fp8_kernel.w8a8_block_fp8_matmul_triton(*codes, a.scales, b.scales, [128, 128], getattr(torch, out_dtype))
