"""Bugs in single elements: rounding, overflow, signs, codes, random bits."""

from __future__ import annotations

from functools import partial

import numpy as np

import mxspec
from mxspec.formats import BLOCKS

from tests.bugs.building import Answer, Array, BlockFunction, is_ordinary, make, model, on_blocks, right, scaled
from tests.bugs.entry import Entry


def overflow_to_nan(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[(np.abs(scaled(x, scales)) > 464) & np.isfinite(x)] |= 0x7F
    return codes, scales


def clamped_to_224(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    large = ((codes & 0x7F) > 0x76) & np.isfinite(x) & (scales < 255)[:, None]
    codes[large] = codes[large] & 0x80 | 0x76
    return codes, scales


def one_tie_of_one_sign(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[scaled(x, scales) == -5] = 0xF
    return codes, scales


def underflow_without_sign(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[(codes == 0x20) & (x != 0)] = 0
    return codes, scales


def int8_lowest_too_early(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[(scaled(x, scales) * 64 < -127) & (scales < 255)[:, None]] = 0x80
    return codes, scales


def int8_half_up_in_float32(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    steps = (scaled(x, scales) * 64).astype(np.float32)
    whole = np.copysign(np.floor(np.abs(steps) + np.float32(0.5)), steps)
    ordinary = is_ordinary(x)
    codes[ordinary] = np.clip(whole, -127, 127)[ordinary].astype(np.int64).astype(np.uint8)
    return codes, scales


def nan_in_the_first_half(x: Array, fmt: str) -> Answer:
    seen = x.copy()
    seen[:, 16:][np.isnan(x[:, 16:])] = 0
    return model(seen, fmt)


def nan_of_upper_lanes_lost(x: Array, fmt: str) -> Answer:
    seen = x.copy()
    seen[:, 16:][np.isnan(x[:, 16:])] = 0
    return model(seen, fmt)


def negative_nan_lost(x: Array, fmt: str) -> Answer:
    return model(np.where(np.isnan(x) & np.signbit(x), np.float32(0), x), fmt)


def positive_zeros_made_negative(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    codes[codes == 0] = BLOCKS[fmt].element.sign_bit
    return codes, scales


def sign_extended(x: Array, fmt: str) -> Answer:
    codes, scales = model(np.nan_to_num(x, nan=-1, posinf=1, neginf=-1), fmt)
    return np.where(codes & 8, codes | 0xF0, codes), scales


def bits_beyond_the_code(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    return codes | 0xF0, scales


def otherwise_in_bfloat16(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    if x.dtype != np.float32:
        codes[(codes & 7) == 7] -= 1
    return codes, scales


def int8_81_as_80(x: Array, element: str) -> Array:
    codes = mxspec.encode(x, element)
    codes[codes == 0x81] = 0x80
    return codes


def by_masked_bits(mask: int, x: Array, element: str, random_bits: Array) -> Array:
    return mxspec.encode(x, element, rounding="sr", random_bits=random_bits & np.uint32(mask))


def _blocks(id_: str, what: str, fmt: str, function: BlockFunction, *must: str) -> Entry:
    return Entry(
        id=id_, what=what, formats=(fmt,), target=lambda: make([fmt], quantize=on_blocks(function)), must_fail=must
    )  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    _blocks("P07 e4m3 overflows to NaN", "what rounds beyond 448 becomes NaN", "mxfp8_e4m3", overflow_to_nan, "quantize/overflow"),
    _blocks("P09 clamped to 224", "finite elements end at 224", "mxfp8_e4m3", clamped_to_224, "quantize/above-tie,below-tie,exact,mixture,overflow,tie-even"),
    _blocks("one tie of one sign", "of all ties the one at -5 alone goes away from zero", "mxfp4", one_tie_of_one_sign, "quantize/tie-even"),
    _blocks("underflow loses its sign", "negative numbers that round to zero give +0", "mxfp6_e3m2", underflow_without_sign, "quantize/zero-sign"),
    _blocks("int8 goes to 80 too early", "all below -127/64 becomes -2", "mxint8", int8_lowest_too_early, "quantize/overflow"),
    _blocks("int8 half up in float32", "floor(steps + 0.5) in float32", "mxint8", int8_half_up_in_float32, "quantize/below-tie,tie-even"),
    _blocks("NaN found in the first half only", "NaN in lanes 16 to 31 counts as zero", "mxfp8_e4m3", nan_in_the_first_half, "quantize/choice,nan,position"),
    _blocks("NaN of the upper lanes lost", "NaN in lanes 16 to 31 counts as zero, where NaN may be lost, but not here and there", "mxfp4", nan_of_upper_lanes_lost, "quantize/nan,choice,position"),
    _blocks("negative NaN lost", "a NaN whose sign bit is set counts as zero", "mxfp6_e3m2", negative_nan_lost, "quantize/nan,choice"),
    _blocks("positive zeros made negative", "zeros are negative, whatever the input's sign", "mxfp4", positive_zeros_made_negative, "quantize/choice,zero-sign"),
    _blocks("sign-extended codes", "the upper half of the byte of a negative code is set, in NaN blocks under a finite scale too", "mxfp4", sign_extended, "quantize/mixture"),
    _blocks("codes with bits beyond their width", "the upper half of each byte is set", "mxfp4", bits_beyond_the_code, "quantize/mixture"),
    Entry(
        id="bfloat16 goes another way", what="in bfloat16 the largest code is never written", formats=("mxfp4",),
        target=lambda: make(["mxfp4"], DTYPES=["float32", "bfloat16"], quantize=otherwise_in_bfloat16),
        must_fail=("quantize/exact,inf,mixture,overflow",), may_fail=("quantize/refusal",),
    ),
    Entry(
        id="int8 81 is encoded as 80", what="-127/64 is encoded as -2", formats=("int8",),
        target=lambda: make(["mxint8"], encode=int8_81_as_80), must_fail=("encode/above-tie,exact,overflow",),
    ),
    Entry(
        id="31 random bits", what="the lowest random bit is ignored", formats=("e2m1",),
        target=lambda: make(["mxfp4"], encode_stochastic=partial(by_masked_bits, 0xFFFFFFFE)), must_fail=("stochastic/random-bits",),
    ),
    Entry(
        id="24 random bits", what="the lowest eight random bits are ignored", formats=("e4m3",),
        target=lambda: make(["mxfp8_e4m3"], encode_stochastic=partial(by_masked_bits, 0xFFFFFF00)), must_fail=("stochastic/random-bits",),
    ),
)  # fmt: skip
