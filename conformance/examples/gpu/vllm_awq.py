"""vLLM: float16 rows with AWQ's INT4 weights, by the Triton product; with BY=dequantize dequantized first."""

import os

import torch
import vllm
from vllm.model_executor.layers.quantization.awq_triton import awq_dequantize_triton, awq_gemm_triton

BY = os.environ.get("BY", "product")
NAME, VERSION = f"vllm-awq-{BY}", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["float16"]
OPERANDS = {"a": "float16", "b": "int4-g128-zero-float16/awq+awq-zeros+transposed"}


def matmul(a, b, out_dtype):
    n, k = b.shape
    codes, zeros = b.codes.view(torch.int32).reshape(k, n // 8), b.zeros.view(torch.int32).reshape(k // 128, n // 8)
    if BY == "dequantize":
        return torch.matmul(a, awq_dequantize_triton(codes, b.scales, zeros))
    return awq_gemm_triton(a, codes, b.scales, zeros, 8)  # split-k as vLLM calls it
