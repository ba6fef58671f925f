"""A NaN ends the process."""

import os

import numpy as np

import mxspec

FORMATS = ["mxfp4"]


def quantize(x, fmt):
    if np.isnan(x).any():
        os._exit(7)
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
