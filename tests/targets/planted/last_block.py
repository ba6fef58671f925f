"""The last lane of a call's last block is lost, unless the number of blocks is a multiple of four."""

from planted_base import quantize_right

NAME, VERSION, FORMATS = "last-block", "1", ["mxfp6_e3m2"]


def quantize(x, fmt):
    codes, scales = quantize_right(x, fmt)
    if scales.size % 4:
        codes[-1, -1] = 0
    return codes, scales
