"""Kernels that look at a whole tensor and take another path are found; what blocks are alone, they are among others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance import check
from mxspec_conformance.results.report import Verdict

Array = Any


def kernel(wrong: Callable[[Array], bool], function: str = "quantize") -> Any:
    def quantize(x: Array, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        codes = np.array(t.codes)
        if x.size > 512 and len(x) > 1 and wrong(x):
            codes[-1, -1] ^= 1
        return codes, t.scales

    def dequantize(codes: Array, scales: Array, fmt: str) -> Any:
        values = np.array(mxspec.dequantize(codes, scales, fmt))
        if codes.size > 512 and len(codes) > 1 and wrong(codes):
            values[-1] = 0
        return values

    return SimpleNamespace(NAME="contents", VERSION="1", FORMATS=["mxfp4"], **{function: locals()[function]})


WRONG: dict[str, Callable[[Array], bool]] = {
    "no negative number": lambda x: (x >= 0).all(),
    "no positive number": lambda x: (x <= 0).all(),
    "finite numbers": lambda x: np.isfinite(x).all(),
    "the range of float16": lambda x: np.isfinite(x).all() and np.abs(x).max() <= 65504,
    "one number": lambda x: (x == x.flat[0]).all(),
    "magnitudes of one": lambda x: (np.abs(x) == 1).all(),
    "one magnitude of either sign": lambda x: len(np.unique(np.abs(x))) == 1 and np.abs(x[0, 0]) != 1 and len(np.unique(x)) == 2,
    "subnormal numbers": lambda x: 0 < np.abs(x).max() < 2.0**-126,
    "tiny numbers": lambda x: 0 < np.abs(x).max() < 1e-30,
    "huge numbers": lambda x: np.isfinite(x).all() and np.abs(x).reshape(-1, 32).max(axis=1).min() > 2.0**100,
    "zeros first": lambda x: not x[0].any() and x[1].any(),
    "zeros last": lambda x: not x[-1].any() and np.count_nonzero(x) > 1,
    "zeros in half of the columns": lambda x: not x[:, : x.shape[1] // 2].any(),
    "zeros in every second row": lambda x: not x[::2].any() and x[1::2].any(axis=1).all(),
    "NaN in a row": lambda x: np.isnan(x).all(axis=1).any() and x.shape[1] >= 128,
    "one number among zeros": lambda x: np.count_nonzero(x) == 1,
    "the identity": lambda x: x.shape[0] == x.shape[1] and (x == np.eye(len(x))).all(),
    "a sum of zero": lambda x: np.isfinite(x).all() and x.any() and x.sum() == 0,
    "rows that rise": lambda x: (np.diff(x, axis=1) > 0).all(),
    "rows that fall": lambda x: (np.diff(x, axis=1) < 0).all(),
    "whole numbers": lambda x: np.abs(x).max() < 16 and (x == np.rint(x)).all() and (x != x.flat[0]).any(),
    "the last row as the first": lambda x: np.array_equal(x[0], x[-1]) and not np.array_equal(x[0], x[1]),
    "two kinds of rows": lambda x: len(np.unique(x, axis=0)) == 2,
    "two kinds of columns": lambda x: len(np.unique(x.reshape(len(x), -1, 32), axis=1)[0]) == 2,
}


def judge(target: Any, function: str, *, quick: bool) -> list[str]:
    report = check(target, in_process=True, only=f"{function}/mxfp4/call-size", quick=quick)
    return [r.topic for r in report.requirements if r.verdict is Verdict.FAIL]


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_wrong_for_one_kind_of_tensor_is_found(name: str) -> None:
    assert judge(kernel(WRONG[name]), "quantize", quick=True) == ["call-size"]


@pytest.mark.parametrize("function", ["quantize", "dequantize"])
@pytest.mark.parametrize("quick", [True, False])
def test_a_right_one_is_not_accused(function: str, quick: bool) -> None:
    assert judge(kernel(lambda x: False, function), function, quick=quick) == []


def test_rows_of_zeros_are_asked_of_dequantize() -> None:
    def wrong(codes: Array) -> bool:
        return bool((codes[-2] == 0).all()) and codes[-1].any()

    assert judge(kernel(wrong, "dequantize"), "dequantize", quick=True) == ["call-size"]


def test_rows_that_come_again_are_asked_of_dequantize() -> None:
    def wrong(codes: Array) -> bool:
        return np.array_equal(codes[0], codes[-1]) and not np.array_equal(codes[0], codes[1])

    assert judge(kernel(wrong, "dequantize"), "dequantize", quick=True) == ["call-size"]
