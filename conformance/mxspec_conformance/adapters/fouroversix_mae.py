"""fouroversix's PyTorch reference, scale rule `l1_norm`: Four-over-Six by the sum of absolute errors."""

from mxspec_conformance.adapters import fouroversix_py

NAME, VERSION = "fouroversix-mae", fouroversix_py.VERSION
FORMATS = ["nvfp4"]
DTYPES = ["bfloat16"]
TENSOR_SCALE = "decode"
PROFILES = {"nvfp4": "fouroversix-0.1/nvfp4/l1-norm"}

quantize = fouroversix_py.quantizer("l1_norm")
dequantize = fouroversix_py.dequantize
tensor_scale = fouroversix_py.norm_constant("l1_norm")
