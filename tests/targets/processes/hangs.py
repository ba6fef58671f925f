"""No call ends."""

import time

FORMATS = ["mxfp4"]


def quantize(x, fmt):
    time.sleep(600)
