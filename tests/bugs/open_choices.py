"""Targets that take one of several answers that OCP MX leaves open."""

from __future__ import annotations

import numpy as np

import mxspec
from mxspec.formats import BLOCKS

from tests.bugs.building import Answer, Array, BlockFunction, given, is_zero, make, model, on_blocks, scaled
from tests.bugs.entry import Entry, Kind


def any_codes_of_nan_blocks(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[np.isnan(x).any(axis=1)] = np.arange(32) % BLOCKS[fmt].element.code_count
    return codes, scales


def nan_lane_alone(x: Array, fmt: str) -> Answer:
    nan = np.isnan(x)
    codes, scales = model(np.where(nan, np.float32(0), x), fmt)
    return np.where(nan, np.uint8(0xFF), codes), scales


def inf_block_ff(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    scales[np.isinf(x).any(axis=1)] = 255
    return codes, scales


def inf_as_2_to_the_128(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    element = BLOCKS[fmt].element
    infinite = np.isinf(x).any(axis=1) & ~np.isnan(x).any(axis=1)
    scales[infinite] = 255 - element.emax
    codes[infinite] = mxspec.encode(scaled(x, scales)[infinite].astype(np.float32), element)
    return codes, scales


def inf_lane_inf(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    lanes = np.isinf(x) & (scales < 255)[:, None]
    codes[lanes] = codes[lanes] & 0x80 | 0x7C
    return codes, scales


def any_scale_of_zeros(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    zero = is_zero(x)
    scales[zero] = np.arange(zero.sum()) * 7 % 255
    return codes, scales


def _nan_lanes(x: Array, fmt: str) -> tuple[Array, Array, Array]:
    """Flags of the NaN lanes, and codes and scales of the others."""
    nan = np.isnan(x)
    return (nan, *model(np.where(nan, np.float32(0), x), fmt))


def nan_lanes_to_largest(x: Array, fmt: str) -> Answer:
    nan, codes, scales = _nan_lanes(x, fmt)
    return np.where(nan, np.uint8(BLOCKS[fmt].element.max_code), codes), scales


def nan_lanes_to_zero(x: Array, fmt: str) -> Answer:
    _, codes, scales = _nan_lanes(x, fmt)
    return codes, scales


def nan_blocks_to_zeros(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    lost = np.isnan(x).any(axis=1)
    codes[lost], scales[lost] = 0, 0x7C
    return codes, scales


def inf_as_the_largest_float(x: Array, fmt: str) -> Answer:
    return model(np.where(np.isinf(x), np.copysign(np.finfo(np.float32).max, x), x).astype(np.float32), fmt)


def inf_by_the_finite_lanes(x: Array, fmt: str) -> Answer:
    element, infinite = BLOCKS[fmt].element, np.isinf(x) & ~np.isnan(x).any(axis=1, keepdims=True)
    codes, scales = model(np.where(infinite, np.float32(0), x), fmt)
    largest = [element.join(sign, element.max_code) for sign in (0, 1)]
    return np.where(infinite, np.where(np.signbit(x), np.uint8(largest[1]), np.uint8(largest[0])), codes), scales


def no_negative_zero(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[codes == BLOCKS[fmt].element.sign_bit] = 0
    return codes, scales


def smallest_scale_01(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    low = (scales == 0) & ~is_zero(x)
    scales[low] = 1
    codes[low] = given(x, scales, fmt)[low]
    return codes, scales


def low_end_to_zeros(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[scales == 0] = 0
    return codes, scales


def zeros_under(byte: int) -> BlockFunction:
    """Blocks of zeros under a scale byte."""

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = model(x, fmt)
        scales[is_zero(x)] = byte
        return codes, scales

    return quantize


def _entry(id_: str, what: str, function: BlockFunction, *formats: str) -> Entry:
    return Entry(id=id_, what=what, formats=formats, target=lambda: make(formats, quantize=on_blocks(function)), kind=Kind.OPEN)  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    _entry("NaN block FF with any codes", "codes under scale FF are a pattern", any_codes_of_nan_blocks, "mxfp4", "mxfp8_e4m3", "mxint8"),
    _entry("fp8: the NaN lane alone", "the block is quantized as if its NaN were zeros; those lanes are NaN", nan_lane_alone, "mxfp8_e4m3", "mxfp8_e5m2"),
    _entry("Inf block FF", "a block with an infinity is NaN", inf_block_ff, "mxfp4", "mxfp8_e5m2"),
    _entry("Inf by the exponent of 2**128", "an infinity has the scale that 2^128 would have", inf_as_2_to_the_128, "mxfp4", "mxfp6_e3m2", "mxfp8_e4m3"),
    _entry("e5m2: the lane Inf", "an infinite lane keeps its infinity", inf_lane_inf, "mxfp8_e5m2"),
    _entry("NaN lanes to the largest", "NaN lanes are the largest value under the scale of the others, as satfinite conversions give", nan_lanes_to_largest, "mxfp4", "mxfp6_e3m2", "mxint8"),
    _entry("NaN lanes to zero", "NaN lanes are zeros under the scale of the others", nan_lanes_to_zero, "mxfp4", "mxfp6_e2m3", "mxint8", "nvfp4"),
    _entry("NaN blocks to zeros", "a block with a NaN becomes zeros under one scale", nan_blocks_to_zeros, "mxfp4", "mxint8"),
    _entry("Inf as the largest float", "infinities are clamped to the largest float32 first", inf_as_the_largest_float, "mxfp4", "mxfp8_e4m3", "mxint8"),
    _entry("Inf by the finite lanes", "the scale is that of the finite lanes; infinities become the largest value", inf_by_the_finite_lanes, "mxfp4", "mxfp8_e5m2", "mxint8", "nvfp4"),
    _entry("no negative zero", "the sign of zero is dropped", no_negative_zero, "mxfp4", "mxfp8_e5m2", "nvfp4"),
    _entry("smallest scale 01", "2^-126 is the smallest scale", smallest_scale_01, "mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxint8"),
    _entry("low end to zeros", "blocks that only the smallest scale fits become zeros", low_end_to_zeros, "mxfp4", "mxfp8_e5m2", "mxint8"),
    _entry("NVFP4 zeros under 38", "a block of zeros has scale 1", zeros_under(0x38), "nvfp4"),
    _entry("NVFP4 zeros under 08", "a block of zeros has the smallest normal scale", zeros_under(0x08), "nvfp4"),
    _entry("any scale for zeros", "a block of zeros has any scale but NaN", any_scale_of_zeros, "mxfp4", "mxfp8_e4m3"),
)  # fmt: skip
