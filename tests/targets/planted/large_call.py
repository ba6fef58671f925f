"""In calls of more than 512 blocks, those beyond take their maximum from the first half of the block."""

import numpy as np
from planted_base import quantize_right

NAME, VERSION, FORMATS, TENSOR_SCALE = "large-call", "1", ["nvfp4"], "amax"


def quantize(x, fmt, tensor_scale=None):
    codes, scales = quantize_right(x, fmt, tensor_scale)
    blocks = np.asarray(x, np.float32).reshape(-1, 16)
    if len(blocks) > 512:
        half = blocks[512:].copy()
        half[:, 8:] = 0
        scales.reshape(-1)[512:] = quantize_right(half, fmt, tensor_scale)[1].reshape(-1)
    return codes, scales
