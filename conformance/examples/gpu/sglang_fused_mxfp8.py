"""SGLang: SiLU times up and the SwiGLU of gpt-oss, quantized to MXFP8 in one kernel."""

import sglang
import torch
from sglang.kernels.ops.activation.swiglu_mxfp8_swizzled import silu_mul_mxfp8, swiglu_oai_mxfp8

NAME, VERSION = "sglang-swiglu-mxfp8", sglang.__version__
ARRAYS, DEVICE, LAYOUT = "torch", "cuda", ["128x4"]
FUSED, DTYPES = ["silu_mul-mxfp8_e4m3", "swiglu_oai-mxfp8_e4m3"], ["bfloat16"]


def quantize_fused(x, function, fmt):
    codes, scales = silu_mul_mxfp8(x) if function == "silu_mul" else swiglu_oai_mxfp8(x, 1.702, 7.0)
    return codes.view(torch.uint8), scales
