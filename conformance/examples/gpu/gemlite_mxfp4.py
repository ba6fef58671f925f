"""gemlite: bfloat16 rows with MXFP4 weights, in the default configurations."""

import gemlite
import torch
from gemlite.helper import A16W4_MXFP

NAME, VERSION = "gemlite-mxfp4", gemlite.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "bfloat16", "b": "mxfp4"}
gemlite.set_autotune(False)


def prepare(b):
    return A16W4_MXFP(device="cuda:0", dtype=torch.bfloat16).from_weights(b.codes, b.scales.view(torch.float8_e8m0fnu))


def matmul(a, b, out_dtype):
    return b(a)
