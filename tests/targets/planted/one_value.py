"""Dequantizing gives one value wrong: code 05 in an odd lane under the scale byte c3."""

import numpy as np

import mxspec

NAME, VERSION, FORMATS = "one-value", "1", ["mxfp4"]


def dequantize(codes, scales, fmt):
    values = np.array(mxspec.dequantize(codes, scales, fmt))
    wrong = (codes == 5) & np.repeat(scales == 0xC3, 32, axis=1)
    wrong[:, ::2] = False
    values[wrong] *= 2
    return values
