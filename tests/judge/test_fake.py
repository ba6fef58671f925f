"""`fake_quantize`: values in place of codes. Right ones conform, wrong ones are found with the cause that their codes would show."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec_conformance import check
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.results.report import GOOD, Report, Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.opening import open_target

from tests.bugs.building import Array

Fake = Callable[..., Any]


def by_model(profile: str) -> Fake:
    def fake_quantize(x: Array, fmt: str) -> Array:
        with np.errstate(all="ignore"):
            return mxspec.dequantize(mxspec.quantize(x, fmt, profile=profile)).astype(x.dtype)

    return fake_quantize


def judge(fake_quantize: Fake, *formats: str, **more: Any) -> Report:
    return check(SimpleNamespace(NAME="t", FORMATS=formats or ("mxfp4",), fake_quantize=fake_quantize, **more), quick=True)


def list_wrong(report: Report) -> list[str]:
    return [r.id for r in report.requirements if r.verdict not in (*GOOD, Verdict.OPEN, Verdict.UNSUPPORTED)]


@pytest.mark.parametrize(("profile", "fmt"), [
    ("mx-floor", "mxfp4"), ("mx-rceil", "mxfp6_e2m3"), ("mx-even", "mxfp8_e5m2"), ("mx-ceil", "mxfp8_e4m3"), ("mx-rceil", "mxint8"),
    ("mx-even", "mxint8"), ("mx-floor", "mxfp6_e3m2"), ("mx-even", "mxfp4"),
])  # fmt: skip
def test_right_values_conform(profile: str, fmt: str) -> None:
    report = judge(by_model(profile), fmt)
    assert not list_wrong(report)
    assert profile in report.formats[0].identical_to


@pytest.mark.parametrize("dtypes", [("bfloat16", "float16"), ("float16",), ("float32", "bfloat16")])
def test_other_dtypes_conform(dtypes: tuple[str, ...]) -> None:
    assert not list_wrong(judge(by_model("mx-floor"), "mxfp4", "mxfp8_e4m3", DTYPES=dtypes))


def test_nvfp4_conforms_with_and_without_a_tensor_scale() -> None:
    def fake_quantize(x: Array, fmt: str, tensor_scale: float | None = None) -> Array:
        tensor = None if tensor_scale is None else mxspec.TensorScale("decode", np.float32(tensor_scale))
        with np.errstate(all="ignore"):
            return mxspec.dequantize(mxspec.quantize(x, fmt, profile="nvfp4-exact", tensor_scale=tensor, convert=True))

    report = judge(fake_quantize, "nvfp4")
    assert not list_wrong(report)
    assert report.formats[0].identical_to == ["nvfp4-exact"]
    assert report.target["capabilities"]["fake_quantize"] is True


def in_blocks(count: int) -> Fake:
    """MXFP4 in blocks of another length."""

    def fake_quantize(x: Array, fmt: str) -> Array:
        parts = x.reshape(-1, count)
        with np.errstate(all="ignore"):
            return mxspec.dequantize(mxspec.quantize(np.pad(parts, [(0, 0), (0, 32 - count)]), fmt))[:, :count].reshape(x.shape)

    return fake_quantize


def in_columns(x: Array, fmt: str) -> Array:
    if len(x) % 32:
        return by_model("mx-floor")(x, fmt)
    with np.errstate(all="ignore"):
        return mxspec.dequantize(mxspec.quantize(x, fmt, axis=0))


def in_pairs_of_blocks(x: Array, fmt: str) -> Array:
    """Two blocks share a scale where a call has whole pairs of them."""
    if x.size % 64 or not np.isfinite(x).all():
        return by_model("mx-floor")(x, fmt)
    pairs = x.reshape(-1, 64)
    scales = np.repeat(mxspec.quantize(np.pad(np.abs(pairs).max(axis=1)[:, None], [(0, 0), (0, 31)]), fmt).scales, 2, axis=0)
    with np.errstate(all="ignore"):
        return mxspec.dequantize(mxspec.quantize(x.reshape(-1, 32), fmt, scales=scales)).reshape(x.shape)


def own(
    *, step: int = 0, least: float = 0, choose: Callable[[Array], Array] | None = None, largest: float = 6, ties: str = "even",
    measure: Callable[[Array], Array] | None = None,
) -> Fake:  # fmt: skip
    """MXFP4 by plain arithmetic in float64."""
    grid = np.array([v for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6) if v <= largest])
    middles = (grid[1:] + grid[:-1]) / 2

    def fake_quantize(x: Array, fmt: str) -> Array:
        blocks = x.reshape(len(x), -1, 32).astype(np.float64)
        lost = ~np.isfinite(blocks).all(axis=-1, keepdims=True)
        blocks = np.where(lost, 0, blocks)
        amax = np.maximum((measure or np.abs)(blocks).max(axis=-1, keepdims=True), least)
        chosen = (choose or (lambda amax: np.frexp(amax)[1] - 3 + step))(np.where(amax == 0, 1, amax))
        scale = np.ldexp(1.0, np.clip(np.where(amax == 0, -127, chosen), -127, 127)) if chosen.dtype.kind == "i" else chosen
        low, high = (np.searchsorted(middles, np.abs(blocks) / scale, side) for side in ("left", "right"))
        code = {"even": np.where(low % 2 == 0, low, high), "down": low, "up": high}[ties]
        values = np.where(lost, np.nan, np.copysign(grid[code] * scale, blocks))
        return values.reshape(x.shape).astype(np.float32)

    return fake_quantize


def test_plain_arithmetic_conforms() -> None:
    assert not list_wrong(judge(own()))


WRONG: dict[str, tuple[Fake, set[str], str]] = {
    "ties down": (own(ties="down"), {"tie-even"}, "ties toward zero"),
    "ties up": (own(ties="up"), {"tie-even"}, "ties away from zero"),
    "half the scale": (own(step=-1), {"scale-boundary", "scale-clamp"}, "every scale byte is one below mx-floor's"),
    "half the scale over a floor": (own(step=-1, least=1e-10), {"scale-boundary", "scale-clamp"}, "scale floored at byte 5a"),
    "an end at 3": (own(largest=3), set(), "elements end at 3"),
    "an end at 3 under its own scale": (own(largest=3, step=1), set(), "elements end at 3"),
    "twice the scale": (own(step=1), {"scale-boundary", "scale-clamp"}, "every scale byte is one above mx-floor's"),
    "without emax": (own(step=2), {"scale-boundary", "scale-clamp"}, "every scale byte is 2 above mx-floor's"),
    "nearest in log2": (
        own(choose=lambda amax: np.frexp(amax)[1] - 3 + (np.frexp(amax)[0] >= 0.5**0.5)),
        {"scale-boundary", "scale-clamp"},
        "round(log2(v))",
    ),
    "nearest, ties up": (
        own(choose=lambda amax: np.frexp(amax)[1] - 3 + (np.frexp(amax)[0] >= 0.75)),
        {"scale-boundary", "scale-clamp"},
        "amax / 2^2, exact, in e8m0 nearest, ties away from zero",
    ),
    "max - min": (
        own(measure=lambda b: b.max(axis=-1, keepdims=True) - b.min(axis=-1, keepdims=True)),
        {"scale-boundary", "scale-clamp"},
        "max - min",
    ),
    "blocks of 16": (in_blocks(16), {"representable"}, "blocks of 16 numbers have a scale of their own"),
    "blocks of 64": (in_pairs_of_blocks, set(), "blocks of 64 numbers share a scale"),
    "columns": (in_columns, set(), "blocks lie along the columns of a matrix"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_found_with_its_cause(name: str) -> None:
    fake, topics, words = WRONG[name]
    report = judge(fake)
    assert words in "; ".join(report.formats[0].deviations)
    found = {requirement.rpartition("/")[2] for requirement in list_wrong(report)}
    assert found
    assert not topics or found <= topics


@pytest.mark.parametrize("step", [0, 1])
def test_e4m3_that_ends_at_240_is_named(step: int) -> None:
    """As where floats of an exponent's width are IEEE 754's: the largest exponent holds no numbers."""

    def fake_quantize(x: Array, fmt: str) -> Array:
        amax = np.abs(x.reshape(len(x), -1, 32)).max(axis=-1)
        exponents = np.clip(np.frexp(amax)[1] + 127 - 9 + step, 0, 254)
        scales = np.where(np.isfinite(amax) & (amax > 0), exponents, mxspec.quantize(x, fmt).scales).astype(np.uint8)
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, fmt, scales=scales)
            end = 240 * np.repeat(mxspec.decode(scales, "e8m0"), 32, axis=1)
            return np.clip(mxspec.dequantize(t), -end, end)

    found = judge(fake_quantize, "mxfp8_e4m3").formats[0]
    assert "top-exponent-reserved" in found.causes
    assert "elements end at 240" in "; ".join(found.deviations)


def test_a_rule_without_a_name_is_no_matter_of_elements() -> None:
    report = judge(own(choose=lambda amax: np.frexp(amax / 6)[1] - 1 + (np.frexp(amax / 6)[0] > 0.6)))
    assert {r.level for r in report.requirements if r.id in list_wrong(report)} == {"should"}


def test_values_of_a_scale_that_is_no_power_of_two_are_no_products() -> None:
    report = judge(own(choose=lambda amax: amax / 6))
    wrong = {r.topic: r for r in report.requirements if r.id in list_wrong(report)}
    assert set(wrong) == {"representable"}
    assert report.formats[0].causes == ["no-number"]
    assert "is no E2M1 number times a scale" in wrong["representable"].first.returned["answer"]


@pytest.mark.parametrize("scales", ["float32", "uint8"])
def test_scales_may_be_returned_with_the_values(scales: str) -> None:
    def fake_quantize(x: Array, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt, profile="mx-rceil")
        with np.errstate(all="ignore"):
            return mxspec.dequantize(t), t.scales if scales == "uint8" else mxspec.decode(t.scales, "e8m0")

    report = judge(fake_quantize, SCALES=scales)
    assert not list_wrong(report)
    assert "mx-rceil" in report.formats[0].identical_to

    def halved(x: Array, fmt: str) -> Any:
        values, given = fake_quantize(x, fmt)
        smaller = given / 2 if scales == "float32" else given - np.uint8(1)
        return values, np.where((values != 0).any(axis=1, keepdims=True) & (given > 1e-30) & np.isfinite(values[:, :1]), smaller, given)

    assert "quantize/mxfp4/representable" in list_wrong(judge(halved, SCALES=scales))


def test_a_logarithm_that_rounds_up_is_a_matter_of_the_scale() -> None:
    """Cut toward zero, the values just below a power of two fit the scale that is one lower, too."""

    def fake_quantize(x: Array, fmt: str) -> Array:
        with np.errstate(all="ignore"):
            return mxspec.dequantize(mxspec.quantize(x, fmt, profile="microxcaling-7bc4195/mxfp/floor"))

    found = list_wrong(judge(fake_quantize))
    assert "quantize/mxfp4/scale-boundary" in found
    assert "quantize/mxfp4/exact" not in found


def test_values_that_depend_on_the_call_are_found() -> None:
    def fake_quantize(x: Array, fmt: str) -> Array:
        return by_model("mx-floor")(x, fmt) * np.float32(1 if x.size < 4096 else 2)

    assert "quantize/mxfp4/call-size" in list_wrong(judge(fake_quantize))


def test_an_input_that_is_written_into_is_found() -> None:
    def fake_quantize(x: Array, fmt: str) -> Array:
        x[...] = by_model("mx-floor")(x.copy(), fmt)
        return x

    assert "quantize/mxfp4/memory" in list_wrong(judge(fake_quantize))


def test_every_requirement_is_listed() -> None:
    session = open_target(SimpleNamespace(FORMATS=["mxfp4"], fake_quantize=by_model("mx-floor")))
    assert {r.id for r in check(session, quick=True).requirements} <= set(list_requirements(session))


@pytest.mark.parametrize("shapes", [{"k": 128}, {}])
def test_matrices_of_some_sizes_conform(shapes: dict[str, int]) -> None:
    """The numbers that show the rule of the scale are laid into matrices that the target takes, declared or found."""

    def fake_quantize(x: Array, fmt: str) -> Array:
        assert x.shape[1] % 128 == 0
        return by_model("mx-rceil")(x, fmt)

    report = judge(fake_quantize, SHAPES=shapes)
    assert not list_wrong(report)
    assert "mx-rceil" in report.formats[0].identical_to


def test_a_scale_rule_shows_in_float16() -> None:
    """float16 holds no number below 2^-24: a small block of E5M2 lies under two scales there."""
    report = judge(by_model("mx-even"), "mxfp8_e5m2", DTYPES=("float16",))
    assert not list_wrong(report)
    assert "mx-even" in report.formats[0].identical_to


@pytest.mark.parametrize(("more", "words"), [
    ({"FORMATS": ["fp8_e4m3-128-f32"]}, "scales of one byte"), ({"LAYOUT": "nibble-low"}, "in no LAYOUT"), ({"TENSOR_SCALE": "amax"}, "decode"),
    ({"FORMATS": []}, "has no FORMATS"),
])  # fmt: skip
def test_what_cannot_be_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(TargetError, match=words):
        open_target(SimpleNamespace(**{"FORMATS": ["mxfp4"], "fake_quantize": by_model("mx-floor")} | more))


@pytest.mark.parametrize(("answer", "words"), [
    (lambda x: x[:, :-1], "for x of shape"), (lambda x: x.astype(np.int8), "in that shape"), (lambda x: (x, x), "declare SCALES"),
])  # fmt: skip
def test_other_answers_are_errors(answer: Callable[[Array], Any], words: str) -> None:
    report = judge(lambda x, fmt: answer(np.zeros(x.shape, ml_dtypes.bfloat16)))
    assert report.formats[0].causes == ["no-answer"]
    assert words in report.formats[0].deviations[0]


def test_rows_that_are_padded_and_cut_conform() -> None:
    """The zeros of a block that is NaN are not seen; the block is NaN nevertheless."""

    def fake_quantize(x: Array, fmt: str) -> Array:
        return by_model("mx-floor")(np.pad(x, [(0, 0), (0, -x.shape[1] % 32)]), fmt)[:, : x.shape[1]]

    (found,) = check(SimpleNamespace(NAME="t", FORMATS=("mxfp4",), fake_quantize=fake_quantize), only="quantize/mxfp4/refusal").requirements
    assert (found.verdict, found.failing_cases) == (Verdict.PASS, [])
