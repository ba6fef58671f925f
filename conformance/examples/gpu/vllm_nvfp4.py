"""vLLM: NVFP4 emulated in Triton, quantized and dequantized in one kernel; one level."""

import torch
import vllm
from vllm.model_executor.layers.quantization.utils import nvfp4_emulation_utils as emulation

NAME, VERSION = "vllm-nvfp4-triton", vllm.__version__
ARRAYS, DEVICE = "torch", "cuda"
FORMATS, DTYPES = ["nvfp4"], ["float32", "bfloat16"]


def fake_quantize(x, fmt):
    return emulation._triton_nvfp4_quant_dequant(x, torch.ones(1, device=x.device), 16)
