"""One wrong entry anywhere among the 16-bit numbers is found; right encoders of every element pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.formats import ELEMENTS, SCALES, get_scalar
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.every_number import DTYPES, list_numbers

from tests.bugs.building import Array


def judge(element: str, encode: Any) -> tuple[str, int]:
    target = type("Target", (), {"NAME": "target", "ELEMENTS": [element], "encode": staticmethod(encode)})
    (found,) = check(target, only=f"encode/{element}/mixture").requirements
    return found.verdict.value, found.failing


@pytest.mark.parametrize("element", [*ELEMENTS, "ue4m3"])
def test_a_right_encoder_passes(element: str) -> None:
    assert judge(element, lambda x, fmt: mxspec.encode(x, fmt)) == ("pass", 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("element", ["e2m1", "e4m3", "int8"])
def test_one_wrong_number_is_found(element: str, dtype: str) -> None:
    numbers = list_numbers(get_scalar(element), dtype)
    others = [list_numbers(get_scalar(element), d) for d in DTYPES if d != dtype]
    own = numbers[~np.isin(numbers, np.concatenate(others))]
    # Numbers of this dtype alone, not those of few significant bits that the vectors have too.
    chosen = own[(own.view(np.uint32) >> 13 & 0x3FF) % 128 == 77] if dtype == "float16" else own[len(own) // 3 :: 997]
    assert len(chosen)
    wrong = chosen[len(chosen) // 2]

    def encode(x: Array, fmt: str) -> Array:
        codes = mxspec.encode(x, fmt)
        return np.where(x == wrong, codes ^ 1, codes).astype(np.uint8)

    verdict, failing = judge(element, encode)
    assert verdict == "fail"
    assert failing >= 1


def test_scales_are_numbers_too() -> None:
    assert set(SCALES) >= {"e8m0", "ue4m3"}
    assert len(list_numbers(get_scalar("ue4m3"), "bfloat16")) > 10_000
