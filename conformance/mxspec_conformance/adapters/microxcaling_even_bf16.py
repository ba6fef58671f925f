"""microxcaling with `round="even"` on bfloat16 tensors, in which it computes every step."""

from functools import partial

from mxspec_conformance.adapters import microxcaling_py

NAME, VERSION = "microxcaling-even-bf16", microxcaling_py.VERSION
FORMATS = microxcaling_py.FORMATS
DTYPES = ["bfloat16"]
PROFILES = {
    **dict.fromkeys(microxcaling_py.FLOAT_FORMATS, "microxcaling-7bc4195/mxfp/even/bfloat16"),
    "mxint8": "microxcaling-7bc4195/mxint8/even/bfloat16",
}

quantize = partial(microxcaling_py.quantize, rounding="rne")
