"""DeepGEMM: FP8 rows in groups of 128 with FP8 weights in tiles of 128 x 128."""

import deep_gemm
import torch

NAME, VERSION = "deepgemm-fp8", deep_gemm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128"}
PRODUCT_SHAPES = {"n": 8, "k": 128}  # rows of the result begin at multiples of 16 bytes


def matmul(a, b, out_dtype):
    d = torch.empty(a.shape[0], b.shape[0], dtype=torch.bfloat16, device="cuda")
    given = ((part.codes.view(torch.float8_e4m3fn), part.scales) for part in (a, b))
    deep_gemm.fp8_gemm_nt(*given, d, compiled_dims="")  # no size is a constant of the kernel, so that few are compiled
    return d
