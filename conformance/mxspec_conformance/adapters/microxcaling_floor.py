"""microxcaling with `round="floor"`."""

from functools import partial

from mxspec_conformance.adapters import microxcaling_py

NAME, VERSION = "microxcaling-floor", microxcaling_py.VERSION
FORMATS = microxcaling_py.FORMATS
DTYPES = microxcaling_py.DTYPES
PROFILES = {
    **dict.fromkeys(microxcaling_py.FLOAT_FORMATS, "microxcaling-7bc4195/mxfp/floor"),
    "mxint8": "microxcaling-7bc4195/mxint8/floor",
}

quantize = partial(microxcaling_py.quantize, rounding="rtz")
