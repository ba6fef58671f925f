"""Kernels of the set of outsiders: right ones are not accused, and each wrong one fails its requirement and shows why."""

from __future__ import annotations

import pytest

from mxspec_conformance import check
from mxspec_conformance.results.report import Verdict

from tests.judge.shown import assert_shown
from tests.outside import KERNELS

RIGHT = ("work-packing-refuses", "form-tiles-dirty", "right-product-prepared", "right-product-nvfp4")
#: Kernel -> what fails, in the whole matrix of calls: those that once passed.
ESCAPED = {
    "memory-arena": "quantize/mxfp4/memory",
    "memory-input-cleared-later": "quantize/mxfp4/memory",
    "size-blocks-1-mod-256-bfloat16": "quantize/mxfp4/call-size",
    "size-k-18944": "quantize/mxfp4/call-size",
    "size-k-above-a-power-first": "quantize/nvfp4/call-size",
    "encode-threads-to-nearest": "encode/e4m3/state",
    "encode-large-saturates": "encode/e5m2/call-size",
    "words-fortran": "stochastic/mxfp4/random-bits",
    "words-bfloat16": "stochastic/mxfp4/random-bits",
    "words-large": "stochastic/mxfp4/random-bits",
    "amax-one-column": "tensor_scale/nvfp4/call-size",
    "pack-two-experts": "pack/nibble-low/call-size",
    "pack-gptq-rows-24": "pack/gptq/call-size",
    "seed-period-of-rows": "stochastic/mxfp4/independence",
    "seed-large-to-nearest": "stochastic/mxfp4/probability",
}
#: What is kept of a call by less than all of it.
KEPT = {
    "kept-without-axis": "quantize/mxfp4/state",
    "kept-without-block": "quantize/nvfp4/state",
    "kept-without-dtype": "quantize/mxfp4/state",
    "kept-float16": "quantize/mxfp4/state",
    "kept-tensor-scale-three-digits": "quantize/nvfp4/state",
    "values-kept-without-scales": "dequantize/mxfp4/state",
    "values-kept-scales-first": "dequantize/mxfp4/state",
    "words-kept-by-numbers-and-sum": "stochastic/e2m1/state",
    "affine-kept-without-offsets": "dequantize_affine/int4-g64-bias-float16/state",
    "affine-kept-by-sum": "quantize_affine/int4-g64-bias-float16/state",
    "affine-kept-magnitudes": "quantize_affine/int4-g64-bias-float16/state",
    "sparse-kept-sum": "prune/e2m1-2to4/state",
    "unpack-kept-without-layout": "unpack/nibble-high/state",
    "unswizzle-kept-without-shape": "unswizzle/128x4/state",
    "swizzle-kept-without-shape": "swizzle/128x4/state",
    "records-kept-by-codes": "pack_blocks/ggml-mxfp4/state",
}
#: Product -> the topic that fails.
PRODUCTS = {
    "symmetric-by-codes": "block-scale", "zeros-skipped": "nan", "beta-falsy": "epilogue", "negative-alpha": "epilogue", "one-row-bias": "epilogue",
    "long-in-half": "sum", "out-dtype-kept": "state", "after-half": "state", "weights-by-scales": "state",
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_is_not_accused(name: str) -> None:
    assert check(KERNELS[name].build(), in_process=True).exit_code == 0


@pytest.mark.parametrize("name", ["work-memo-all", "work-affine-memo", "work-packing"])
def test_what_is_kept_by_all_of_a_call_is_right(name: str) -> None:
    report = check(KERNELS[name].build(), in_process=True, only="*/state")
    assert not [r.id for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.ERROR)]
    assert sum(r.cases for r in report.requirements) > 0


def assert_found(name: str, requirement: str) -> None:
    report = check(KERNELS[name].build(), in_process=True, only=requirement.rpartition("/")[0] + "/*")
    assert requirement in {r.id for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.ERROR)}
    assert_shown(report.requirements)


@pytest.mark.share(8)
@pytest.mark.all_calls
@pytest.mark.parametrize("name", ESCAPED)
def test_a_wrong_one_is_found(name: str) -> None:
    assert_found(name, ESCAPED[name])


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_by_too_little_is_found(name: str) -> None:
    assert_found(name, KEPT[name])


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_wrong_product_is_found(name: str) -> None:
    report = check(KERNELS[f"product-{name}"].build(), in_process=True)
    assert PRODUCTS[name] in {r.topic for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.DEVIATION)}
    assert_shown(report.requirements)
