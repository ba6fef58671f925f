"""torchao, scale rule FLOOR (the library's default), and its NVFP4: the exponent field of amax minus emax."""

from mxspec_conformance.adapters import torchao_py

NAME, VERSION = "torchao-floor", torchao_py.VERSION
FORMATS = [*torchao_py.MX_FORMATS, "nvfp4"]
DTYPES = ["float32", "bfloat16"]
PROFILES = {
    **dict.fromkeys(torchao_py.MX_FORMATS, "torchao-0.18/mx/floor/eager"),
    "nvfp4": "torchao-0.18/nvfp4/eager",
}
PROFILES_ONE_LEVEL = {"nvfp4": "torchao-0.18/nvfp4/eager"}
TENSOR_SCALE = "decode"

quantize = torchao_py.quantizer("floor")
dequantize = torchao_py.dequantize
encode = torchao_py.encode
decode = torchao_py.decode
tensor_scale = torchao_py.tensor_scale
pack = torchao_py.pack
unpack = torchao_py.unpack
swizzle = torchao_py.swizzle
unswizzle = torchao_py.unswizzle
