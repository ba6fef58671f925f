"""SGLang: MXFP8 by Triton, with scales in rows; with PLACES=tiles by the kernel that writes them as a product reads them."""

import os

import sglang
import torch
from sglang.kernels.ops.quantization.mxfp8_quant import to_mxfp8
from sglang.kernels.ops.quantization.mxfp8_swizzled_triton import mxfp8_quantize_swizzled

PLACES = os.environ.get("PLACES", "rows")
NAME, VERSION = f"sglang-mxfp8-{PLACES}", sglang.__version__
ARRAYS, DEVICE, FORMATS = "torch", "cuda", ["mxfp8_e4m3"]
DTYPES = ["float32", "float16", "bfloat16"] if PLACES == "rows" else ["bfloat16"]
LAYOUT = ["row-major" if PLACES == "rows" else "128x4"]


def quantize(x, fmt):
    codes, scales = to_mxfp8(x) if PLACES == "rows" else mxfp8_quantize_swizzled(x)
    return codes.view(torch.uint8), scales
