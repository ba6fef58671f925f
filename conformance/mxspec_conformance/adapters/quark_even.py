"""AMD Quark's `downcast_to_mxfp_torch`, scale mode EVEN: amax rounded half up (MXFP4 only)."""

from mxspec_conformance.adapters import quark_py

NAME, VERSION = "quark-even", quark_py.VERSION
FORMATS = ["mxfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
PROFILES = {"mxfp4": "quark-0.13/mxfp4/even"}

quantize = quark_py.quantizer("EVEN")
dequantize = quark_py.dequantize
