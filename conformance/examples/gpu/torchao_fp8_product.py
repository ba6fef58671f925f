"""torchao: FP8 in groups of 128 with tiles of 128 x 128, the Triton product of its training."""

import torch
import torchao
from torchao.prototype.blockwise_fp8_training import kernels

NAME, VERSION = "torchao-fp8-product", torchao.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["float32", "bfloat16"]
OPERANDS = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128"}
kernels.triton_fp8_gemm_1x128_128x128_kernel.configs[1:] = []  # one of its tilings


def matmul(a, b, out_dtype):
    codes = [x.codes.view(torch.float8_e4m3fn) for x in (a, b)]
    scales = a.scales.T.contiguous().T, b.scales.T
    return kernels.triton_fp8_gemm_1x128_128x128(codes[0], codes[1].T, *scales, out_dtype=getattr(torch, out_dtype))
