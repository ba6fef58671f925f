"""SGLang: SiLU times up, and FP8 with a float32 scale for each row, in one kernel; groups of 128 are its rows."""

import sglang
import torch
from sglang.kernels.ops.diffusion.quantization.swiglu_fp8_rowwise_triton import fused_packed_swiglu_fp8_rowwise

NAME, VERSION = "sglang-swiglu-fp8-rows", sglang.__version__
ARRAYS, DEVICE = "torch", "cuda"
FUSED, DTYPES = ["silu_mul-fp8_e4m3-128-f32"], ["bfloat16"]


def quantize_fused(x, function, fmt):
    rows, groups = len(x), x.shape[1] // 256
    pairs = x.reshape(rows, 2, groups, 128).transpose(1, 2).reshape(1, rows * groups, 256)
    codes, scales = fused_packed_swiglu_fp8_rowwise(pairs, row_alignment=1)
    return codes.view(torch.uint8).reshape(rows, -1), scales.reshape(rows, groups)
