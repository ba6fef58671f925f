"""SGLang: RMSNorm and MXFP8 in one kernel."""

import sglang
import torch
from sglang.kernels.ops.layernorm.rmsnorm_mxfp8 import rmsnorm_mxfp8

NAME, VERSION = "sglang-rmsnorm-mxfp8", sglang.__version__
ARRAYS, DEVICE, LAYOUT = "torch", "cuda", ["128x4"]
FUSED, DTYPES = ["rmsnorm-mxfp8_e4m3"], ["bfloat16"]


def quantize_fused(x, function, fmt, weight=None, eps=1e-6):
    _, codes, scales = rmsnorm_mxfp8(x, weight, eps)
    return codes.view(torch.uint8), scales
