"""Products that depend on the call before, or are wrong in long sums, wide epilogues and beside zeros alone, are found."""

from __future__ import annotations

import pytest

from mxspec_conformance import check
from mxspec_conformance.results.report import Verdict

from tests.judge.shown import assert_shown
from tests.outside import KERNELS

#: Kernel -> the topic that fails.
WRONG = {
    "symmetric-by-codes": "block-scale", "zeros-skipped": "nan", "beta-falsy": "epilogue", "negative-alpha": "epilogue", "one-row-bias": "epilogue",
    "long-in-half": "sum", "out-dtype-kept": "state", "after-half": "state", "weights-by-scales": "state",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_found(name: str) -> None:
    report = check(KERNELS[f"product-{name}"].build(), in_process=True)
    assert WRONG[name] in {r.topic for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.DEVIATION)}
    assert_shown(report.requirements)


@pytest.mark.parametrize("name", ["prepared", "nvfp4"])
def test_a_right_product_is_not_accused(name: str) -> None:
    assert check(KERNELS[f"right-product-{name}"].build(), in_process=True).exit_code == 0
