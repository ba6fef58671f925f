"""Sums that the judge takes as certain are the model's: large products, long sums, promoted sums, every path of a kernel."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mxspec import dot
from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, OUTPUTS, round_floats
from mxspec_conformance import check
from mxspec_conformance.judge.products import path_cases
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.judge.products.large_calls import list_large_calls
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.products.reference import allow, refer_case, round_exactly
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.products.kernels import KernelTarget
from mxspec_lab.products.kinds import KindKernel
from mxspec_lab.products.right import RIGHT

from tests.judge.product_target import ALL, BIAS, E4M3, E5M2, FP4, INT8, NVFP4, ZERO, Target, multiply, read


@pytest.mark.parametrize(
    ("a", "b"),
    [(E4M3, E4M3), (E5M2, E5M2), (INT8, INT8), (FP4, NVFP4), ("float16", ZERO), ("mxfp4-2to4", E4M3), ("float32", "float8_e5m2")],
)
def test_large_products_have_one_result(a: str, b: str) -> None:
    """The outputs that float64 has at once are those of the model, in every dtype."""
    session, product = InProcessSession(Target(a=a, b=b, OUT_DTYPES=ALL), "far"), parse_product(f"{a} @ {b}")
    maker = Maker(product, session.capabilities, ACCUMULATORS["float32"], 28)
    for call in list_large_calls(maker, ALL):
        allowed = allow(refer_case(call.case), call.case, ACCUMULATORS["float32"])
        assert allowed.decided.all(), call.case.label
        assert (allowed.low == round_floats(call.exact, OUTPUTS[call.case.out_dtype])).all(), call.case.label


class Loop:
    """A product in a loop: too slow for large calls."""

    NAME, VERSION, OPERANDS = "loop", "1", {"a": E4M3, "b": E4M3}

    def __init__(self) -> None:
        self.largest = 0

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        x, w = read(a), read(b)
        self.largest = max(self.largest, len(x) * len(w))
        end = time.process_time() + 0.02 * (len(x) * len(w) == 72 * 68)
        while time.process_time() < end:
            pass
        with np.errstate(all="ignore"):
            return multiply(x, w).astype(np.float32)


def test_a_slow_kernel_is_asked_for_no_large_product() -> None:
    target = Loop()
    assert check(target, in_process=True).exit_code == 0
    assert target.largest < 65536


def test_the_longest_sums_are_certain_in_every_class() -> None:
    """Long sums of many numbers are anything in float16: a kernel that drops what is beyond 8192 had float16 sums. Those of few are not."""
    capabilities = InProcessSession(Target(), "late").capabilities
    for accumulator in ACCUMULATORS.values():
        cases = list_cases(parse_product(f"{E4M3} @ {E4M3}"), capabilities, accumulator)
        (longest,) = (c for c in cases if c.topic == "shape" and c.a.shape[1] >= 12288)
        assert allow(refer_case(longest), longest, accumulator).decided.all()


@pytest.mark.parametrize(("unit", "verdict"), [("fused-f13-32", Verdict.FAIL), ("fused-f13-32-promoted-128", Verdict.PASS)])
def test_a_sum_that_is_never_promoted_is_told_from_one_that_is(unit: str, verdict: Verdict) -> None:
    kernel = replace(next(k for k in RIGHT if k.name == unit), product=(FP4, FP4), accumulator="fused-f13-32-promoted-128")
    (interval,) = (r for r in check(KernelTarget(kernel), in_process=True).requirements if r.topic == "interval")
    assert interval.verdict is verdict


def test_what_a_promoted_sum_may_lose_is_proven_by_its_largest_products() -> None:
    draw = np.random.default_rng(23)
    unit = ACCUMULATORS["fused-f13-32-promoted-128"]
    for spread in (1, 5, 12):
        x, w = (np.ldexp(draw.integers(-15, 16, (6, 640)).astype(np.float64), draw.integers(-spread, spread + 1, (6, 640))) for _ in "ab")
        a, b = dot.exact_factor(x), dot.exact_factor(w)
        sums = dot.sum_products(a, b)
        aligned = dot.sum_alignments(a, b)
        top = np.ldexp(1.0, a.exponents[:, None, :].astype(int) + b.exponents[None, :, :]).sum(axis=-1)
        assert (aligned >= top).all()
        close = unit.bound_error(replace(sums, aligned=aligned))
        assert (close <= unit.bound_error(sums)).all()
        assert (np.abs(dot.simulate_product(a, b, unit) - sums.nearest) <= close).all()


@pytest.mark.parametrize(
    "sides",
    [(E4M3, FP4), (NVFP4, NVFP4), (E5M2, "bfloat16"), ("float16", BIAS), ("bfloat16", "mxfp4-2to4"), ("float8_e5m2", "float8_e5m2")],
)
@pytest.mark.parametrize("accumulator", ["float32", "fused-f13-32", "bfloat16"])
def test_the_exact_sum_is_right_in_every_path(sides: tuple[str, str], accumulator: str) -> None:
    """Whatever class is declared; and most outputs have one right result in float32."""
    product = parse_product(f"{sides[0]} @ {sides[1]}")
    judged = ACCUMULATORS[accumulator]
    capabilities = Capabilities(
        name="exact", version="1", formats=(), functions=("matmul",), keywords={"matmul": ("alpha", "beta", "c", "bias")}, elements=(),
        products=(product.name,), out_dtypes=ALL,
    )  # fmt: skip
    certain = count = 0
    maker = Maker(product, capabilities, judged, seed=29)
    groups = [(dtype, group) for dtype in ALL for group in (path_cases.EVERY | (path_cases.FIRST if dtype == ALL[0] else {})).values()]
    for case in (replace(case, out_dtype=dtype) for dtype, group in groups for case in group(maker, dtype)):
        reference = refer_case(case)
        with np.errstate(all="ignore"):
            output = round_exactly(reference, case)
        allowed = allow(reference, case, judged)
        assert allowed.accepts(output).all(), case.label
        certain, count = certain + int(allowed.decided.sum()), count + output.size
    if accumulator == DEFAULT_ACCUMULATOR:
        assert certain > 0.6 * count


@pytest.mark.parametrize("product", ["float16 @ int4-g32-zero-float16/awq+awq-zeros+transposed", "mxfp8_e4m3 @ mxfp4", "nvfp4 @ nvfp4"])
def test_an_epilogue_is_asked_in_a_square(product: str) -> None:
    """Also where a layout takes multiples of eight columns alone."""
    kernel = KindKernel(name="any", product=(product.partition(" @ ")[0], product.partition(" @ ")[2]))
    capabilities = InProcessSession(KernelTarget(kernel), "any").capabilities
    cases = list_cases(parse_product(product), capabilities, ACCUMULATORS[DEFAULT_ACCUMULATOR])
    squares = [c for c in cases if c.options.get("c") is not None and c.a.shape[0] == c.b.shape[0] > 1]
    assert squares
    assert all((c.options["c"] != c.options["c"].T).any() for c in squares)
