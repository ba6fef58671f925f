"""NVIDIA's host conversions for the tests, and the inputs that they are compared on.

The wrapper is `mxspec_lab/native/cuda_headers.cpp`, compiled once a run. Where the headers or a C++ compiler
are missing, loading raises HeadersMissingError, whose message says how to install them: such a test fails, it does not
skip.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mxspec.formats import get_scalar
from mxspec_lab.cuda_headers import CudaHeaders, load

from tests.support import FLOAT_TYPES, NAN_BITS, SIGN, Array, Float32s, rounding_points

#: Lower halves of a float32: exact, sticky, and around the tie of a bfloat16 rounding.
STICKY = (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)


@lru_cache(maxsize=1)
def headers() -> CudaHeaders:
    """The compiled wrapper."""
    return load()


@lru_cache(maxsize=4)
def all_of(dtype: str) -> Array:
    """All 65,536 numbers of a 16-bit dtype, in the order of their bits."""
    numpy_dtype, _, _ = FLOAT_TYPES[dtype]
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(numpy_dtype)


@lru_cache(maxsize=1)
def wide_float32() -> Float32s:
    """393,216 float32 numbers: every upper half with each lower half of `STICKY`."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return (upper[:, np.newaxis] | np.array(STICKY, np.uint32)).ravel().view(np.float32)


@lru_cache(maxsize=16)
def directed_float32(name: str) -> Float32s:
    """A format's values and midpoints with both float32 neighbours, both signs; the ends of float32; NaN."""
    points = rounding_points(get_scalar(name))
    bits = [*points, *(p | SIGN for p in points), *NAN_BITS]
    return np.array(bits, np.uint32).view(np.float32)
