"""Tensor scales: each kind is handed over as it is named, and a wrong name is found and said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec_conformance.judge.check import check

from tests.bugs import find
from tests.bugs.building import make
from tests.bugs.judging import judge
from tests.bugs.tensor_scales import MISTAKEN, PROFILES
from tests.judge.reading import failing, passed


@pytest.mark.parametrize("kind", PROFILES)
def test_kinds_of_tensor_scale(kind: str) -> None:
    profile, entry = PROFILES[kind], find(f"tensor scales of the kind {kind}")
    assert {"quantize/nvfp4/tensor-scale", "tensor_scale/nvfp4/tensor-scale"} <= passed(judge(entry))
    nearest = check(entry.target())
    assert profile in nearest.formats[0].identical_to
    if kind == "decode":
        # It is no normative profile; the tensor scale itself, amax / 2688, is right all the same.
        assert nearest.formats[0].judged_against == "nvfp4-decode"
        assert set(failing(nearest).values()) == {"deviation"}
        assert "tensor_scale/nvfp4/tensor-scale" in passed(nearest)
    else:
        assert nearest.formats[0].judged_against == profile
        assert (failing(nearest), nearest.exit_code) == ({}, 0)


@pytest.mark.parametrize(("named", "used"), [pair[:2] for pair in MISTAKEN])
def test_the_wrong_kind_of_tensor_scale_is_named(named: str, used: str) -> None:
    """What the target does is said; what is fine without a tensor scale, and every scale byte of dequantize, passes."""
    report = judge(find(f"{used} named {named}"))
    assert {"dequantize/nvfp4/scale-code", "dequantize/nvfp4/code", "quantize/nvfp4/nan"} <= passed(report)
    (result,) = report.formats
    assert result.deviations == [
        *(f"{function} uses its tensor scale as {used}; TENSOR_SCALE says {named}" for function in ("quantize", "dequantize")),
        f"tensor_scale returns the {used} scale; TENSOR_SCALE says {named}",
    ]
    assert result.identical_to == []


def test_the_wrong_kind_of_tensor_scale_is_named_without_a_one_level_form() -> None:
    """As real kernels are: there is no table without a tensor scale to compare with."""
    report = judge(find("amax named decode, without a one-level form"))
    assert report.formats[0].deviations == ["dequantize uses its tensor scale as amax; TENSOR_SCALE says decode"]


def test_the_quick_level_names_it_too() -> None:
    report = check(find("decode named encode").target(), only="quantize/nvfp4/*", quick=True)
    assert report.formats[0].deviations[0] == "quantize uses its tensor scale as decode; TENSOR_SCALE says encode"


def test_a_wrong_scale_byte_under_tensor_scales_is_no_matter_of_the_tensor_scale() -> None:
    report = judge(find("a wrong scale byte under tensor scales"))
    assert set(failing(report)) == {"dequantize/nvfp4/scale-code"}
    assert report.formats[0].deviations == []


def test_a_scale_that_depends_on_the_dtype_is_no_matter_of_calls() -> None:
    """The same numbers have one scale; a kernel that computes it in bfloat16 for bfloat16 numbers does so in every call."""

    def tensor_scale(x: npt.NDArray[Any], fmt: str) -> float:
        scale = np.float32(np.abs(x.astype(np.float32)).max() / np.float32(2688))
        return float(scale.astype(ml_dtypes.bfloat16) if x.dtype == ml_dtypes.bfloat16 else scale)

    target = find("tensor scales of the kind decode").target()
    target.DTYPES, target.tensor_scale = ["float32", "bfloat16"], tensor_scale
    report = check(target, only="tensor_scale/nvfp4/*")
    assert failing(report) == {"tensor_scale/nvfp4/tensor-scale": "fail"}
    (found,) = [r for r in report.requirements if r.id == "tensor_scale/nvfp4/tensor-scale"]
    assert "bfloat16, the numbers of a tensor in float32" in found.failing_cases
    assert all(case.startswith("bfloat16, ") for case in found.failing_cases)
    assert {"tensor_scale/nvfp4/call-size", "tensor_scale/nvfp4/memory"} <= passed(report)
    target.DTYPES = ["bfloat16"]
    assert "tensor_scale/nvfp4/refusal" in passed(check(target, only="tensor_scale/nvfp4/*"))


def test_a_rounded_reciprocal_is_named_whatever_quantize_does() -> None:
    def tensor_scale(x: npt.NDArray[Any], fmt: str) -> float:
        with np.errstate(all="ignore"):
            scale = np.float32(2688) * (np.float32(1) / np.abs(x.astype(np.float32)).max())
        return float(np.nan_to_num(scale, nan=np.nan, posinf=np.finfo(np.float32).max))

    def quantize(x: npt.NDArray[Any], fmt: str, tensor_scale: float) -> Any:
        scale = mxspec.TensorScale("encode", int(np.float32(tensor_scale).view(np.uint32)))
        t = mxspec.quantize(x, fmt, profile=cutting, tensor_scale=scale)
        return t.codes, t.scales

    steps = mxspec.get_profile("nvfp4-paper", "nvfp4").two_level
    assert steps is not None
    cutting = replace(
        mxspec.get_profile("nvfp4-paper", "nvfp4"), two_level=replace(steps, element=steps.element.with_rounding(mxspec.Rounding.RTZ))
    )
    report = check(make(["nvfp4"], TENSOR_SCALE="encode", tensor_scale=tensor_scale, quantize=quantize))
    (told,) = [r for r in report.requirements if r.id == "tensor_scale/nvfp4/tensor-scale"]
    assert told.note == "as if a rounded reciprocal were multiplied with, where a quotient is required"
