"""MSLK: quantizers of FP8 rows and of groups of 128, each with the first of its tiles."""

from importlib.metadata import version

import torch
from mslk.quantize.triton import fp8_quantize

NAME, VERSION = "mslk-fp8", version("mslk-cuda")
ARRAYS, DEVICE, DTYPES = "torch", "cuda", ["bfloat16", "float16", "float32"]
FORMATS = ["fp8_e4m3-128-f32", "fp8_e4m3-row-f32"]

for kernel in (fp8_quantize._kernel_quantize_fp8_row, fp8_quantize._kernel_quantize_fp8_group):
    kernel.configs = kernel.configs[:1]  # the tuner would measure five for each width


def quantize(x, fmt):
    codes, scales = fp8_quantize.quantize_fp8_row(x) if fmt == "fp8_e4m3-row-f32" else fp8_quantize.quantize_fp8_group(x)
    return codes.view(torch.uint8), scales.reshape(x.shape[0], -1)


def dequantize(codes, scales, fmt):
    if fmt != "fp8_e4m3-row-f32":
        raise NotImplementedError
    return fp8_quantize.dequantize_fp8_row(codes.view(torch.float8_e4m3fn), scales.reshape(-1))
