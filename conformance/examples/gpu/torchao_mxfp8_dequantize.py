"""torchao: the Triton dequantizer of MXFP8."""

import torch
import torchao
from torchao.prototype.mx_formats import kernels

NAME, VERSION = "torchao-mxfp8-dequantize-triton", torchao.__version__
ARRAYS, DEVICE, FORMATS = "torch", "cuda", ["mxfp8_e4m3"]
kernels._dequant_mxfp8_kernel.configs[1:] = []  # tuning changes no bits


def dequantize(codes, scales, fmt):
    return kernels.triton_mxfp8_dequant_dim0(codes.view(torch.float8_e4m3fn), scales, torch.float32)
