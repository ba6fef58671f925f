"""Bugs in the block's scale, and in what is divided by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import mxspec
from mxspec import Rounding

from tests.bugs.building import Answer, Array, BlockFunction, by_amax, find_amax, given, make, model, on_blocks
from tests.bugs.entry import Entry


def amax_of_the_first_half(x: Array, fmt: str) -> Answer:
    half = x.copy()
    half[:, 16:][np.isfinite(x[:, 16:])] = 0
    scales = model(half, fmt)[1]
    return given(x, scales, fmt), scales


def amax_but_the_last_lane(x: Array, fmt: str) -> Answer:
    rest = x.copy()
    rest[:, 31][np.isfinite(x[:, 31])] = 0
    scales = model(rest, fmt)[1]
    return given(x, scales, fmt), scales


def one_block_with_twice_its_scale(x: Array, fmt: str) -> Answer:
    scales = model(x, fmt)[1]
    hit = (x[:, 0] == np.float32(5)) & (find_amax(x) == 5)
    scales[hit] += 1
    return given(x, scales, fmt), scales


def beside_powers_of_two(rule: str, ahead: int, count: int, step: int) -> BlockFunction:
    """Scales that are off where a maximum lies just below (ahead > 0) or above (< 0) a power of two.

    ahead: how many floats before the power that begins; count: for how many floats; step: what is added to the byte.
    """

    def quantize(x: Array, fmt: str) -> Answer:
        scales = model(x, fmt, rule)[1]
        bits = find_amax(x).view(np.uint32)
        beside = ((bits + np.uint32(ahead % 2**32)) & np.uint32(0x7FFFFF)) < count
        hit = beside & (bits >= 0x10000000) & (bits < 0x7F000000)
        scales[hit] = scales[hit] + np.uint8(step % 256)
        return given(x, scales, fmt), scales

    return quantize


def truncated_block_scale(x: Array, fmt: str) -> Answer:
    profile = mxspec.default_profile(fmt)
    assert profile.one_level is not None
    cut = replace(profile.one_level, scale=replace(profile.one_level.scale, rounding=Rounding.RTZ))
    t = mxspec.quantize(x, fmt, profile=replace(profile, one_level=cut))
    return t.codes, t.scales


def times_a_reciprocal(x: Array, fmt: str) -> Answer:
    t = mxspec.quantize(x, fmt)
    codes, values = t.codes.copy(), mxspec.decode(t.scales, "ue4m3")
    with np.errstate(all="ignore"):
        sixth = np.float32(1) / (values * np.float32(3))
        y = x * np.repeat(sixth, 16, axis=1) * np.float32(3)
    usual = np.isfinite(y) & np.isfinite(x)
    codes[usual] = mxspec.encode(y[usual].astype(np.float32), "e2m1")
    return codes, t.scales


def tiles_row_by_row(x: Array, fmt: str, tensor_scale: float | None = None, block: tuple[int, int] | None = None) -> Answer:
    t = mxspec.quantize(x, fmt, tensor_scale=None if tensor_scale is None else by_amax(tensor_scale))
    return t.codes, t.scales


def _blocks(
    id_: str, what: str, function: BlockFunction, *must: str, may: tuple[str, ...] = (), formats: tuple[str, ...] = ("mxfp4",)
) -> Entry:  # fmt: skip
    return Entry(
        id=id_, what=what, formats=formats, target=lambda: make(formats, quantize=on_blocks(function)), must_fail=must, may_fail=may
    )  # fmt: skip


def _nvfp4(id_: str, what: str, *must: str, may: tuple[str, ...] = (), **members: Any) -> Entry:
    return Entry(id=id_, what=what, formats=("nvfp4",), target=lambda: make(["nvfp4"], **members), must_fail=must, may_fail=may)  # fmt: skip


#: Near powers of two: id -> what, (rule, ahead, count, step), what the judge calls it.
FLOAT_LOG2: dict[str, tuple[str, tuple[str, int, int, int], str | None]] = {
    "floor of a float log2": ("the float below a power of two gets the power's scale", ("mx-floor", 1, 1, 1), "floor"),
    "floor of a coarser log2": ("nine floats below a power of two get the power's scale", ("mx-floor", 9, 9, 1), "floor"),
    "ceil of a float log2": ("the float above a power of two gets the power's scale", ("mx-ceil", -1, 1, -1), "ceil"),
    "much of the binade is too high": ("the upper 5 % of each binade get the next scale", ("mx-floor", 0x60000, 0x60000, 1), None),
    "too low below powers of two": ("the float below a power of two gets half its scale", ("mx-floor", 1, 1, -1), None),
}  # fmt: skip

ENTRIES: tuple[Entry, ...] = (
    _blocks("P23 amax of the first half", "finite elements of the second half are left out of the maximum", amax_of_the_first_half, "quantize/position,scale-boundary,scale-clamp", "scale/scale-boundary", may=("quantize/inf,nan",)),
    _blocks("the last lane is not in the maximum", "finite elements of lane 31 are left out of the maximum", amax_but_the_last_lane, "quantize/position,scale-boundary", "scale/scale-boundary"),
    _blocks("one wrong scale byte", "one block of all gets twice its scale, its codes with it", one_block_with_twice_its_scale, "quantize/position"),
    *(
        _blocks(name, what, beside_powers_of_two(*how), "quantize/scale-boundary", "scale/scale-boundary", may=("quantize/scale-clamp",), formats=("mxfp4", "mxfp8_e5m2"))
        for name, (what, how, _) in FLOAT_LOG2.items()
    ),
    _nvfp4(
        "P41 block scale truncated", "the block scale is rounded toward zero", "quantize/scale-tie", "scale/scale-tie",
        may=("quantize/inf,mixture,nan,overflow,position,scale-clamp",),
        quantize=truncated_block_scale,
    ),
    _nvfp4("P43 times a reciprocal", "elements are multiplied by a third of the scale's reciprocal, then by three", "quantize/above-tie,below-tie,tie-even", quantize=times_a_reciprocal),
    _nvfp4("16 x 16 blocks take one row", "each row of a tile has a scale of its own", "quantize/position", TENSOR_SCALE="amax", quantize=tiles_row_by_row),
)  # fmt: skip
