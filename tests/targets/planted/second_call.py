"""The second call since the library was loaded, and no other, gives its last block a scale that is one too large."""

from planted_base import quantize_right

NAME, VERSION, FORMATS = "second-call", "1", ["mxfp4"]
calls = 0


def quantize(x, fmt):
    global calls
    calls += 1
    codes, scales = quantize_right(x, fmt)
    if calls == 2 and scales[-1, -1] < 0xFE:
        scales[-1, -1] += 1
    return codes, scales
