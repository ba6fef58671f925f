"""Under the smallest block scale, code 01, negative elements of magnitude 0.5 are lost."""

import numpy as np
from planted_base import quantize_right

NAME, VERSION, FORMATS, TENSOR_SCALE = "smallest-scale", "1", ["nvfp4"], "amax"


def quantize(x, fmt, tensor_scale=None):
    codes, scales = quantize_right(x, fmt, tensor_scale)
    codes[np.repeat(scales == 1, 16, axis=1) & (codes == 9)] = 8
    return codes, scales
