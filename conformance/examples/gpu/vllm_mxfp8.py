"""vLLM: the Triton quantizer of MXFP8."""

import torch
import vllm
from vllm.model_executor.layers.quantization.utils.mxfp8_utils import _mxfp8_e4m3_quantize_triton

NAME, VERSION = "vllm-mxfp8-triton", vllm.__version__
ARRAYS, DEVICE = "torch", "cuda"
FORMATS, DTYPES = ["mxfp8_e4m3"], ["float32", "float16", "bfloat16"]


def quantize(x, fmt):
    codes, scales = _mxfp8_e4m3_quantize_triton(x)
    return codes.view(torch.uint8), scales
