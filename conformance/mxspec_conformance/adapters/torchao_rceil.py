"""torchao, scale rule RCEIL: the float32 log2 of amax / max, rounded up."""

from mxspec_conformance.adapters import torchao_py

NAME, VERSION = "torchao-rceil", torchao_py.VERSION
FORMATS = [*torchao_py.MX_FORMATS]
DTYPES = ["float32", "bfloat16"]
PROFILES = {
    "mxfp4": "torchao-0.18/mxfp4/rceil/eager",
    "mxfp6_e2m3": "torchao-0.18/mxfp6_e2m3/rceil/eager",
    "mxfp6_e3m2": "torchao-0.18/mxfp6_e3m2/rceil/eager",
    "mxfp8_e4m3": "torchao-0.18/mxfp8/rceil/eager",
    "mxfp8_e5m2": "torchao-0.18/mxfp8/rceil/eager",
}

quantize = torchao_py.quantizer("rceil")
dequantize = torchao_py.dequantize
encode = torchao_py.encode
decode = torchao_py.decode
pack = torchao_py.pack
unpack = torchao_py.unpack
swizzle = torchao_py.swizzle
unswizzle = torchao_py.unswizzle
