"""Products of FP8 in groups of 128 with float32 scales, by rows and in tiles: right kernels pass, wrong ones are found."""

from __future__ import annotations

import pytest

from mxspec_conformance.judge.check import check

from tests.float_scale_kernels import RIGHT, WRONG, make_kernel


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_product_passes(name: str) -> None:
    report = check(make_kernel(RIGHT[name]), in_process=True, quick=True)
    assert [(r.id, r.failing_cases[:1]) for r in report.requirements if r.verdict not in ("pass", "unsupported")] == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_found(name: str) -> None:
    kernel = make_kernel(*WRONG[name])
    kernel.OPERANDS = kernel.OPERANDS[:1]
    assert check(kernel, in_process=True, quick=True).exit_code == 1
