"""A quantizer that ends with its process, by SIGFPE, where there are no rows: a count is divided by them."""

import os
import signal

import mxspec

FORMATS = ["mxfp4"]


def quantize(x, fmt):
    if not len(x):
        os.kill(os.getpid(), signal.SIGFPE)
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
