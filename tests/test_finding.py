"""Codes and scales that are found of values: every value of the model's has them, and no other number does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec.finding import find_codes
from mxspec.profiles.schema import Kind

FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")


def draw(fmt: str, low: int = -8, high: int = 6, rows: int = 256) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(3)
    x = random.standard_normal((rows, mxspec.get_block(fmt).k)) * np.exp2(random.integers(low, high, (rows, 1)))
    return x.astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("fmt", FORMATS)
def test_values_of_every_normative_profile_come_back(fmt: str, dtype: Any) -> None:
    x = draw(fmt)
    for profile in (p for p in mxspec.list_profiles(fmt) if p.kind is Kind.NORMATIVE):
        t = mxspec.quantize(x, fmt, profile=profile)
        values = mxspec.dequantize(t).astype(dtype)
        for found in (find_codes(values, fmt, scales=t.scales), find_codes(values, fmt, x=x, expected=(t.codes, t.scales))):
            assert np.array_equal(found.codes, t.codes)
            assert np.array_equal(found.scales, t.scales)
            assert not found.unexplained.any()
        alone = find_codes(values, fmt)  # another scale may explain them as well
        again = mxspec.dequantize(alone.codes, alone.scales, fmt).astype(dtype)
        assert again.tobytes() == values.tobytes()
        assert not alone.unexplained.any()


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_scale_is_the_one_under_which_nothing_is_misrounded(fmt: str) -> None:
    x = draw(fmt)
    t = mxspec.quantize(x, fmt)
    moved = t.scales + np.uint8(1)
    s = mxspec.quantize(x, fmt, scales=moved)
    found = find_codes(mxspec.dequantize(s), fmt, x=x, expected=(t.codes, t.scales))
    assert not found.misrounded.any()
    if fmt in ("mxfp4", "mxint8"):  # numbers of the others are nearest under several scales
        assert (found.scales == moved).mean() > 0.9


def test_an_expected_scale_is_trusted_as_far_as_it_is_said() -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, 0] = 3.5  # 3 by ties toward zero; or, under half the scale, the largest number
    values = np.where(x == 3.5, np.float32(3), x)
    expected = np.zeros((1, 32), np.uint8), np.full((1, 1), 127, np.uint8)
    assert [int(find_codes(values, "mxfp4", x=x, expected=expected, trust=n).scales[0, 0]) for n in (0, 1, 32)] == [126, 127, 127]
    x[0, 0] = 4.0  # no rounding of 4 gives 3
    assert [int(find_codes(values, "mxfp4", x=x, expected=expected, trust=n).scales[0, 0]) for n in (0, 1, 32)] == [126, 126, 127]


@pytest.mark.parametrize("value", [0.3, 5.0, 6.5, 1e-30, np.inf, np.nan])
def test_a_value_that_is_no_product_is_shown(value: float) -> None:
    values = np.zeros((1, 32), np.float32)
    values[0, :8] = [0.5, 1, 1.5, 2, 3, 4, 6, value]
    found = find_codes(values, "mxfp4")
    assert np.flatnonzero((found.unexplained != 0)[0]).tolist() == [7]


def test_blocks_of_nan_and_of_zeros() -> None:
    values = np.stack([np.full(32, np.nan, np.float32), np.zeros(32, np.float32), np.full(32, -0.0, np.float32)])
    found = find_codes(values, "mxfp8_e4m3")
    assert found.scales[0, 0] == 0xFF
    assert found.scales[1, 0] != 0xFF
    assert found.codes[2].tolist() == [0x80] * 32
    assert not found.unexplained.any()


def test_infinity_is_the_number_that_overflows() -> None:
    x = np.full((1, 32), 3.4e38, np.float32)
    found = find_codes(np.full((1, 32), np.inf, np.float32), "mxfp4", x=x)
    assert found.scales[0, 0] in (0xFD, 0xFE)
    assert not found.misrounded.any()


def test_a_tensor_scale_multiplies_in_either_order() -> None:
    x = draw("nvfp4", 0, 4)
    t = mxspec.quantize(x, "nvfp4", profile="nvfp4-exact", tensor_scale=mxspec.TensorScale("decode", 0.37))
    q, s = mxspec.decode(t.codes, "e2m1"), np.repeat(mxspec.decode(t.scales, "ue4m3"), 16, axis=1)
    for values in (q * s * np.float32(0.37), q * (s * np.float32(0.37))):
        assert np.array_equal(find_codes(values, "nvfp4", scales=t.scales, tensor_scale=0.37).codes, t.codes)


def test_what_has_no_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="whole blocks of 32"):
        find_codes(np.zeros((1, 33), np.float32), "mxfp4")
