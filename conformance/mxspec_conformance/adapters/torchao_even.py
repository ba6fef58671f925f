"""torchao, scale rule EVEN: amax is rounded half up to the element's precision, then its exponent taken."""

from mxspec_conformance.adapters import torchao_py

NAME, VERSION = "torchao-even", torchao_py.VERSION
FORMATS = [*torchao_py.MX_FORMATS]
DTYPES = ["float32", "bfloat16"]
PROFILES = dict.fromkeys(torchao_py.MX_FORMATS, "torchao-0.18/mx/even/eager")

quantize = torchao_py.quantizer("even")
dequantize = torchao_py.dequantize
encode = torchao_py.encode
decode = torchao_py.decode
pack = torchao_py.pack
unpack = torchao_py.unpack
swizzle = torchao_py.swizzle
unswizzle = torchao_py.unswizzle
