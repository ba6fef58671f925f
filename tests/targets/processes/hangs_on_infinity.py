"""A call with infinities, and no NaN, does not end."""

import time

import numpy as np

import mxspec

FORMATS = ["mxfp4"]


def quantize(x, fmt):
    if np.isinf(x).any() and not np.isnan(x).any():
        time.sleep(600)
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
