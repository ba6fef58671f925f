"""Transformers: the MXFP4 experts of gpt-oss, dequantized."""

import torch
import transformers
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

NAME, VERSION, FORMATS = "transformers-mxfp4", transformers.__version__, ["mxfp4"]
ARRAYS, LAYOUT = "torch", "nibble-low"


def dequantize(codes, scales, fmt):
    rows, blocks = scales.shape
    values = convert_moe_packed_tensors(codes.reshape(1, rows, blocks, 16), scales.reshape(1, rows, blocks), dtype=torch.float32)
    return values[0].T
