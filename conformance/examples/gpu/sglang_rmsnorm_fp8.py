"""SGLang: RMSNorm, and FP8 in groups of 128 whose scales are powers of two, in one kernel."""

import sglang
import torch
from sglang.kernels.ops.layernorm.rmsnorm_fp8_e8m0 import rmsnorm_fp8_e8m0_quant

NAME, VERSION = "sglang-rmsnorm-fp8", sglang.__version__
ARRAYS, DEVICE = "torch", "cuda"
FUSED, DTYPES = ["rmsnorm-fp8_e4m3-128-f32"], ["bfloat16", "float16", "float32"]


def quantize_fused(x, function, fmt, weight=None, eps=1e-6):
    (codes, scales), _ = rmsnorm_fp8_e8m0_quant(x, weight, eps)
    by_group = scales.reshape(scales.shape[1], scales.shape[0])  # their memory is column-major, and their shape is not
    return codes.view(torch.uint8), by_group.T.float()
