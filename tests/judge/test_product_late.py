"""Products that are wrong in long sums with something added, in scales beside other memory, in zeros under NaN or in low bits alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec import dot
from mxspec.dot import ACCUMULATORS
from mxspec_conformance import check
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.products.kernels import KernelTarget, element_table, finish_float32, scale_table
from mxspec_lab.products.right import RIGHT

from tests.judge.failing import list_failing

LONG = 2048
MX = "mxfp8_e4m3"


def read(side: Any) -> Any:
    """The numbers of a side."""
    if isinstance(side, np.ndarray):
        return side.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return element_table(side.format)[side.codes] * np.repeat(scale_table(side.format)[side.scales], 32, axis=1)


@dataclass
class Target:
    """A `matmul` with C and bias: `change` alters the call's parts, or returns the sums."""

    change: Callable[[dict[str, Any]], Any]
    a: str = MX
    NAME: str = "late"
    VERSION: str = "1"
    kept: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.OPERANDS = {"a": self.a, "b": MX}

    def matmul(self, a: Any, b: Any, out_dtype: str, beta: float | None = None, c: Any = None, bias: Any = None) -> Any:
        call = {"a": a, "b": b, "x": read(a), "w": read(b), "beta": beta, "bias": bias, "kept": self.kept}
        with np.errstate(all="ignore"):
            total = self.change(call)
            total = call["x"] @ call["w"].T if total is None else total
        return finish_float32(total, 1.0, None, call["beta"], c, call["bias"], out_dtype)


def bias_of_each_split(call: dict[str, Any]) -> None:
    if call["x"].shape[1] > LONG and call["bias"] is not None:
        call["bias"] = call["bias"] * 2


def c_of_each_split(call: dict[str, Any]) -> None:
    if call["x"].shape[1] > LONG and call["beta"] is not None:
        call["beta"] = call["beta"] * 2


def long_sums_go_on(call: dict[str, Any]) -> Any:
    total = call["x"] @ call["w"].T
    if call["x"].shape[1] > LONG:
        call["kept"][total.shape] = total = total + call["kept"].get(total.shape, 0)
    return total


def zeros_under_nan(call: dict[str, Any]) -> None:
    call["x"] = np.where(call["a"].codes & 127 == 0, 0, call["x"])


def scales_as_they_lie(call: dict[str, Any]) -> None:
    scales = call["a"].scales
    if scales.strides[0] > scales.shape[1] > 1:
        lies = np.lib.stride_tricks.as_strided(scales, scales.shape, (scales.shape[1], 1))
        call["x"] = element_table(MX)[call["a"].codes] * np.repeat(scale_table(MX)[lies], 32, axis=1)


def two_bfloat16(call: dict[str, Any]) -> None:
    x = call["a"]
    high = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    low = np.where(np.isfinite(x), x - high, 0).astype(ml_dtypes.bfloat16)
    call["x"] = high.astype(np.float64) + low.astype(np.float64)


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "bias of each split": (bias_of_each_split, "epilogue"),
    "C of each split": (c_of_each_split, "epilogue"),
    "long sums go on": (long_sums_go_on, "state"),
    "zeros under NaN": (zeros_under_nan, "nan"),
    "scales as they lie": (scales_as_they_lie, "memory"),
    "two bfloat16": (two_bfloat16, "identity"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_found(name: str) -> None:
    change, topic = WRONG[name]
    assert topic in list_failing(Target(change, a="float32" if name == "two bfloat16" else MX))


def test_the_longest_sums_are_certain_in_every_class() -> None:
    """Long sums of many numbers are anything in float16: a kernel that drops what is beyond 8192 had float16 sums. Those of few are not."""
    capabilities = InProcessSession(Target(lambda call: None), "late").capabilities
    for accumulator in ACCUMULATORS.values():
        cases = list_cases(parse_product(f"{MX} @ {MX}"), capabilities, accumulator)
        (longest,) = (c for c in cases if c.topic == "shape" and c.a.shape[1] >= 12288)
        assert allow(refer_case(longest), longest, accumulator).decided.all()


@pytest.mark.parametrize(("unit", "verdict"), [("fused-f13-32", Verdict.FAIL), ("fused-f13-32-promoted-128", Verdict.PASS)])
def test_a_sum_that_is_never_promoted_is_told_from_one_that_is(unit: str, verdict: Verdict) -> None:
    kernel = replace(next(k for k in RIGHT if k.name == unit), product=("mxfp4", "mxfp4"), accumulator="fused-f13-32-promoted-128")
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


@pytest.mark.parametrize("first", "ab")
def test_block_sums_scaled_one_scale_after_the_other_are_right(first: str) -> None:
    def scale(call: dict[str, Any]) -> Any:
        a, b = call["a"], call["b"]
        q = [element_table(MX)[side.codes].astype(np.float32) for side in (a, b)]
        s = scale_table(MX)[a.scales].astype(np.float32).T[:, :, None], scale_table(MX)[b.scales].astype(np.float32).T[:, None, :]
        total = np.zeros((len(q[0]), len(q[1])), np.float32)
        for i in range(a.scales.shape[1]):
            dot = q[0][:, i * 32 : i * 32 + 32] @ q[1][:, i * 32 : i * 32 + 32].T
            total = total + (dot * s[0][i] * s[1][i] if first == "a" else dot * s[1][i] * s[0][i])
        return total.astype(np.float64)

    assert list_failing(Target(scale)) == set()
