"""The smallest target with every function of numbers: five lines."""
# fmt: off

import mxspec

NAME, VERSION, FORMATS = "five-lines", "1.0", list(mxspec.BLOCKS)
def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes, t.scales
def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt)
encode, decode = mxspec.encode, mxspec.decode
