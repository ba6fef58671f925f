"""tinygrad: MXFP4 tensors of GGUF files."""

import os
from importlib.metadata import version

os.environ.setdefault("DEV", "PYTHON")  # needs no compiler

import numpy as np
from tinygrad import Tensor
from tinygrad.llm.gguf import ggml_data_to_tensor

NAME, VERSION, FORMATS, MXFP4 = "tinygrad-mxfp4", version("tinygrad"), ["mxfp4"], 39


def dequantize(codes, scales, fmt):
    halves = codes.reshape(-1, 2, 16)  # ggml stores element i next to element i + 16
    data = np.concatenate([scales.reshape(-1, 1), halves[:, 0] | halves[:, 1] << 4], axis=1)
    return ggml_data_to_tensor(Tensor(data.ravel()), codes.size, MXFP4).float().numpy().reshape(codes.shape)
