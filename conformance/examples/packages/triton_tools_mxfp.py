"""Triton: `triton.tools.mxfp`, the helpers of its tests and tutorials."""

import torch
import triton
from triton.tools.mxfp import MXFP4Tensor, MXScaleTensor

NAME, VERSION, ARRAYS, ELEMENTS = "triton-tools-mxfp", triton.__version__, "torch", ["e2m1", "e8m0"]
TYPES = {"e2m1": MXFP4Tensor, "e8m0": MXScaleTensor}


def encode(x, element):
    return TYPES[element](data=x).data


def decode(codes, element):
    tensor = TYPES[element](size=codes.shape)
    tensor.data = codes
    return tensor.to(torch.float32)
