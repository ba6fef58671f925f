"""Bugs in what codes and scale bytes mean."""

from __future__ import annotations

from typing import Any

import numpy as np

import mxspec
from mxspec_conformance.results.report import Verdict

from tests.bugs.building import Array, by_amax, make, right_values
from tests.bugs.entry import Entry


def byte_0_is_zero(codes: Array, scales: Array, fmt: str) -> Array:
    return np.where(np.repeat(scales == 0, 32, axis=1), np.float32(0), right_values(codes, scales, fmt))


def byte_ff_is_infinity(codes: Array, scales: Array, fmt: str) -> Array:
    values = right_values(codes, scales, fmt)
    values[np.repeat(scales == 255, 32, axis=1)] = np.inf
    return values


def byte_fe_halved(codes: Array, scales: Array, fmt: str) -> Array:
    values = right_values(codes, scales, fmt)
    values[np.repeat(scales == 254, 32, axis=1)] *= np.float32(0.5)
    return values


def int8_unsigned(codes: Array, element: str) -> Array:
    return codes.astype(np.float32) / 64


def byte_38_doubled(codes: Array, scales: Array, fmt: str, tensor_scale: float) -> Array:
    with np.errstate(all="ignore"):
        values = mxspec.dequantize(codes, scales, fmt, tensor_scale=by_amax(tensor_scale))
        return np.where(np.repeat(scales == 0x38, 16, axis=1), np.float32(2) * values, values)


def _entry(
    id_: str, what: str, fmt: str, *must: str, may: tuple[str, ...] = (), verdicts: tuple[Verdict, ...] = (Verdict.FAIL,), **members: Any
) -> Entry:  # fmt: skip
    return Entry(
        id=id_, what=what, formats=(fmt,), target=lambda: make([fmt], **members), must_fail=must, may_fail=may, verdicts=verdicts
    )  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    _entry("P29 byte 0 is zero", "scale byte 00 is 0", "mxfp4", "dequantize/scale-code", "dequantize/zero-sign", verdicts=(Verdict.FAIL, Verdict.DEVIATION), dequantize=byte_0_is_zero),
    _entry("P30 byte FF is infinity", "under scale byte FF all is +Inf", "mxfp4", "dequantize/scale-code", dequantize=byte_ff_is_infinity),
    _entry("one scale byte decodes wrong", "under scale byte FE values are half as large", "mxfp6_e2m3", "dequantize/scale-code", dequantize=byte_fe_halved),
    _entry("P65 int8 unsigned", "codes from 80 on are positive", "mxint8", "decode/int8/code", decode=int8_unsigned),
    _entry("a wrong scale byte under tensor scales", "under scale byte 38 values are twice as large", "nvfp4", "dequantize/scale-code", TENSOR_SCALE="amax", dequantize=byte_38_doubled),
)  # fmt: skip
