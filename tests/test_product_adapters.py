"""Real libraries' products: what the judge says of them, as it was found."""

from __future__ import annotations

import pytest

from mxspec_conformance import Report, check
from mxspec_conformance.results.report import Verdict


def wrong(report: Report) -> set[tuple[str, Verdict]]:
    return {(r.id, r.verdict) for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.OPEN, Verdict.UNSUPPORTED)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_conforms(dtype: str) -> None:
    report = check(f"numpy-products-{dtype}", in_process=True)
    assert wrong(report) == set()
    assert len(report.formats) == 10


def test_mlx_takes_the_scale_ff_as_infinity_and_is_right_otherwise() -> None:
    pytest.importorskip("mlx.core")
    report = check("mlx-products-float32", in_process=True)
    assert wrong(report) == {(f"matmul/float32@{fmt}/nan", Verdict.FAIL) for fmt in ("mxfp4", "mxfp8_e4m3")}
    assert [f.deviations for f in report.formats] == [["the scale code FF of b is taken as infinity"]] * 2 + [[]] * 4
    assert [f.format for f in report.formats if f.format.startswith("float32@int")] == [
        "float32@int4-g64-bias-float32", "float32@int8-g32-bias-float32", "float32@int3-g128-bias-float32"
    ]  # fmt: skip


def test_mlx_adds_16_bit_products_in_16_bits() -> None:
    pytest.importorskip("mlx.core")
    report = check("mlx-products-bfloat16", in_process=True)
    deviations = {r.id for r in report.requirements if r.verdict is Verdict.DEVIATION}
    assert {f"matmul/bfloat16@{fmt}/sum" for fmt in ("mxfp4", "mxfp8_e4m3", "nvfp4")} <= deviations
    affine = {f.format: f.behaviour for f in report.formats if "int" in f.format}
    assert {b["sums"] for b in affine.values()} == {"bfloat16 additions in any order and rounding"}
