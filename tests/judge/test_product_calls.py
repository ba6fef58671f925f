"""Ordinary and nasty ways in which a `matmul` may be written: what is right passes, what depends on the call does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.dot import ACCUMULATORS, block_factor
from mxspec.formats import E2M1, E8M0
from mxspec.layouts import list_layouts
from mxspec_conformance import check
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.laying_out import lay_out
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.products.kernels import Kernel

KERNEL = Kernel(name="right", product=("mxfp4", "mxfp4"))
Matmul = Callable[[Any, Any, str], Any]


def right(a: Any, b: Any, out_dtype: str) -> Any:
    return KERNEL.matmul(a, b, out_dtype)


def target(matmul: Any = right, **more: Any) -> Any:
    given = {"NAME": "calls", "VERSION": "1", "OPERANDS": {"a": "mxfp4", "b": "mxfp4"}, "matmul": matmul}
    return SimpleNamespace(**(given | more))


def failing(given: Any) -> dict[str, Verdict]:
    return {r.topic: r.verdict for r in check(given).requirements if r.verdict not in (Verdict.PASS, Verdict.OPEN)}


class Subclass(np.ndarray):
    """An array of a library's own."""


def read_only(a: Any, b: Any, out_dtype: str) -> Any:
    y = right(a, b, out_dtype)
    y.setflags(write=False)
    return y


@pytest.mark.parametrize(
    "matmul",
    [
        lambda a, b, out_dtype: np.asfortranarray(right(a, b, out_dtype)),
        lambda a, b, out_dtype: right(a, b, out_dtype).view(Subclass),
        lambda a, b, out_dtype, **more: right(a, b, out_dtype),
        lambda a, b, dtype: right(a, b, dtype),
        lambda a, b, out_dtype: np.concatenate([right(a, b, out_dtype)] * 2, axis=1)[:, : b.shape[0]],
        read_only,
    ],
)
def test_ordinary_ways_pass(matmul: Matmul) -> None:
    assert failing(target(matmul)) == {}


def make_refusing(error: type[Exception]) -> Matmul:
    """Nothing is answered but in the thread that made it."""

    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise error("another thread")
        return right(a, b, out_dtype)

    return matmul


def test_other_threads_may_be_refused() -> None:
    assert failing(target(make_refusing(RuntimeError))) == {}
    assert failing(target(make_refusing(AttributeError))) == {"state": Verdict.ERROR}


@pytest.mark.parametrize(
    ("matmul", "words"),
    [
        (lambda a, b: right(a, b, "float32"), "TypeError"),
        (lambda a, b, out_dtype: right(a, b, out_dtype).tolist(), "is a list, not an array"),
        (lambda a, b, out_dtype: None, "is a NoneType, not an array"),
        (lambda a, b, out_dtype: right(a, b, out_dtype).astype(np.int32), "return float32"),
        (lambda a, b, out_dtype: right(a, b, out_dtype)[0, 0], "returned shape ()"),
        (lambda a, b, out_dtype: right(a, b, out_dtype)[..., None], "returned shape"),
        (lambda a, b, out_dtype: right(a, b, out_dtype) + 0j, "dtype complex64"),
        (lambda a, b, out_dtype: right(a, b, out_dtype).astype(np.float64), "dtype float64"),
        (lambda a, b, out_dtype: (right(a, b, out_dtype),) * 2, "not an array"),
    ],
)
def test_what_is_no_answer_is_an_error_in_words(matmul: Any, words: str) -> None:
    report = check(target(matmul))
    # An exception may be a refusal, which the judge leaves open where a call may be refused.
    assert {r.verdict for r in report.requirements} <= {Verdict.ERROR, Verdict.OPEN}
    assert report.exit_code == 1
    assert all(words in r.note for r in report.requirements)


def test_a_call_that_raises_is_the_requirements_of_that_call_alone() -> None:
    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        if (a.shape[0], b.shape[0]) == (17, 33):
            raise SystemExit(3)
        return right(a, b, out_dtype)

    assert failing(target(matmul)) == {"shape": Verdict.ERROR}


def test_a_function_of_this_name_without_operands_is_none_of_ours() -> None:
    given = SimpleNamespace(NAME="t", FORMATS=["mxfp4"], matmul=np.matmul, decode=mxspec.decode, ELEMENTS=["e2m1"])
    assert InProcessSession(given, "t").capabilities.functions == ("decode",)


def test_multiples_that_would_take_minutes_are_refused() -> None:
    with pytest.raises(TargetError, match="PRODUCT_SHAPES says k of 4096; allowed are whole numbers from 1 to 512"):
        check(target(PRODUCT_SHAPES={"k": 4096}))


@pytest.mark.parametrize("layout", [layout.name for layout in list_layouts()])
def test_every_layout_that_holds_a_format_is_laid_out(layout: str) -> None:
    """Each is refused as a declaration, or laid out in all sizes that are asked."""
    for fmt in ("mxfp4", "nvfp4", "mxfp8_e4m3", "mxfp6_e2m3"):
        given = target(OPERANDS={"a": "bfloat16", "b": f"{fmt}/{layout}"})
        try:
            capabilities = InProcessSession(given, "t").capabilities
        except TargetError:
            continue
        cases = list_cases(parse_product(capabilities.products[0]), capabilities, ACCUMULATORS["float32"])
        for case in cases[::6]:
            assert all(part.size for part in lay_out(case.b).values())


@pytest.mark.usefixtures("restored_registry")
def test_registered_formats_are_judged_with_or_without_a_profile() -> None:
    scale = mxspec.ScaleFormat(
        name="ue5m3", bits=8, exponent_bits=5, mantissa_bits=3, bias=15, signed=False, has_zero=True, max_code=0xFE, nan_code=0xFF
    )
    blocks = [
        mxspec.BlockFormat(name="fp4x16", element=E2M1, scale=E8M0, k=16, shapes=((1, 16),)),
        mxspec.BlockFormat(name="fp4ue5", element=E2M1, scale=scale, k=16, shapes=((1, 16),)),
    ]

    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        sides = [block_factor(x.codes, x.scales, x.format).values.astype(np.float32) for x in (a, b)]
        with np.errstate(all="ignore"):
            return sides[0] @ sides[1].T

    mxspec.register_scalar(scale)
    for block in blocks:
        mxspec.register_block(block)
        assert failing(target(matmul, OPERANDS={"a": block.name, "b": "mxfp8_e4m3"})) == {}


def test_formats_choose_products_by_either_side() -> None:
    given = target(OPERANDS=["mxfp4 @ mxfp4", "mxint8 @ mxint8"])
    session = InProcessSession(given, "t")
    assert {i.split("/")[1] for i in list_requirements(session, formats=["mxfp4"])} == {"mxfp4@mxfp4"}
    assert {r.format for r in check(given, formats=["mxfp4"]).requirements} == {"mxfp4@mxfp4"}


@pytest.mark.parametrize(
    ("in_place_of", "verdict"), [(0.0, Verdict.FAIL), (np.nan, Verdict.FAIL), (np.float32(3.4028235e38), Verdict.PASS)]
)
def test_an_overflow_is_infinite_or_the_largest_number(in_place_of: float, verdict: Verdict) -> None:
    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        y = right(a, b, out_dtype)
        return np.where(np.isinf(y), np.copysign(np.float32(in_place_of), y), y).astype(y.dtype)

    report = check(target(matmul))
    (requirement,) = [r for r in report.requirements if r.topic == "overflow"]
    assert requirement.verdict is verdict
    assert all(d.startswith("what is wrong is ") for d in report.formats[0].deviations), "no mistake in rounding explains it"
