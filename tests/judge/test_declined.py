"""What a target says that it does not offer hides nothing that it answers, and is counted where the verdict stands."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import jsonschema
import numpy as np
import pytest
from rich.console import Console

from mxspec.formats import get_block
from mxspec_conformance.identification.diff import diff
from mxspec_conformance.judge.check import check
from mxspec_conformance.render import RENDERERS
from mxspec_conformance.render.terminal import print_report
from mxspec_conformance.results.report import Report, load_result_schema
from mxspec_vectors.cases import load_scale_cases

from tests.bugs.building import Answer, Array, make, right, right_values
from tests.judge.reading import failing


def takes(x: Array) -> bool:
    """Numbers of ordinary size, and zeros: a kernel that declines all others."""
    size = np.abs(x.astype(np.float64))
    return bool(((size == 0) | ((size > 2.0**-100) & (size < 2.0**100))).all())


def in_part(x: Array, fmt: str, **more: Any) -> Answer:
    if not takes(x):
        raise NotImplementedError("numbers of ordinary size only")
    return right(x, fmt, **more)


def wrong_alone(x: Array, fmt: str) -> Answer:
    """One scale too high for blocks of one number alone, as scale cases are made of."""
    codes, scales = in_part(x, fmt)
    single = (x.reshape(*scales.shape, -1) != 0).sum(axis=-1) == 1
    return codes, scales + single.astype(np.uint8)


@lru_cache(maxsize=1)
def judge_in_part() -> Report:
    return check(make(["mxfp4"], quantize=in_part))


def test_maxima_that_are_declined_hide_no_other_scale() -> None:
    """Every maximum that the target takes is judged, whatever lies beside it in the vectors."""
    maxima = [m for case in load_scale_cases("mxfp4") if "mx-floor" in case.answers for m in case.amax.view(np.float32)]
    taken = sum(takes(m) for m in maxima)
    assert 5000 < taken < len(maxima)
    for quantize, wrong in ((in_part, 0), (wrong_alone, taken)):
        report = check(make(["mxfp4"], quantize=quantize), profile="mx-floor")
        scales = [r for r in report.requirements if r.operation == "scale"]
        assert sum(r.cases for r in scales) == taken
        assert sum(r.failing for r in scales) == wrong


def test_a_scale_that_fails_among_declined_ones_fails() -> None:
    def fails(x: Array, fmt: str) -> Answer:
        answer = in_part(x, fmt)
        single = np.sort(np.abs(x.reshape(-1, 32)), axis=-1)
        if ((single[:, -2] == 0) & (single[:, -1] >= 4) & (single[:, -1] < 8)).any():
            raise RuntimeError("out of resources")
        return answer

    report = check(make(["mxfp4"], quantize=fails))
    assert failing(report)["scale/mxfp4/scale-boundary"] == "error"


def test_they_are_counted() -> None:
    result = judge_in_part().formats[0]
    plain = check(make(["mxfp4"], quantize=right)).formats[0]
    assert plain.declined == 0
    assert plain.unanswered == ""
    assert result.declined > 1000
    assert result.declined + result.cases == plain.cases
    assert result.unanswered == f"not known: {result.declined:,} of {plain.cases:,} cases, which it declines"


def test_every_form_of_a_report_counts_them() -> None:
    report = judge_in_part()
    document = report.as_dict()
    jsonschema.validate(document, load_result_schema())
    assert document["formats"][0]["declined"] == report.formats[0].declined
    shown = io.StringIO()
    print_report(report, Console(file=shown, width=120))
    assert f"- {report.formats[0].unanswered}" in shown.getvalue()
    for form in ("html", "markdown"):
        assert "cases, which it declines" in RENDERERS[form]([document]).decode()


def test_what_a_function_is_not_called_for_is_not_counted() -> None:
    """Right, but without the keyword `pad`, which its signature says."""

    def no_keywords(x: Array, fmt: str) -> Answer:
        return right(x, fmt)

    assert check(make(["mxfp4"], quantize=no_keywords)).formats[0].declined == 0


@pytest.mark.parametrize(("other", "alike"), [(in_part, True), (wrong_alone, False)])
def test_two_targets_are_compared_where_both_answer(other: Any, alike: bool) -> None:
    both = make(["mxfp4"], quantize=right), make(["mxfp4"], quantize=other)
    (result,) = diff(*both, formats=["mxfp4"]).formats
    compared, different = result.counts["scale"]
    assert compared > 5000
    assert (different == 0) is alike


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_a_scale_that_is_nan_may_be_refused(fmt: str) -> None:
    """By any exception that refuses: all other scales are judged, and what fails under one fails under that one."""
    block = get_block(fmt)

    def judge(refusal: type[Exception], doubled: int | None = None) -> Report:
        def dequantize(codes: Array, scales: Array, fmt: str) -> Array:
            if (scales == block.scale.nan_code).any():
                raise refusal("a scale is NaN")
            values = right_values(codes, scales, fmt)
            return np.where(np.repeat(scales, block.k, axis=-1) == doubled, 2 * values, values)

        return check(make([fmt], dequantize=dequantize), only="dequantize/*code")

    report, wrong, stumbled = judge(ValueError), judge(ValueError, doubled=0x10), judge(KeyError)
    assert failing(report) == {}
    assert (report.formats[0].failing, report.formats[0].declined) == (0, block.k)
    assert failing(wrong) == {f"dequantize/{fmt}/scale-code": "fail"}
    # A KeyError is no refusal: the code failed, under this scale alone.
    assert failing(stumbled) == {f"dequantize/{fmt}/scale-code": "error"}
    assert stumbled.formats[0].failing == block.k
