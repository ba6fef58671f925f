"""vLLM: SiLU times up, quantized to FP8 in groups of 128 (float32 scales, or with SCALE=ue8m0 powers of two)."""

import os

import torch
import vllm
from vllm.model_executor.layers.quantization.utils.fp8_utils import silu_mul_per_token_group_quant_fp8_colmajor

SCALE = os.environ.get("SCALE", "f32")
NAME, VERSION = f"vllm-silu-mul-fp8-{SCALE}", vllm.__version__
ARRAYS, DEVICE = "torch", "cuda"
FUSED, DTYPES = ["silu_mul-fp8_e4m3-128-f32"], ["bfloat16", "float16", "float32"]


def quantize_fused(x, function, fmt):
    rows = len(x)
    padded = torch.nn.functional.pad(x, (0, 0, 0, -rows % 128))  # the kernel takes whole tiles of 128 rows
    codes, scales = silu_mul_per_token_group_quant_fp8_colmajor(padded, use_ue8m0=SCALE == "ue8m0")
    return codes.view(torch.uint8)[:rows], scales[:rows]
