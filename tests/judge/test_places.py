"""Where a block lies, and what is wrong with it wherever it lies, are two things; so are a NaN that is lost and one that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import Rounding
from mxspec_conformance.judge.check import check

from tests.bugs.building import Answer, Array, Quantize, by_rounding, given, make, on_blocks, right_values
from tests.judge.reading import failing, requirement


def along(quantize: Quantize) -> Callable[..., Answer]:
    """With an axis."""

    def function(x: Array, fmt: str, axis: int = -1) -> Answer:
        if axis in (-1, 1):
            return quantize(x, fmt)
        codes, scales = quantize(np.ascontiguousarray(x.T), fmt)
        return np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)

    return function


def swap(codes: Array) -> Array:
    """The two codes of each byte exchanged."""
    return np.ascontiguousarray(codes.reshape(-1, 2)[:, ::-1]).reshape(codes.shape)


def swapped(x: Array, fmt: str) -> Answer:
    codes, scales = on_blocks(by_rounding(Rounding.RNE))(x, fmt)
    return swap(codes), scales


def by_own_rule(x: Array, fmt: str) -> Answer:
    """The scale goes up from four thirds of a power of two on, as no profile's does."""
    amax = np.abs(x).max(axis=1).view(np.uint32)
    scales = np.clip((amax >> 23).astype(int) - 2 + ((amax & 0x7FFFFF) >= 0x2AAAAA), 0, 254)
    scales = np.where(amax >= 0x7F800000, 255, scales).astype(np.uint8)
    return given(x, scales, fmt), scales


def without_lane(x: Array, fmt: str) -> Answer:
    """The maximum is not looked for in lane 5."""
    t = mxspec.quantize(np.where(np.arange(x.shape[1]) == 5, 0, x).astype(np.float32), fmt)
    return given(x, t.scales[:, 0], fmt), t.scales[:, 0]


def wrong_rows(x: Array, fmt: str, axis: int = -1) -> Answer:
    """Along the first axis every second column has the answer of its neighbour."""
    codes, scales = along(on_blocks(by_rounding(Rounding.RNA)))(x, fmt, axis)
    if axis in (0, -2):
        codes[:, 1::2], scales[:, 1::2] = codes[:, :-1:2], scales[:, :-1:2]
    return codes, scales


WRONG: dict[str, tuple[Any, set[str]]] = {
    "ties away": (along(on_blocks(by_rounding(Rounding.RNA))), set()),
    "toward -infinity": (along(on_blocks(by_rounding(Rounding.RTN))), set()),
    "nibbles swapped": (along(swapped), set()),
    "a rule of its own": (along(on_blocks(by_own_rule)), set()),
    "a lane not looked at": (along(on_blocks(without_lane)), {"position"}),
    "columns exchanged": (wrong_rows, {"axis"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_everywhere_is_no_mistake_of_a_place(name: str) -> None:
    quantize, places = WRONG[name]
    found = {
        id_.split("/")[2]
        for id_ in failing(
            check(make(["mxfp4"], quantize=quantize), only="quantize/mxfp4/[apmst][xoic]*", quick=name != "a lane not looked at")
        )
    }
    assert found & {"position", "axis", "tail"} == places
    assert found - {"position", "axis", "tail", "memory"} or places


def test_tiles_of_a_rule_of_its_own_are_in_their_places() -> None:
    """A tile of NVFP4 has the scale of its row with the largest number, whatever the rule is."""

    def quantize(x: Array, fmt: str, tensor_scale: float | None = None, block: tuple[int, int] | None = None) -> Answer:
        scale = None if tensor_scale is None else mxspec.TensorScale.from_float("amax", tensor_scale)
        t = mxspec.quantize(x, fmt, tensor_scale=scale, block=block)
        scales = np.where((t.scales > 8) & (t.scales < 0x70), t.scales + np.uint8(1), t.scales).astype(np.uint8)
        return t.codes.copy(), scales

    report = check(make(["nvfp4"], quantize=quantize), only="quantize/nvfp4/[ps][oc]*", quick=True)
    assert "quantize/nvfp4/position" not in failing(report)
    assert failing(report)["quantize/nvfp4/scale-tie"] == "fail"


def test_swapped_nibbles_keep_no_state() -> None:
    def dequantize(codes: Array, scales: Array, fmt: str) -> Array:
        return right_values(swap(codes), scales, fmt)

    report = check(make(["mxfp4"], dequantize=dequantize), only="dequantize/mxfp4/*[ed]", quick=True)
    assert "dequantize/mxfp4/scale-code" in failing(report)
    assert requirement(report, "dequantize/mxfp4/state").verdict == "pass"


@pytest.mark.parametrize(("kept", "level"), [(True, "should"), (False, "must")])
def test_a_nan_that_is_kept_breaks_no_must(kept: bool, level: str) -> None:
    def quantize(x: Array, fmt: str) -> Answer:
        """A block with a NaN under the scale of one: no profile's."""
        nan = np.isnan(x)
        t = mxspec.quantize(np.where(nan, 0, x).astype(np.float32), fmt)
        codes, scales = t.codes.copy(), t.scales.copy()
        rows = nan.reshape(-1, 32).any(axis=1)
        flat = np.where(np.isfinite(x), x, 0).astype(np.float32).reshape(-1, 32)
        codes.reshape(-1, 32)[rows] = mxspec.encode(flat[rows], "e4m3")
        scales.reshape(-1)[rows] = 127
        codes[nan] = 0x7F if kept else 0x7E
        return codes, scales

    name = "quantize/mxfp8_e4m3/nan"
    found = requirement(check(make(["mxfp8_e4m3"], quantize=quantize), only=name), name)
    assert (found.verdict.value, found.level) == ("fail", level)
