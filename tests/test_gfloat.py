"""The model against gfloat 0.5.2, where it is right: every rounding that both have.

gfloat rounds to a value (`round_ndarray`) and then looks up its code (`encode_ndarray`). Its inputs are float64 here,
so that its own arithmetic is exact. Not compared:

* its roundings Stochastic, StochasticOdd and StochasticFast: they round or shift the discarded part before the random
  bits are added; only StochasticFastest is the integer rule (with 8 bits: with 32 its float64 sum rounds);
* our `rnz` and `rnu`, which it does not have;
* NaN to formats without one, which it refuses;
* the sign and payload of a NaN code: it has one NaN for each format, so NaN codes count as equal;
* int8 below -127/64: it rounds to the code 80 (-2), the model stops at 81 unless the profile says otherwise;
* e8m0: negative numbers, and what lies between zero and 2**-127, for which it gives codes beyond 8 bits;
* ue4m3, which it does not have.
"""

from __future__ import annotations

from typing import Any

import gfloat
import numpy as np
import numpy.typing as npt
import pytest
from gfloat import RoundMode, formats

import mxspec
from mxspec.formats import ELEMENTS, get_scalar
from mxspec.rounding import Rounding

from tests.cuda_headers import STICKY, all_of, directed_float32
from tests.support import Array, Codes, Float32s, assert_same, bits_of, seed

FORMATS: dict[str, Any] = {name: getattr(formats, f"format_info_ocp_{name}") for name in (*ELEMENTS, "e8m0")}
MODES = {
    Rounding.RTZ: RoundMode.TowardZero,
    Rounding.RTN: RoundMode.TowardNegative,
    Rounding.RTP: RoundMode.TowardPositive,
    Rounding.RNE: RoundMode.TiesToEven,
    Rounding.RNA: RoundMode.TiesToAway,
}
#: (format, whether it saturates); formats without Inf and NaN always do.
CASES = [(name, s) for name in FORMATS for s in (True, False) if s or get_scalar(name).nan_code is not None]


def inputs(name: str) -> Float32s:
    """All bfloat16 and float16 numbers, the format's values and midpoints with their neighbours, a sticky net."""
    upper = np.arange(0, 1 << 16, 7, dtype=np.uint32) << np.uint32(16)
    net = (upper[:, np.newaxis] | np.array(STICKY, np.uint32)).ravel().view(np.float32)
    narrow = [all_of(d).astype(np.float32) for d in ("bfloat16", "float16")]
    x: Float32s = np.concatenate([*narrow, directed_float32(name), net])
    return keep(x, name)


def keep(x: Float32s, name: str) -> Float32s:
    """The inputs that are compared."""
    wanted = np.ones(x.shape, np.bool_)
    if get_scalar(name).nan_code is None:
        wanted &= ~np.isnan(x)
    if name == "int8":
        wanted &= ~(x < -127 / 64)
    if name == "e8m0":
        wanted &= ~(x < 2.0**-127) | (x == 0)
    return x[wanted]


def gfloat_codes(x: Float32s, name: str, mode: RoundMode, **options: Any) -> Codes:
    """gfloat's codes of float32 numbers."""
    info = FORMATS[name]
    with np.errstate(all="ignore"):
        rounded = gfloat.round_ndarray(info, x.astype(np.float64), mode, **options)
        codes: npt.NDArray[Any] = gfloat.encode_ndarray(info, rounded)
    return codes.astype(np.uint8)


def assert_codes(x: Array, ours: Codes, theirs: Codes, name: str) -> None:
    values = mxspec.decode(np.arange(get_scalar(name).code_count, dtype=np.uint32).astype(np.uint8), name)
    both_nan = np.isnan(values[ours]) & np.isnan(values[theirs])
    assert_same(np.where(both_nan, theirs, ours), theirs, lambda i: f"float32 {int(bits_of(x)[i]):#x}")


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize(("name", "saturates"), CASES)
def test_encode(name: str, saturates: bool, rounding: Rounding) -> None:
    x = inputs(name)
    assert x.size > 90_000
    ours = mxspec.encode(x, name, rounding=rounding, overflow="saturate" if saturates else "own", sign="ignore")
    assert_codes(x, ours, gfloat_codes(x, name, MODES[rounding], sat=saturates), name)


@pytest.mark.parametrize(("name", "saturates"), CASES)
def test_stochastic_rounding_is_the_fastest_one(name: str, saturates: bool) -> None:
    x = inputs(name)
    x = x[np.isfinite(x)]
    words = np.random.default_rng(seed()).integers(0, 256, x.shape).astype(np.uint32)
    words[::5], words[1::5] = 0, 255
    ours = mxspec.encode(
        x, name, rounding="sr", overflow="saturate" if saturates else "own", random_bits=words, sr_bits=8,
        sign="ignore",
    )  # fmt: skip
    theirs = gfloat_codes(x, name, RoundMode.StochasticFastest, sat=saturates, srbits=words.astype(np.int64), srnumbits=8)
    assert_codes(x, ours, theirs, name)


@pytest.mark.parametrize("name", FORMATS)
def test_decode(name: str) -> None:
    codes = np.arange(get_scalar(name).code_count, dtype=np.uint32).astype(np.uint8)
    theirs = gfloat.decode_ndarray(FORMATS[name], codes.astype(np.int64)).astype(np.float32)
    ours = mxspec.decode(codes, name)
    missing = np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), missing)
    assert_same(ours[~missing], theirs[~missing])


def test_the_exclusions_are_needed() -> None:
    below = np.array([-1.9921876, -2.0], np.float32)
    assert gfloat_codes(below, "int8", RoundMode.TiesToEven, sat=True).tolist() == [0x80, 0x80]
    assert mxspec.encode(below, "int8").tolist() == [0x81, 0x81]
    info = FORMATS["e8m0"]
    for lost in (-1.0, 2.0**-128, 2.0**-130):
        rounded = gfloat.round_ndarray(info, np.array([lost]), RoundMode.TiesToEven, sat=True)
        assert int(gfloat.encode_ndarray(info, rounded)[0]) > 0xFF
    with pytest.raises(ValueError, match="No NaN in format"):
        gfloat.round_float(FORMATS["e2m1"], float("nan"))
    with pytest.raises(AssertionError):
        gfloat_codes(np.array([np.nan], np.float32), "e2m1", RoundMode.TiesToEven, sat=True)
