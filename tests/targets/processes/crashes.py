"""Every call kills the process."""

import ctypes

FORMATS = ["mxfp4"]


def quantize(x, fmt):
    ctypes.string_at(0)
