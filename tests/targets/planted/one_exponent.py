"""Block maxima in one binade, from 2**-87 on, get a scale that is one too small."""

import numpy as np
from planted_base import quantize_right

NAME, VERSION, FORMATS = "one-exponent", "1", ["mxint8"]


def quantize(x, fmt):
    codes, scales = quantize_right(x, fmt)
    with np.errstate(invalid="ignore"):
        largest = np.abs(np.asarray(x, np.float32)).reshape(len(x), -1, 32).max(axis=2)
    wrong = (largest >= 2.0**-87) & (largest < 2.0**-86)
    scales[wrong] -= 1
    return codes, scales
