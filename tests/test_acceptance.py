"""What is legal in addition to the canonical answer: the table of the architecture, row by row, and what is not in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mxspec
from mxspec.acceptance import LegalRow, exact_row, legal_rows, with_any_codes
from mxspec.elements import decode_table
from mxspec.formats import BLOCKS
from mxspec.profiles import Kind, get_profile, list_profiles

from tests.strategies import blocks
from tests.support import Codes, Float32s, floats, rng

MX = [f for f in sorted(BLOCKS) if f != "nvfp4"]
NORMATIVE_MX = ["mx-floor", "mx-rceil", "mx-even", "mx-ceil"]
K = 32


def answers(x: Float32s, fmt: str, profile: str = "mx-floor", **options: Any) -> tuple[tuple[LegalRow, ...], int, Codes]:
    """Legal rows of a block, and the canonical scale and codes."""
    result = mxspec.quantize(x, fmt, profile=profile, **options)
    scale = int(result.scales[0])
    return legal_rows(x, BLOCKS[fmt], get_profile(profile, fmt), scale, result.codes), scale, result.codes


def accepted(rows: tuple[LegalRow, ...], scale: int, codes: Codes, fmt: str) -> bool:
    """Whether some row matches a returned block."""
    element = BLOCKS[fmt].element
    is_nan = np.array([c < element.code_count and element.is_nan(c) for c in range(256)])
    return any(row.matches(scale, codes, is_nan) for row in rows)


def ordinary() -> Float32s:
    return np.resize(np.array([1, -2, 1.5, 0, -0.0, 3, 0.25], np.float32), K)


@pytest.mark.parametrize("fmt", MX)
@pytest.mark.parametrize("profile", NORMATIVE_MX)
def test_ordinary_blocks_have_one_answer(fmt: str, profile: str) -> None:
    rows, scale, codes = answers(ordinary(), fmt, profile)
    assert rows == (exact_row(scale, codes),)
    assert accepted(rows, scale, codes, fmt)
    assert not accepted(rows, scale + 1, codes, fmt)
    assert not accepted(rows, scale - 1, codes, fmt)
    for lane in (0, K - 1):
        other = codes.copy()
        other[lane] ^= 1
        assert not accepted(rows, scale, other, fmt)


@pytest.mark.parametrize("fmt", sorted(BLOCKS))
@given(data=st.data())
def test_the_canonical_answer_is_first_and_accepted(fmt: str, data: st.DataObject) -> None:
    x = data.draw(blocks(fmt))
    profile = data.draw(st.sampled_from([p.id for p in list_profiles(fmt, kind=Kind.NORMATIVE)]))
    rows, scale, codes = answers(x, fmt, profile)
    assert rows[0] == exact_row(scale, codes)
    assert accepted(rows[:1], scale, codes, fmt)
    assert len(set(rows)) == len(rows)
    if np.isfinite(x).all() and x.any() and fmt != "mxint8":
        assert len(rows) == 1
    for row in rows:
        assert len(row.codes) == len(row.mask) == len(x)
        assert 0 <= row.scale <= row.scale_max <= 0xFF


@pytest.mark.parametrize("fmt", MX)
@pytest.mark.parametrize("nan", [0x7FC00000, 0xFFC00000, 0x7F800001])
def test_nan_blocks(fmt: str, nan: int) -> None:
    """FF with any codes; for fp8 also the block quantized without the lane, the lane any NaN."""
    x = ordinary()
    x[5] = floats([nan])[0]
    rows, scale, codes = answers(x, fmt)
    assert scale == 0xFF
    assert not codes.any()
    draw = rng("legal nan", fmt)
    element = BLOCKS[fmt].element
    anything = np.array([draw.randrange(element.code_count) for _ in range(K)], np.uint8)
    assert accepted(rows, 0xFF, anything, fmt)
    assert not accepted(rows, 0xFE, anything, fmt)
    without = x.copy()
    without[5] = 0
    kept = mxspec.quantize(without, fmt)
    lane = kept.codes.copy()
    if element.nan_code is None:
        assert not accepted(rows, int(kept.scales[0]), lane, fmt)
        return
    for code in range(256):
        lane[5] = code
        assert accepted(rows, int(kept.scales[0]), lane, fmt) == element.is_nan(code)
        assert not accepted(rows, int(kept.scales[0]) + 1, lane, fmt)
    lane[5] = element.nan_code
    lane[0] ^= 1
    assert not accepted(rows, int(kept.scales[0]), lane, fmt)


@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "mxfp8_e5m2"])
@pytest.mark.parametrize("profile", NORMATIVE_MX)
def test_fp8_lanes_next_to_a_nan_follow_the_profile(fmt: str, profile: str) -> None:
    """The block without its NaN lanes has the scale that this profile gives it, Inf and several NaN included."""
    x = ordinary()
    x[[3, 7]] = np.nan
    x[1] = 1.999
    rows, _, _ = answers(x, fmt, profile)
    kept = np.where(np.isnan(x), np.float32(0), x)
    result = mxspec.quantize(kept, fmt, profile=profile)
    codes = result.codes.copy()
    codes[3], codes[7] = 0x7F, 0xFF
    assert accepted(rows, int(result.scales[0]), codes, fmt)
    codes[7] = 0x00
    assert not accepted(rows, int(result.scales[0]), codes, fmt)


@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "mxfp8_e5m2"])
def test_what_is_open_without_nan_lanes_is_open_next_to_them(fmt: str) -> None:
    """Zeros next to a NaN have any scale but FF; an Inf next to one has each of its own answers."""
    x = np.zeros(K, np.float32)
    x[6] = np.nan
    codes = np.zeros(K, np.uint8)
    rows, _, _ = answers(x, fmt)
    for scale in (0x00, 0x7F, 0xFE):
        assert not accepted(rows, scale, codes, fmt)
        codes[6] = 0xFF
        assert accepted(rows, scale, codes, fmt)
        codes[6] = 0x00
    codes[[0, 6]] = 1, 0xFF
    assert not accepted(rows, 0x7F, codes, fmt)
    infinite = ordinary()
    infinite[2] = -np.inf
    both = infinite.copy()
    both[6] = np.nan
    rows, _, _ = answers(both, fmt)
    for row in answers(infinite, fmt)[0]:
        returned = np.array(row.codes, np.uint8)
        returned[6] = 0x7F
        assert accepted(rows, row.scale, returned, fmt)
        returned[2] ^= 0x80
        assert accepted(rows, row.scale, returned, fmt) == (row.scale == 0xFF)


@pytest.mark.parametrize("fmt", MX)
def test_infinite_blocks(fmt: str) -> None:
    """FE with the signed maximum; FF with any codes; 255 - emax with the maximum; e5m2 lanes Inf."""
    x = ordinary()
    x[2], x[9] = np.inf, -np.inf
    x[4] = 2.0**126
    rows, scale, codes = answers(x, fmt)
    element = BLOCKS[fmt].element
    largest = (element.max_code, element.join(1, element.max_code))
    assert scale == 0xFE
    assert (codes[2], codes[9]) == largest
    assert accepted(rows, 0xFF, np.zeros(K, np.uint8), fmt)
    assert not accepted(rows, 0xFD, codes, fmt)
    lower = min(255 - element.emax, 0xFE)
    scaled = np.clip(x.astype(np.float64) / 2.0 ** (lower - 127), -1e30, 1e30).astype(np.float32)
    at_lower = mxspec.encode(scaled, element)
    assert accepted(rows, lower, at_lower, fmt)
    wrong = codes.copy()
    wrong[2] = 0
    assert not accepted(rows, 0xFE, wrong, fmt)
    swapped = codes.copy()
    swapped[[2, 9]] = swapped[[9, 2]]
    assert not accepted(rows, 0xFE, swapped, fmt)
    with_inf = codes.copy()
    with_inf[2], with_inf[9] = 0x7C, 0xFC
    assert accepted(rows, 0xFE, with_inf, fmt) == (fmt == "mxfp8_e5m2")
    others = {row.scale for row in rows}
    assert others == {0xFE, 0xFF, lower}


@pytest.mark.parametrize("fmt", MX)
def test_zero_blocks(fmt: str) -> None:
    """Any scale but NaN's with zero codes; signs are a requirement of their own."""
    x = np.resize(np.array([0.0, -0.0], np.float32), K)
    rows, scale, codes = answers(x, fmt)
    assert scale == 0
    element = BLOCKS[fmt].element
    zeros, flipped = np.zeros(K, np.uint8), codes[::-1].copy()
    for byte in (0x00, 0x01, 0x7F, 0xFE):
        assert accepted(rows, byte, zeros, fmt)
        assert accepted(rows, byte, flipped, fmt)
    assert not accepted(rows, 0xFF, zeros, fmt)
    one = zeros.copy()
    one[3] = 1
    assert not accepted(rows, 0x00, one, fmt)
    if element.twos_complement:
        one[3] = 0x80
        assert not accepted(rows, 0x00, one, fmt)


