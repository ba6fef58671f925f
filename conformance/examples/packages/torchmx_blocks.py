"""torchmx: MX blocks of bfloat16."""

from importlib.metadata import version

import torch
from torchmx import mx_tensor

NAME, VERSION, ARRAYS, DTYPES = "torchmx-blocks", version("torchmx"), "torch", ["bfloat16"]
NAMES = {"mxfp6_e2m3": "float6_e2m3", "mxfp6_e3m2": "float6_e3m2", "mxfp8_e4m3": "float8_e4m3", "mxint8": "int8"}
FORMATS = list(NAMES)


def quantize(x, fmt):
    scales, codes = mx_tensor.quantize_mx(x.contiguous(), NAMES[fmt], 32)
    return codes.view(torch.uint8), scales


def dequantize(codes, scales, fmt):
    return mx_tensor.dequantize_mx(codes.view(torch.int8) if fmt == "mxint8" else codes, scales, NAMES[fmt], 32, torch.float32, -1)
