"""MSLK: quantizers of FP8 rows and of groups of 128."""

from importlib.metadata import version

import torch
from mslk.quantize.triton.fp8_quantize import dequantize_fp8_row, quantize_fp8_group, quantize_fp8_row

NAME, VERSION = "mslk-fp8", version("mslk-cuda")
ARRAYS, DEVICE, DTYPES = "torch", "cuda", ["bfloat16", "float16", "float32"]
FORMATS = ["fp8_e4m3-128-f32", "fp8_e4m3-row-f32"]


def quantize(x, fmt):
    codes, scales = quantize_fp8_row(x) if fmt == "fp8_e4m3-row-f32" else quantize_fp8_group(x)
    return codes.view(torch.uint8), scales.reshape(x.shape[0], -1)


def dequantize(codes, scales, fmt):
    if fmt != "fp8_e4m3-row-f32":
        raise NotImplementedError
    return dequantize_fp8_row(codes.view(torch.float8_e4m3fn), scales.reshape(-1))
