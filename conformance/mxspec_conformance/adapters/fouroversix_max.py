"""fouroversix's PyTorch reference, scale rule `abs_max`: Four-over-Six by the largest error."""

from mxspec_conformance.adapters import fouroversix_py

NAME, VERSION = "fouroversix-max", fouroversix_py.VERSION
FORMATS = ["nvfp4"]
DTYPES = ["bfloat16"]
TENSOR_SCALE = "decode"
PROFILES = {"nvfp4": "fouroversix-0.1/nvfp4/abs-max"}

quantize = fouroversix_py.quantizer("abs_max")
dequantize = fouroversix_py.dequantize
tensor_scale = fouroversix_py.norm_constant("abs_max")
