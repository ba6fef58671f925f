"""AMD Quark's `downcast_to_mxfp_torch`, scale mode ROUND_DOWN: the exponent field of amax / max."""

from mxspec_conformance.adapters import quark_py

NAME, VERSION = "quark-down", quark_py.VERSION
FORMATS = ["mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"]
DTYPES = ["float32", "float16", "bfloat16"]
PROFILES = {
    "mxfp4": "quark-0.13/mxfp4/round-down",
    "mxfp8_e4m3": "quark-0.13/mxfp8/round-down",
    "mxfp8_e5m2": "quark-0.13/mxfp8/round-down",
}

quantize = quark_py.quantizer("ROUND_DOWN")
dequantize = quark_py.dequantize
