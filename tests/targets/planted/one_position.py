"""In one lane of the block, the 20th, exact ties go away from zero."""

import numpy as np
from planted_base import quantize_right, quotients

NAME, VERSION, FORMATS = "one-position", "1", ["mxfp6_e2m3"]


def quantize(x, fmt):
    codes, scales = quantize_right(x, fmt)
    lane = codes[:, 19::32]
    eighths = quotients(x, scales, 32)[:, 19::32] * 16
    lane += ((eighths % 4 == 1) & (eighths < 32)).astype(np.uint8)
    return codes, scales
