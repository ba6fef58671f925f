"""fouroversix's PyTorch reference, scale rule `always_6`: plain NVFP4: the scale of 6 for every block."""

from mxspec_conformance.adapters import fouroversix_py

NAME, VERSION = "fouroversix-six", fouroversix_py.VERSION
FORMATS = ["nvfp4"]
DTYPES = ["bfloat16"]
TENSOR_SCALE = "decode"
PROFILES = {"nvfp4": "fouroversix-0.1/nvfp4/always-6"}

quantize = fouroversix_py.quantizer("always_6")
dequantize = fouroversix_py.dequantize
tensor_scale = fouroversix_py.norm_constant("always_6")
