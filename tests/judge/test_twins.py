"""What is kept of a call by less than all of it is found: the twin that differs in the rest is asked before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import layouts
from mxspec_conformance import check
from mxspec_conformance.results.report import Verdict

from tests.judge.shown import assert_shown
from tests.outside import KERNELS

#: Kernel -> what fails.
WRONG = {
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


@pytest.mark.parametrize("name", WRONG)
def test_what_is_kept_by_too_little_is_found(name: str) -> None:
    report = check(KERNELS[name].build(), in_process=True, only=WRONG[name].rpartition("/")[0] + "/*")
    found = {r.id for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.ERROR)}
    assert WRONG[name] in found
    assert_shown(report.requirements)


@pytest.mark.parametrize("part", ["the first 300 bytes", "both ends"])
def test_what_is_kept_by_a_part_of_the_bytes_is_found(part: str) -> None:
    kept: dict[Any, Any] = {}

    def name(a: Any) -> bytes:
        read = np.ascontiguousarray(a).tobytes()
        return read[:300] if part == "the first 300 bytes" else read[:64] + read[-64:]

    def unpack(data: Any, layout: str, shape: Any) -> Any:
        return kept.setdefault((layout, tuple(shape), name(data)), np.array(layouts.unpack(data, layout, shape)))

    def encode(x: Any, element: str) -> Any:
        return kept.setdefault((element, x.shape, name(x)), mxspec.encode(x, element))

    one = SimpleNamespace(NAME="part", VERSION="1", LAYOUTS=["nibble-low"], ELEMENTS=["e2m1"], unpack=unpack, encode=encode)
    report = check(one, in_process=True, only="*/state")
    found = {r.id for r in report.requirements if r.verdict == Verdict.FAIL}
    assert found == {"unpack/nibble-low/state", "encode/e2m1/state"}


@pytest.mark.parametrize("name", ["work-memo-all", "work-affine-memo", "work-packing"])
def test_what_is_kept_by_all_of_a_call_is_right(name: str) -> None:
    report = check(KERNELS[name].build(), in_process=True, only="*/state")
    assert not [r.id for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.ERROR)]
    assert sum(r.cases for r in report.requirements) > 0
