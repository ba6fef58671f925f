"""Rows that lie an odd number of elements apart are read as if they lay one after the other."""

import numpy as np
from planted_base import quantize_right

NAME, VERSION, FORMATS = "odd-stride", "1", ["mxfp4"]


def quantize(x, fmt):
    if len(x) > 1 and x.strides[1] == x.itemsize and x.strides[0] // x.itemsize % 2:
        x = np.lib.stride_tricks.as_strided(x, x.shape, (x.shape[1] * x.itemsize, x.itemsize))
    return quantize_right(np.ascontiguousarray(x), fmt)