def test_int8_lowest() -> None:
    """80 where the scaled value is -127.5/64 or below, and only there."""
    x = np.zeros(K, np.float32)
    x[:6] = np.array([-1.9999, -127.5 / 64, -127.4 / 64, 1.9999, -1, 127.5 / 64], np.float32)
    rows, scale, codes = answers(x, "mxint8")
    assert scale == 127
    assert codes[:4].tolist() == [0x81, 0x81, 0x81, 0x7F]
    for lanes, fine in (((0,), False), ((0, 1), True), ((0, 1, 2), False), ((3,), False), ((4,), False)):
        other = codes.copy()
        other[list(lanes)] = 0x80
        assert accepted(rows, scale, other, "mxint8") is fine
    assert accepted(rows, scale, codes, "mxint8")
    assert len(rows) == 2
    symmetric = np.where(x < -1.98, np.float32(-1.5), x)
    assert len(answers(symmetric, "mxint8")[0]) == 1


def test_int8_lowest_next_to_infinities() -> None:
    """-Inf lies below -127.5/64 under any scale."""
    x = np.zeros(K, np.float32)
    x[:4] = [-np.inf, np.inf, -1, 1]
    rows, scale, codes = answers(x, "mxint8")
    assert scale == 0xFE
    other = codes.copy()
    for lane, fine in ((0, True), (1, False), (2, False)):
        other[:] = codes
        other[lane] = 0x80
        assert accepted(rows, scale, other, "mxint8") is fine


