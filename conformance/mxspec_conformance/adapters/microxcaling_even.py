"""microxcaling with `round="even"`."""

from functools import partial

from mxspec_conformance.adapters import microxcaling_py

NAME, VERSION = "microxcaling-even", microxcaling_py.VERSION
FORMATS = microxcaling_py.FORMATS
DTYPES = microxcaling_py.DTYPES
PROFILES = {
    **dict.fromkeys(microxcaling_py.FLOAT_FORMATS, "microxcaling-7bc4195/mxfp/even"),
    "mxint8": "microxcaling-7bc4195/mxint8/even",
}

quantize = partial(microxcaling_py.quantize, rounding="rne")
