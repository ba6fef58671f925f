"""libgguf: MXFP4 rows of GGUF files, by its C library."""

from importlib.metadata import version

import numpy as np
from libgguf import dequantize_rows, quantize_rows

NAME, VERSION, FORMATS, MXFP4 = "libgguf-mxfp4", version("libgguf"), ["mxfp4"], 39


def quantize(x, fmt):
    records = np.asarray(quantize_rows(np.ascontiguousarray(x), MXFP4)).view(np.uint8).reshape(-1, 17)
    codes = np.concatenate([records[:, 1:] & 15, records[:, 1:] >> 4], axis=1)
    return codes.reshape(x.shape), records[:, 0].reshape(len(x), -1)


def dequantize(codes, scales, fmt):
    halves = codes.reshape(-1, 2, 16)
    records = np.concatenate([scales.reshape(-1, 1), halves[:, 0] | halves[:, 1] << 4], axis=1)
    return np.asarray(dequantize_rows(records.reshape(len(codes), -1), MXFP4)).reshape(codes.shape)
