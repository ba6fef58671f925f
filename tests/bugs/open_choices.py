"""Targets that take one of several answers that OCP MX leaves open."""

from __future__ import annotations

import numpy as np

import mxspec
from mxspec.formats import BLOCKS

from tests.bugs.building import Answer, Array, BlockFunction, is_zero, make, model, on_blocks, scaled
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


def _entry(id_: str, what: str, function: BlockFunction, *formats: str) -> Entry:
    return Entry(id=id_, what=what, formats=formats, target=lambda: make(formats, quantize=on_blocks(function)), kind=Kind.OPEN)  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    _entry("NaN block FF with any codes", "codes under scale FF are a pattern", any_codes_of_nan_blocks, "mxfp4", "mxfp8_e4m3", "mxint8"),
    _entry("fp8: the NaN lane alone", "the block is quantized as if its NaN were zeros; those lanes are NaN", nan_lane_alone, "mxfp8_e4m3", "mxfp8_e5m2"),
    _entry("Inf block FF", "a block with an infinity is NaN", inf_block_ff, "mxfp4", "mxfp8_e5m2"),
    _entry("Inf by the exponent of 2**128", "an infinity has the scale that 2^128 would have", inf_as_2_to_the_128, "mxfp4", "mxfp6_e3m2", "mxfp8_e4m3"),
    _entry("e5m2: the lane Inf", "an infinite lane keeps its infinity", inf_lane_inf, "mxfp8_e5m2"),
    _entry("any scale for zeros", "a block of zeros has any scale but NaN", any_scale_of_zeros, "mxfp4", "mxfp8_e4m3"),
)  # fmt: skip
