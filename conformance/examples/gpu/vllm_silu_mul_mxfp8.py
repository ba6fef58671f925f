"""vLLM: SiLU times up, and the clamped SwiGLU of gpt-oss, quantized to MXFP8 with scales packed for DeepGEMM."""

import torch
import vllm
from vllm.model_executor.layers.quantization.utils.fp8_utils import silu_mul_quant_fp8_packed_triton

NAME, VERSION = "vllm-silu-mul-mxfp8", vllm.__version__
ARRAYS, DEVICE = "torch", "cuda"
FUSED, DTYPES = ["silu_mul-mxfp8_e4m3", "swiglu_oai-mxfp8_e4m3"], ["bfloat16", "float16", "float32"]


def quantize_fused(x, function, fmt):
    options = {"clamp_limit": 7.0, "alpha": 1.702, "beta": 1.0} if function == "swiglu_oai" else {}
    codes, packed = silu_mul_quant_fp8_packed_triton(x, 32, **options)
    scales = packed.flatten().view(torch.uint8).reshape(len(x), -1)[:, : codes.shape[1] // 32]
    return codes.view(torch.uint8), scales
