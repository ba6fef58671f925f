"""Scales that are searched follow no rule, and are not accused of that: the error that they minimise is told."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec
from mxspec.formats import BLOCKS
from mxspec.rounding import Rounding
from mxspec_conformance.judge.causes import KnownCause
from mxspec_conformance.judge.check import check
from mxspec_conformance.results.conclusion import Stand, conclude
from mxspec_conformance.results.report import Report, Verdict

from tests.bugs.building import Answer, Array, BlockFunction, given, is_ordinary, is_zero, make, model, on_blocks, scaled
from tests.judge.test_causes import moved, of_scales


def searched(error: str, offsets: tuple[int, ...], rounding: Rounding = Rounding.RNE, floor: float = 0) -> BlockFunction:
    """Of several scales the one with the least error; none for maxima below a floor, which have its scale."""

    def encode(x: Array, scales: Array, fmt: str) -> Array:
        codes = model(x, fmt)[0]
        codes[is_ordinary(x)] = mxspec.encode(scaled(x, scales)[is_ordinary(x)].astype(np.float32), BLOCKS[fmt].element, rounding=rounding)
        return codes

    def quantize(x: Array, fmt: str) -> Answer:
        scales = model(x, fmt)[1]
        low = is_ordinary(x) & ~is_zero(x) & (np.abs(x).max(axis=1) < floor)
        scales[low] = model(np.full((1, x.shape[1]), floor, np.float32), fmt)[1]
        codes = encode(x, scales, fmt)
        inside = is_ordinary(x) & ~is_zero(x) & ~low & (scales > 8) & (scales < 240)
        values = mxspec.decode(np.arange(BLOCKS[fmt].element.code_count, dtype=np.uint8), BLOCKS[fmt].element).astype(float)
        best = np.full(len(x), np.inf)
        result = codes.copy(), scales.copy()
        for offset in offsets:
            tried = np.where(inside, scales.astype(int) + offset, scales).astype(np.uint8)
            found = encode(x, tried, fmt)
            with np.errstate(all="ignore"):
                unit = 2.0 ** (tried.astype(float)[:, None] - 127)
                away = np.abs(values[found] * unit - x) / np.abs(x).max(axis=1, keepdims=True)
            size = (away**2).sum(axis=1) if error == "squared" else away.sum(axis=1)
            better = inside & (size < best)
            best[better] = size[better]
            result[0][better], result[1][better] = found[better], tried[better]
        return result

    return quantize


def judge(function: BlockFunction, fmt: str, **options: str) -> Report:
    return check(make([fmt], quantize=on_blocks(function)), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "offsets", "fmt"),
    [
        ("squared", (0, 1, -1), "mxfp4"),
        ("squared", (0, 1), "mxfp6_e2m3"),
        ("absolute", (0, 1), "mxfp4"),
        ("absolute", (0, -1, 1), "mxint8"),
    ],
)
def test_a_search_is_not_accused_and_its_error_is_told(error: str, offsets: tuple[int, ...], fmt: str) -> None:
    report = judge(searched(error, offsets), fmt)
    assert report.exit_code == 0
    (result,) = report.formats
    assert KnownCause.SCALE_SEARCH.value in result.causes
    assert conclude(result, report.requirements).stand is Stand.ELEMENTS
    (told,) = [c for c in result.open_choices if "search" in c]
    assert f"sum of {error} errors" in told
    assert any(r.verdict is Verdict.OPEN and r.topic == "scale-boundary" for r in report.requirements)


@pytest.mark.parametrize(
    ("rounding", "floor", "fails"), [(Rounding.RNE, 1e-30, set()), (Rounding.RNZ, 0, {"tie-even"}), (Rounding.RNZ, 1e-30, {"tie-even"})]
)
def test_a_search_is_recognized_with_other_ties_and_above_a_floor(rounding: Rounding, floor: float, fails: set[str]) -> None:
    report = judge(searched("squared", (0, 1, -1), rounding, floor), "mxfp4")
    (result,) = report.formats
    assert KnownCause.SCALE_SEARCH.value in result.causes
    assert {r.topic for r in report.requirements if r.verdict is Verdict.FAIL} == fails
    (told,) = [c for c in result.open_choices if "search" in c]
    assert ("floored at byte 19" in told) == bool(floor)
    assert KnownCause.RECIPROCAL.value not in result.causes


def test_a_search_does_not_excuse_a_claim() -> None:
    assert judge(searched("squared", (0, 1, -1)), "mxfp4", profile="mx-floor").exit_code == 1


@pytest.mark.parametrize(("step", "fmt"), [(1, "mxfp4"), (1, "mxfp8_e4m3"), (-1, "mxfp4"), (1, "mxint8")])
def test_a_rule_that_is_off_by_a_constant_is_no_search(step: int, fmt: str) -> None:
    """One step up it has the least of the largest errors among the scales that it gives: that is chance."""
    report = judge(moved(step), fmt)
    assert report.exit_code == 1
    assert report.formats[0].causes == [KnownCause.SCALE_OFFSET.value]


def test_scales_at_random_are_no_search() -> None:
    report = judge(of_scales(lambda x, fmt, s: s + ((s > 8) & (s < 240) & (x.view(np.uint32).sum(axis=1) % 3 == 0))), "mxfp4")
    assert report.exit_code == 1
    assert not any("search" in c for c in report.formats[0].open_choices)


def test_a_search_with_wrong_elements_fails() -> None:
    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = searched("squared", (0, 1, -1))(x, fmt)
        codes[codes == 7] = 6
        return codes, scales

    assert judge(quantize, "mxfp4").exit_code == 1


def test_a_search_whose_errors_vanish_or_overflow_is_recognized() -> None:
    """Squares of float32 numbers below 2^-75 are zero, and of those above 2^64 infinite: there the first scale is kept."""

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = model(x, fmt)
        inside = is_ordinary(x) & ~is_zero(x) & (scales > 8) & (scales < 240)
        best, kept = np.full(len(x), np.inf, np.float32), np.zeros(len(x), np.bool_)
        for step in (-1, 0):
            tried = np.where(inside, scales.astype(int) + step, scales).astype(np.uint8)
            found = given(x, tried, fmt)
            with np.errstate(all="ignore"):
                away = mxspec.dequantize(found, tried[:, None], fmt) - x
                error = (away * away).sum(axis=1)
            first = inside & ((step == -1) | (error < best))
            best[first], codes[first] = error[first], found[first]
            kept = first if step == -1 else kept & ~first
        return codes, np.where(kept, scales.astype(int) - 1, scales).astype(np.uint8)

    report = judge(quantize, "mxfp4")
    assert report.exit_code == 0
    (told,) = [c for c in report.formats[0].open_choices if "search" in c]
    assert "the one with the least sum of squared errors in float32" in told


def searched_nvfp4(error: str, ties: str) -> BlockFunction:
    """Of all scale codes near amax / 6 the one with the least error; elements are x / scale."""
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middles = (grid[1:] + grid[:-1]) / 2
    decoded = mxspec.decode(np.arange(127, dtype=np.uint8), "ue4m3").astype(float)

    def quantize(x: Array, fmt: str) -> Answer:
        lost = ~np.isfinite(x).all(axis=1)
        blocks = np.where(lost[:, None], 0, x).astype(float)
        amax = np.abs(blocks).max(axis=1)
        first = mxspec.encode((amax / 6).astype(np.float32), "ue4m3")
        best, result = np.full(len(x), np.inf), (np.zeros(x.shape, np.uint8), first.copy())
        for offset in range(-40, 41):
            tried = np.clip(first.astype(int) + offset, 1, 126).astype(np.uint8)
            size = np.abs(blocks) / decoded[tried][:, None]
            low, high = (np.searchsorted(middles, size, side) for side in ("left", "right"))
            code = low if ties == "down" else np.where(low % 2 == 0, low, high)
            away = np.abs(grid[code] * decoded[tried][:, None] - np.abs(blocks))
            cost = (away**2).sum(axis=1) if error == "squared" else away.sum(axis=1)
            better = (cost < best) & (amax > 0)
            best[better] = cost[better]
            result[0][better], result[1][better] = (code | np.signbit(blocks) << 3)[better], tried[better]
        result[1][lost] = 127
        return result

    return quantize


@pytest.mark.parametrize(("error", "ties", "fails"), [("squared", "down", {"tie-even", "above-tie"}), ("absolute", "even", set())])
def test_a_search_among_many_scales_with_another_profiles_quotient_is_recognized(error: str, ties: str, fails: set[str]) -> None:
    report = judge(searched_nvfp4(error, ties), "nvfp4")
    assert KnownCause.SCALE_SEARCH.value in report.formats[0].causes
    assert {r.topic for r in report.requirements if r.verdict is Verdict.FAIL} <= fails
    assert any(f"sum of {error} errors" in choice for choice in report.formats[0].open_choices)
