"""A block whose largest magnitude stands in it with both signs gets a scale that is one too large."""

import numpy as np
from planted_base import quantize_right

NAME, VERSION, FORMATS = "two-maxima", "1", ["mxfp8_e4m3"]


def quantize(x, fmt):
    codes, scales = quantize_right(x, fmt)
    blocks = np.asarray(x, np.float32).reshape(len(x), -1, 32)
    largest, smallest = blocks.max(axis=2), blocks.min(axis=2)
    scales[(largest == -smallest) & (largest > 0) & np.isfinite(largest) & (scales < 0xFE)] += 1
    return codes, scales
