"""Negative zero becomes the smallest negative value in blocks whose scale byte is 00."""

import numpy as np
from planted_base import quantize_right

NAME, VERSION, FORMATS = "negative-zero", "1", ["mxfp8_e5m2"]


def quantize(x, fmt):
    codes, scales = quantize_right(x, fmt)
    values = np.asarray(x, np.float32)
    tiny = np.repeat(scales == 0, 32, axis=1) & np.repeat(np.abs(values).reshape(len(values), -1, 32).max(axis=2) > 0, 32, axis=1)
    codes[tiny & (values == 0) & np.signbit(values)] = 0x81
    return codes, scales
