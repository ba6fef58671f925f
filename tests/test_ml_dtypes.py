"""The model against ml_dtypes' casts, where these are right.

Not compared, each shown to differ by a test of its own:

* NaN to e2m1, e2m3 and e3m2: ml_dtypes writes a zero of the other sign (our policy `zero-flipped`, compared so).
* NaN to e5m2: ml_dtypes writes 7E or FE, the model 7F or FF; both are NaN.
* e8m0: zeros (ml_dtypes makes them NaN), negative numbers (NaN too), and magnitudes between 2**-127 and 1.5 * 2**-127,
  which ml_dtypes rounds up.
* int8 and ue4m3, of which it has no type.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.formats import get_scalar

from tests.cuda_headers import all_of, directed_float32, wide_float32
from tests.support import Array, Codes, assert_same, bits_of

TYPES: dict[str, Any] = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}
FLOATS = ("float32", "float16", "bfloat16")
#: How each type overflows.
OVERFLOW = {"e2m1": "saturate", "e2m3": "saturate", "e3m2": "saturate", "e4m3": "own", "e5m2": "own"}


def inputs(name: str, dtype: str) -> Array:
    """All numbers of a 16-bit dtype; of float32 the directed ones of the format and the wide net."""
    return all_of(dtype) if dtype != "float32" else np.concatenate([directed_float32(name), wide_float32()])


def without_nan(x: Array) -> Array:
    """The numbers and infinities of an array."""
    return x[~np.isnan(x.astype(np.float32))]


def cast(x: Array, name: str) -> Codes:
    """The codes that ml_dtypes gives."""
    with np.errstate(all="ignore"):
        codes: Codes = x.astype(TYPES[name]).view(np.uint8)
    return codes


def assert_codes(x: Array, ours: Codes, theirs: Codes) -> None:
    assert_same(ours, theirs, lambda i: f"{x.dtype} {int(bits_of(x)[i]):#x}")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", OVERFLOW)
def test_cast(name: str, dtype: str) -> None:
    x = inputs(name, dtype)
    if name == "e5m2":
        x = without_nan(x)
    policy = "nan" if get_scalar(name).nan_code is not None else "zero-flipped"
    assert_codes(x, mxspec.encode(x, name, overflow=OVERFLOW[name], nan=policy), cast(x, name))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_saturating_fp8_is_a_cast_after_a_clamp(name: str, dtype: str) -> None:
    x = without_nan(inputs(name, dtype))
    limit = x.dtype.type(float(get_scalar(name).max_value))
    assert_codes(x, mxspec.encode(x, name), cast(np.clip(x, -limit, limit), name))


@pytest.mark.parametrize("dtype", FLOATS)
def test_cast_to_e8m0_is_nearest_with_ties_up(dtype: str) -> None:
    x = inputs("e8m0", dtype)
    wide = x.astype(np.float32)
    rounded_up = (wide > 2.0**-127) & (wide < 1.5 * 2.0**-127)
    x = x[(np.isnan(wide) | ~np.signbit(wide)) & (wide != 0) & ~rounded_up]
    assert x.size > 15_000
    assert_codes(x, mxspec.encode(x, "e8m0", rounding="rna", overflow="own"), cast(x, "e8m0"))


def test_the_exclusions_are_needed() -> None:
    nan = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    for name in ("e2m1", "e2m3", "e3m2"):
        sign = get_scalar(name).sign_bit
        assert cast(nan, name).tolist() == [sign, 0]
    assert cast(nan, "e5m2").tolist() == [0x7E, 0xFE]
    assert mxspec.encode(nan, "e5m2").tolist() == [0x7F, 0xFF]
    odd = np.array([0, 1 << 31, 0xBF800000, 0x00400001, 0x005FFFFF], np.uint32).view(np.float32)
    assert cast(odd, "e8m0").tolist() == [0xFF, 0xFF, 0xFF, 0x01, 0x01]
    ours = mxspec.encode(odd, "e8m0", rounding="rna", overflow="own", sign="ignore")
    assert ours.tolist() == [0x00, 0x00, 0x7F, 0x00, 0x00]


@pytest.mark.parametrize("name", TYPES)
def test_decode(name: str) -> None:
    codes = np.arange(get_scalar(name).code_count, dtype=np.uint32).astype(np.uint8)
    ours, theirs = mxspec.decode(codes, name), codes.view(TYPES[name]).astype(np.float32)
    missing = np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), missing)
    assert_same(ours[~missing], theirs[~missing])