@pytest.mark.parametrize("profile", ["gguf-0.19/mxfp4", "torchao-0.18/mx/floor/eager", "microxcaling-7bc4195/mxfp/nearest"])
def test_descriptive_profiles_have_one_answer(profile: str) -> None:
    for special in (np.inf, np.nan, 0.0):
        x = ordinary()
        x[0] = special
        if special == 0:
            x[:] = 0
        rows, scale, codes = answers(x, "mxfp4", profile)
        assert rows == (exact_row(scale, codes),)


@pytest.mark.parametrize("profile", ["nvfp4-te", "nvfp4-paper"])
def test_nvfp4_has_one_answer(profile: str) -> None:
    for special in (np.inf, np.nan, 0.0, 1.0):
        x = np.zeros(16, np.float32)
        x[0] = special
        rows, scale, codes = answers(x, "nvfp4", profile)
        assert rows == (exact_row(scale, codes),)


def test_rows() -> None:
    codes = np.array([1, 2, 0x7F], np.uint8)
    is_nan = np.zeros(256, np.bool_)
    is_nan[0x7F] = True
    row = exact_row(5, codes)
    assert row == LegalRow(5, 5, (1, 2, 0x7F), (0xFF,) * 3)
    assert row.matches(5, codes, is_nan)
    assert not row.matches(4, codes, is_nan)
    anything = with_any_codes(0xFF, 3)
    assert anything.matches(0xFF, np.array([9, 9, 9], np.uint8), is_nan)
    assert not anything.matches(0xFE, codes, is_nan)
    ranged = LegalRow(3, 6, (0, 0, 0), (0x0F, 0x00, 0x00), nan_lanes=(2,))
    assert [ranged.matches(s, np.array([0xF0, 7, 0x7F], np.uint8), is_nan) for s in (2, 3, 6, 7)] == [False, True, True, False]
    assert not ranged.matches(4, np.array([0xF0, 7, 0x7E], np.uint8), is_nan)
    assert not ranged.matches(4, np.array([0x01, 7, 0x7F], np.uint8), is_nan)


@pytest.mark.parametrize("fmt", MX)
def test_every_legal_answer_decodes_to_something_defensible(fmt: str) -> None:
    """Answers with unmasked codes differ from the canonical one in value only for NaN and Inf."""
    element = BLOCKS[fmt].element
    for special in (None, 0.0):
        x = ordinary() if special is None else np.zeros(K, np.float32)
        rows, scale, codes = answers(x, fmt)
        canonical = decode_table(element)[codes] * decode_table(BLOCKS[fmt].scale)[scale]
        for row in rows:
            values = decode_table(element)[np.array(row.codes)] * decode_table(BLOCKS[fmt].scale)[row.scale]
            assert np.array_equal(values, canonical)
