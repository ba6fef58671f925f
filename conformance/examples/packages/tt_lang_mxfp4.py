"""tt-lang-t27: MXFP4 blocks, in plain Python."""

from importlib.metadata import version

import numpy as np
from tt_lang_t27 import MxBlock, decode_block, encode_block

NAME, VERSION, FORMATS = "tt-lang-mxfp4", version("tt-lang-t27"), ["mxfp4"]


def quantize(x, fmt):
    blocks = [encode_block(block) for block in x.reshape(-1, 32).tolist()]
    codes = np.array([block.elements for block in blocks], np.uint8).reshape(x.shape)
    return codes, np.array([block.scale_byte for block in blocks], np.uint8).reshape(len(x), -1)


def dequantize(codes, scales, fmt):
    blocks = zip(scales.ravel().tolist(), codes.reshape(-1, 32).tolist(), strict=True)
    values = [decode_block(MxBlock(scale, tuple(elements))) for scale, elements in blocks]
    return np.array(values, np.float64).astype(np.float32).reshape(codes.shape)
