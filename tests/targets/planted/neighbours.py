"""One pair of codes in one byte is mixed up: 7 in an even lane and 9 in the next become 7 and 8."""

from planted_base import quantize_right

NAME, VERSION, FORMATS = "neighbours", "1", ["mxfp4"]


def quantize(x, fmt):
    codes, scales = quantize_right(x, fmt)
    even, odd = codes[:, ::2], codes[:, 1::2]
    odd[(even == 7) & (odd == 9)] = 8
    return codes, scales
