"""Scales that are returned as numbers: read as bytes where they are numbers of their format, and a verdict of their own where not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec_conformance import check
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.opening import open_target

from tests.bugs.building import Answer, Array
from tests.transports import build_library, harness_command

ROOT = Path(__file__).resolve().parents[2]
MX = ("mxfp4", "mxfp8_e4m3")


def model(x: Array, fmt: str) -> Answer:
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales


def in_blocks(x: Array) -> Array:
    return x.reshape(len(x), -1, 32)


def as_numbers(scales: Array, fmt: str) -> Array:
    scale = mxspec.get_block(fmt).scale
    return mxspec.decode(scales & np.uint8(scale.code_count - 1), scale)


def quantize(x: Array, fmt: str) -> Answer:
    codes, scales = model(x.astype(np.float32), fmt)
    return codes, as_numbers(scales, fmt)


def dequantize(codes: Array, scales: Array, fmt: str) -> Array:
    assert scales.dtype == np.float32
    with np.errstate(all="ignore"):
        return mxspec.decode(codes, mxspec.get_block(fmt).element) * np.repeat(scales, mxspec.get_block(fmt).k, axis=-1)


def judge(quantize: Any, *formats: str, **more: Any) -> Report:
    return check(SimpleNamespace(NAME="t", FORMATS=formats or MX[:1], SCALES="float32", quantize=quantize, **more), quick=True)


def find(report: Report, topic: str) -> list[Any]:
    return [r for r in report.requirements if r.topic == topic]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_right_numbers_conform(dtype: Any) -> None:
    def wide(x: Array, fmt: str) -> Answer:
        codes, scales = quantize(x, fmt)
        return codes, scales.astype(dtype)

    report = judge(wide, *MX, "nvfp4", dequantize=dequantize)
    assert {r.verdict for r in report.requirements} <= {Verdict.PASS, Verdict.UNSUPPORTED, Verdict.OPEN}
    assert [r.verdict for r in find(report, "representable")] == [Verdict.PASS] * 6
    assert report.target["capabilities"]["scales"] == "float32"


def floored(x: Array, fmt: str) -> Answer:
    """A floor under the scale that is no power of two, as 1e-10 / 256 is none."""
    codes, scales = quantize(x, fmt)
    low = scales < np.float32(1e-10 / 256)
    return np.where(np.repeat(low, 32, axis=1), np.uint8(0), codes), np.where(low, np.float32(1e-10 / 256), scales)


def test_a_scale_that_is_no_number_of_the_format_is_named_and_nothing_else_is_accused() -> None:
    report = judge(floored)
    wrong = [r for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.OPEN)]
    assert {(r.topic, r.level, r.verdict) for r in wrong} == {("representable", "must", Verdict.FAIL)}
    assert report.formats[0].causes == ["no-number"]
    assert report.formats[0].deviations[0].startswith("scale 3.906250052154031e-13 is no E8M0 number: so in ")
    assert "is no E8M0 number" in wrong[0].first.returned["answer"]


def test_scales_that_are_never_rounded_are_the_only_cause() -> None:
    def unrounded(x: Array, fmt: str) -> Answer:
        scales = np.abs(np.nan_to_num(in_blocks(x))).max(axis=-1) / np.float32(6)
        return model(x, fmt)[0], np.where(np.isfinite(in_blocks(x)).all(axis=-1), scales, np.float32(np.nan))

    report = judge(unrounded)
    assert report.formats[0].causes == ["no-number"]
    assert len(report.formats[0].deviations) == 1


def test_an_ordinary_mistake_is_named_as_with_bytes() -> None:
    def halved(x: Array, fmt: str) -> Answer:
        codes, scales = quantize(x, fmt)
        return codes, np.where(scales > 2.0**-120, scales / 2, scales)

    assert "scale-bias" in judge(halved).formats[0].causes


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_block_of_zeros_may_have_the_scale_zero(zero: float) -> None:
    def without(x: Array, fmt: str) -> Answer:
        codes, scales = quantize(x, fmt)
        return codes, np.where(in_blocks(x).any(axis=-1), scales, np.float32(zero))

    assert find(judge(without), "representable")[0].verdict is Verdict.PASS


def test_infinite_scales_of_infinities_are_open() -> None:
    def infinite(x: Array, fmt: str) -> Answer:
        codes, scales = quantize(x, fmt)
        return codes, np.where(np.isinf(in_blocks(x)).any(axis=-1), np.float32(np.inf), scales)

    report = judge(infinite)
    assert not [r for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.DEVIATION)]
    assert [r.verdict for r in find(report, "inf")] == [Verdict.OPEN]


def test_bytes_are_refused_where_numbers_are_declared() -> None:
    report = judge(model)
    assert report.formats[0].causes == ["no-answer"]
    assert "by SCALES return float32" in report.formats[0].deviations[0]


@pytest.mark.parametrize(("scales", "layout", "words"), [
    ("float16", (), "SCALES names 'float16'; allowed are uint8, float32"), ("float32", ("128x4",), "a layout of bytes"),
])  # fmt: skip
def test_what_cannot_be_is_refused(scales: str, layout: tuple[str, ...], words: str) -> None:
    with pytest.raises(TargetError, match=words):
        open_target(SimpleNamespace(FORMATS=["mxfp4"], SCALES=scales, LAYOUT=layout, quantize=quantize))


def test_every_requirement_is_listed() -> None:
    session = open_target(SimpleNamespace(FORMATS=["mxfp4"], SCALES="float32", quantize=quantize, dequantize=dequantize))
    report = check(session, quick=True)
    assert {r.id for r in report.requirements if r.topic == "representable"} <= set(list_requirements(session))


TARGET = """
import mxspec
FORMATS, SCALES = ["mxfp4"], "float32"
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt)
    return t.codes, mxspec.decode(t.scales, "e8m0") * FACTOR
"""


@pytest.mark.parametrize(("factor", "expected"), [("1", Verdict.PASS), ("1.5", Verdict.FAIL)])
def test_numbers_come_from_another_process(tmp_path: Path, factor: str, expected: Verdict) -> None:
    path = tmp_path / "numbers.py"
    path.write_text(TARGET.replace("FACTOR", f"__import__('numpy').float32({factor})"), encoding="utf-8")
    report = check(harness_command(path), quick=True)
    assert {r.verdict for r in find(report, "representable")} == {expected}


def test_numbers_come_from_a_shared_library(tmp_path: Path) -> None:
    report = check(str(build_library(ROOT / "tests" / "targets" / "scale_numbers.cpp", tmp_path / "libnumbers.so")), quick=True)
    assert {r.verdict for r in report.requirements} <= {Verdict.PASS, Verdict.UNSUPPORTED}
    assert (report.formats[0].judged_against, report.formats[0].distance) == ("mx-floor", 0)
