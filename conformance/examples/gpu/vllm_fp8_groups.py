"""vLLM: FP8 in groups of 128 with scales that are powers of two, by Triton; with ORDER=columns by the kernel whose scales lie in columns."""

import os

import torch
import vllm
from vllm.model_executor.layers.quantization.utils.fp8_utils import per_token_group_quant_fp8

ORDER = os.environ.get("ORDER", "rows")
NAME, VERSION = f"vllm-fp8-ue8m0-{ORDER}", vllm.__version__
ARRAYS, DEVICE = "torch", "cuda"
FORMATS, DTYPES = ["fp8_e4m3-128-f32"], ["float32", "float16", "bfloat16"]


def quantize(x, fmt):
    codes, scales = per_token_group_quant_fp8(x, 128, column_major_scales=ORDER == "columns", use_ue8m0=True)
    return codes.view(torch.uint8), scales
