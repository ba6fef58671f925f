"""vLLM: the Triton quantizer of MXFP4."""

import vllm
from vllm.model_executor.layers.quantization.utils.mxfp4_utils import downcast_to_mxfp

NAME, VERSION = "vllm-mxfp4-triton", vllm.__version__
ARRAYS, DEVICE, LAYOUT = "torch", "cuda", ["nibble-low"]
FORMATS, DTYPES = ["mxfp4"], ["bfloat16", "float16"]


def quantize(x, fmt):
    codes, scales, _ = downcast_to_mxfp(x, axis=-1)
    return codes, scales
