"""microxcaling on bfloat16 tensors, in which it computes every step: not what it gives in float32."""

from mxspec_conformance.adapters import microxcaling_py

NAME, VERSION = "microxcaling-bf16", microxcaling_py.VERSION
FORMATS = microxcaling_py.FORMATS
DTYPES = ["bfloat16"]
PROFILES = {
    **dict.fromkeys(microxcaling_py.FLOAT_FORMATS, "microxcaling-7bc4195/mxfp/nearest/bfloat16"),
    "mxint8": "microxcaling-7bc4195/mxint8/nearest/bfloat16",
}

quantize = microxcaling_py.quantize
