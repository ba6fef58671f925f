"""`quantize` with block scales that are given: right targets in every form pass, wrong ones fail that requirement and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import mxspec
from mxspec.layouts import get_layout
from mxspec_conformance import check
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.library import Library
from mxspec_conformance.transports.opening import open_target

REQUIREMENT = "given-scale"


def right(x: Any, fmt: str, scales: Any = None, axis: int = -1, **options: Any) -> Any:
    t = mxspec.quantize(x, fmt, profile="mx-floor", scales=scales, axis=axis)
    return t.codes, t.scales


def ignored(x: Any, fmt: str, scales: Any = None, axis: int = -1) -> Any:
    return right(x, fmt, axis=axis)


def one_for_all(x: Any, fmt: str, scales: Any = None, axis: int = -1) -> Any:
    return right(x, fmt, None if scales is None else np.full_like(scales, scales.reshape(-1)[0]), axis)


def own_returned(x: Any, fmt: str, scales: Any = None, axis: int = -1) -> Any:
    return right(x, fmt, scales, axis)[0], right(x, fmt, None, axis)[1]


def never_above_own(x: Any, fmt: str, scales: Any = None, axis: int = -1) -> Any:
    return right(x, fmt, None if scales is None else np.minimum(scales, right(x, fmt, None, axis)[1]), axis)


def transposed_in_columns(x: Any, fmt: str, scales: Any = None, axis: int = -1) -> Any:
    if scales is not None and axis == 0:
        scales = np.ascontiguousarray(scales.T).reshape(scales.shape)
    return right(x, fmt, scales, axis)


def without_a_pitch(x: Any, fmt: str, scales: Any = None, axis: int = -1) -> Any:
    """Scales that are a view are read as if their rows followed each other."""
    if scales is not None and not scales.flags.c_contiguous and min(scales.strides) > 0:
        scales = as_strided(scales, scales.shape, (scales.shape[1], 1))
    return right(x, fmt, scales, axis)


def kept_by_numbers() -> Callable[..., Any]:
    kept: dict[Any, Any] = {}
    return lambda x, fmt, scales=None: kept.setdefault(
        (x.shape, x.tobytes(), scales is None or scales.tobytes()[:4]), right(x, fmt, scales)
    )


def make(function: Callable[..., Any], **attributes: Any) -> SimpleNamespace:
    return SimpleNamespace(NAME="kernel", VERSION="1", FORMATS=["mxfp4"], PROFILE="mx-floor", quantize=function, **attributes)


def judge(target: Any) -> tuple[int, dict[str, str]]:
    """The exit code, and what did not pass."""
    report = check(target, only=f"quantize/mxfp4/{REQUIREMENT}", quick=True)
    return report.exit_code, {r.topic: r.verdict.value for r in report.requirements}


def in_tiles(x: Any, fmt: str, scales: Any = None) -> Any:
    layout, shape = get_layout("128x4"), (x.shape[0], x.shape[1] // 32)
    codes, found = right(x, fmt, None if scales is None else layout.unpack(scales, shape)[0])
    return codes, layout.pack(found)


@pytest.mark.parametrize("target", [make(right), make(right, SHAPES={"rows": 16, "k": 128}), make(in_tiles, LAYOUT=("unpacked", "128x4"))])
def test_right_targets_pass(target: Any) -> None:
    assert judge(target) == (0, {REQUIREMENT: "pass"})


@pytest.mark.parametrize("wrong", [ignored, one_for_all, own_returned, never_above_own, transposed_in_columns])
def test_wrong_targets_fail_that_alone(wrong: Callable[..., Any]) -> None:
    assert judge(make(wrong)) == (1, {REQUIREMENT: "fail"})


@pytest.mark.parametrize("wrong", [without_a_pitch, kept_by_numbers()])
def test_calls_with_given_scales_depend_on_no_others(wrong: Callable[..., Any]) -> None:
    """Which the smallest selection of calls does not ask."""
    report = check(make(wrong), only=f"quantize/mxfp4/{REQUIREMENT}")
    assert [r.verdict.value for r in report.requirements] == ["fail"]


def test_tensor_scales_are_passed_as_well() -> None:
    report = check("mxspec", formats=["nvfp4"], only=f"quantize/nvfp4/{REQUIREMENT}", quick=True)
    (requirement,) = report.requirements
    assert requirement.verdict == "pass"
    assert requirement.cases > 45, "not without a tensor scale alone"


def test_the_case_shows_both_scales_and_the_code() -> None:
    (requirement,) = check(make(ignored), only=f"quantize/mxfp4/{REQUIREMENT}", quick=True).requirements
    assert requirement.first is not None
    assert requirement.first.given["scale that is given"] == requirement.first.expected["scale"] != requirement.first.returned["scale"]


def test_scales_that_are_needed_in_every_call_are_refused() -> None:
    with pytest.raises(TargetError, match="quantize takes scales without a default"):
        open_target(make(lambda x, fmt, scales: right(x, fmt, scales)))


def test_a_c_library_cannot_take_them() -> None:
    document = {"mxspec": 1, "name": "k", "version": "1", "capabilities": {"functions": {"quantize": ["scales"]}, "formats": ["mxfp4"]}}
    with pytest.raises(TargetError, match="mxspec_quantize_call has no field"):
        Library(None, document, "k.so")
