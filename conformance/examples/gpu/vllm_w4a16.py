"""vLLM: 16-bit rows with INT4 weights and zero points, by Triton."""

import torch
import vllm
from vllm.model_executor.kernels.linear.mixed_precision.triton_w4a16 import triton_w4a16_gemm

NAME, VERSION = "vllm-w4a16", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["float16", "bfloat16"]
OPERANDS = [{"a": dtype, "b": f"int4-g128-zero-{dtype}"} for dtype in ("float16", "bfloat16")]
PRODUCT_SHAPES = {"n": 8, "k": 128}


def _join(x):
    words = x.T.contiguous().reshape(x.shape[1], len(x) // 8, 8).int()
    return (words << 4 * torch.arange(8, device=x.device, dtype=torch.int32)).sum(2, dtype=torch.int32)


def prepare(b):
    return _join(b.codes), b.scales.T.contiguous(), _join(b.zeros)


def matmul(a, b, out_dtype):
    if out_dtype != str(a.dtype).removeprefix("torch."):
        raise NotImplementedError("outputs have the dtype of the rows")
    return triton_w4a16_gemm(a.contiguous(), *b, 128)
