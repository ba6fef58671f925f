"""A tensor scale that is NaN or infinite on the way back: what is lost is found, what is open is not called wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.elements import decode_table
from mxspec.formats import get_block
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.invariance import tensor_binades
from mxspec_conformance.judge.quantize import flag_nan_choices

from tests.bugs.building import Array, make

FMT = get_block("nvfp4")
ELEMENTS, SCALES = (decode_table(part).astype(np.float32) for part in (FMT.element, FMT.scale))
LARGEST = np.finfo(np.float32).max


def values(codes: Array, scales: Array, tensor_scale: float | None) -> Array:
    rows = ELEMENTS[codes].reshape(*scales.shape, FMT.k) * SCALES[scales][..., None]
    if tensor_scale is not None:
        rows = rows * (np.float32(tensor_scale) * np.float32(1 / 2688))
    result: Array = rows.reshape(codes.shape)
    return result


def saturating(v: Array) -> Array:
    return np.where(np.isinf(v), np.copysign(LARGEST, v), v)


def positive_infinity(v: Array) -> Array:
    return np.where(np.isinf(v), np.float32(np.inf), v)


def nan_is_zero(v: Array) -> Array:
    return np.where(np.isnan(v) & (ELEMENTS[0] == 0), np.float32(0), v)


def after(change: Callable[[Array], Array], *, special_only: bool = False) -> Callable[..., Array]:
    def dequantize(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
        v = values(codes, scales, tensor_scale)
        keep = special_only and (tensor_scale is None or np.isfinite(tensor_scale))
        return v if keep else change(v)

    return dequantize


def refusing(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
    if tensor_scale is not None and not np.isfinite(tensor_scale):
        raise ValueError(f"tensor_scale = {tensor_scale}")
    return values(codes, scales, tensor_scale)


def without_nan(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
    return values(codes, scales, None if tensor_scale is not None and np.isnan(tensor_scale) else tensor_scale)


def judge(dequantize: Callable[..., Any]) -> tuple[str, int]:
    report = check(make(["nvfp4"], TENSOR_SCALE="amax", dequantize=dequantize), only="dequantize/nvfp4/refusal")
    (found,) = report.requirements
    return found.verdict.value, found.failing


@pytest.mark.parametrize("change", [lambda v: v, saturating])
def test_what_is_open_passes(change: Callable[[Array], Array]) -> None:
    assert judge(after(change)) == ("pass", 0)


def test_a_refusal_passes() -> None:
    assert judge(refusing) == ("pass", 0)


@pytest.mark.parametrize(
    "dequantize",
    [
        without_nan,
        after(positive_infinity, special_only=True),
        after(nan_is_zero, special_only=True),
        after(np.nan_to_num, special_only=True),
        after(lambda v: np.where(np.isinf(v), np.float32(1), v), special_only=True),
    ],
)
def test_what_is_lost_fails(dequantize: Callable[..., Array]) -> None:
    assert judge(dequantize) == ("fail", 1)


def test_zero_times_a_reciprocal_that_overflowed_may_be_zero() -> None:
    """The profile's quotient is NaN there, though every number is finite: which code a NaN becomes is open, but not any code."""

    def compares(x: Array, fmt: str, tensor_scale: Any = None) -> Any:
        scale = None if tensor_scale is None else mxspec.TensorScale.from_float("encode", float(tensor_scale))
        t = mxspec.quantize(x, fmt, profile="nvfp4-paper", tensor_scale=scale)
        codes = np.array(t.codes)
        if tensor_scale is not None:  # comparisons are false for NaN
            with np.errstate(all="ignore"):
                divisor = np.repeat(SCALES[t.scales], 16, axis=1) * (np.float32(1) / np.float32(tensor_scale))
                codes[(x == 0) & np.isinf(1 / divisor) & (divisor != 0)] = 0
        return codes, t.scales

    target = make(["nvfp4"], TENSOR_SCALE="encode", PROFILE="nvfp4-paper", quantize=compares)
    assert check(target, in_process=True, only="quantize/nvfp4/overflow").exit_code == 0
    assert np.flatnonzero(flag_nan_choices(FMT.element)).tolist() == [0, 7, 8, 15]
    assert not flag_nan_choices(get_block("mxfp8_e4m3").element).any()


def halved_at_powers_of_two(amax: float) -> float:
    return amax / 2 if amax > 1 and np.frexp(amax)[0] == 0.5 else amax


def by_amax(amax: float | None, change: Callable[[float], float]) -> Any:
    return None if amax is None else mxspec.TensorScale.from_float("amax", change(amax))


@pytest.mark.parametrize("function", ["quantize", "dequantize"])
@pytest.mark.parametrize("change", [halved_at_powers_of_two, float])
def test_a_tensor_scale_is_asked_in_every_binade(function: str, change: Callable[[float], float]) -> None:
    def quantize(x: Array, fmt: str, tensor_scale: float | None = None) -> Any:
        t = mxspec.quantize(x, fmt, tensor_scale=by_amax(tensor_scale, change))
        return t.codes, t.scales

    def dequantize(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Any:
        return mxspec.dequantize(codes, scales, fmt, tensor_scale=by_amax(tensor_scale, change))

    functions = {"quantize": quantize, "dequantize": dequantize}
    target = make(["nvfp4"], TENSOR_SCALE="amax", **{function: functions[function]})
    report = check(target, in_process=True, only=f"{function}/nvfp4/*")
    assert {r.topic for r in report.requirements if r.verdict == "fail"} == (set() if change is float else {"call-size"})


@pytest.mark.parametrize("kind", ["amax", "decode", "encode"])
def test_every_binade_has_a_power_of_two_of_the_kind_that_is_taken(kind: str) -> None:
    scales = list(tensor_binades._list_maxima(kind, *tensor_binades.EXPONENTS))
    powers = [s for s in scales if np.frexp(s.value(kind))[0] == 0.5]
    assert len({np.frexp(s.value("amax"))[1] for s in powers}) == len(powers) >= 228
    assert all(np.isfinite(s.value("amax")) for s in scales)


def test_zeros_that_the_profile_itself_loses_are_said() -> None:
    """A dequantizer that returns zero for zero departs from the profile where sf * amax overflows, and is told why."""

    def dequantize(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
        v = values(codes, scales, tensor_scale)
        kept = np.isnan(v) & (ELEMENTS[codes] == 0) & ~np.isnan(np.repeat(SCALES[scales], FMT.k, axis=-1))
        return np.where(kept, ELEMENTS[codes], v)

    target = make(["nvfp4"], TENSOR_SCALE="amax", PROFILE="nvfp4-te", dequantize=dequantize)
    report = check(target, in_process=True, formats=["nvfp4"], only="dequantize/nvfp4/tensor-scale")
    (result,) = report.formats
    assert result.failing
    assert result.open_choices == [f"by nvfp4-te {mxspec.get_profile('nvfp4-te', 'nvfp4').lost_zeros}"]
