"""Products of kernels that nobody described: sizes that are refused, shapes that are compiled, operands that are prepared, k cut into parts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec_conformance import check
from mxspec_conformance.identification.products import describe_product
from mxspec_conformance.identification.products.identifying import identify_product
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.targets.product_fitting import SizedSession, SizeWatch, fit_product
from mxspec_conformance.transports.in_process import InProcessSession

from tests import grouped_kernels
from tests.judge.product_target import FP4, multiply, read

BFLOAT16 = ml_dtypes.bfloat16


@dataclass
class Kernel:
    """A right product of bfloat16 rows with MXFP4 weights, which takes what `refuse` lets pass."""

    refuse: Callable[[int, int, int], bool] = lambda m, n, k: False
    #: Sums of which stretches of k are rounded to bfloat16: m, n, k -> where they end.
    cut: Callable[[int, int, int], list[int]] = lambda m, n, k: []
    NAME: str = "stranger"
    VERSION: str = "1"
    OUT_DTYPES: tuple[str, ...] = ("bfloat16",)
    OPERANDS: dict[str, str] = field(default_factory=lambda: {"a": "bfloat16", "b": FP4})
    shapes: list[tuple[int, int, int]] = field(default_factory=list)

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        x, w = a.astype(np.float64), read(b)
        shape = len(x), *w.shape
        if self.refuse(*shape):
            raise AssertionError
        self.shapes.append(shape)
        with np.errstate(all="ignore"):
            if not (ends := self.cut(*shape)):
                return multiply(x, w).astype(BFLOAT16)
            parts = zip([0, *ends], [*ends, shape[2]], strict=True)
            return sum(multiply(x[:, i:j], w[:, i:j]).astype(BFLOAT16).astype(np.float32) for i, j in parts).astype(BFLOAT16)


def _judge(target: Any) -> Report:
    return check(target, only="matmul/*/*", quick=True)


@pytest.mark.parametrize(
    ("refuse", "taken"),
    [
        (lambda m, n, k: n % 128 or k % 64, "n in multiples of 128 and k in multiples of 64"),
        (lambda m, n, k: m % 16 or n % 8, "m in multiples of 16 and n in multiples of 8"),
        (lambda m, n, k: k < 512, "k in multiples of 512"),
        (lambda m, n, k: n % 64 or k % 256, "n in multiples of 64 and k in multiples of 256"),
    ],
)
def test_sizes_are_found(refuse: Callable[[int, int, int], bool], taken: str) -> None:
    """A kernel that refuses sizes is judged in those that it takes, and the report says which and where it refused."""
    report = _judge(Kernel(refuse))
    assert all(r.verdict is Verdict.PASS for r in report.requirements), [(r.id, r.note) for r in report.requirements]
    words = report.formats[0].behaviour["sizes"]
    assert words.startswith(f"takes {taken} ")
    assert "AssertionError: tests/judge/test_taken_sizes.py:" in words
    assert "declare PRODUCT_SHAPES = {" in words


@pytest.mark.parametrize(
    "refuse", [lambda m, n, k: m == 1, lambda m, n, k: n == 1, lambda m, n, k: m == 3 and n > 1, lambda m, n, k: k == 96]
)
def test_a_refused_size_is_no_multiple(refuse: Callable[[int, int, int], bool]) -> None:
    """What refuses one size among those adjacent to it has an error, and no limits."""
    report = check(Kernel(refuse), only="matmul/*/*")
    assert any(r.verdict is Verdict.ERROR for r in report.requirements)
    assert "sizes" not in report.formats[0].behaviour


def test_wrong_kernels_with_limits_are_found() -> None:
    """Limits excuse no wrong output."""

    class Doubled(Kernel):
        def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
            y = super().matmul(a, b, out_dtype)
            return y if y.shape[1] < 384 else y * BFLOAT16(2)

    report = check(Doubled(lambda m, n, k: n % 128), only="matmul/*/*")
    assert any(r.verdict is Verdict.FAIL for r in report.requirements)


def test_a_wrong_first_call_is_found() -> None:
    """What is answered first while sizes are looked for is judged as well."""

    class Late(Kernel):
        def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
            y = super().matmul(a, b, out_dtype)
            return y if len(self.shapes) > 1 else y * BFLOAT16(0)

    report = _judge(Late(lambda m, n, k: n % 128 or k % 64))
    assert [r.id for r in report.requirements if r.verdict is Verdict.FAIL] == [f"matmul/bfloat16@{FP4}/state"]
    assert "the first call that was answered" in next(r.first for r in report.requirements if r.first).case


def test_answers_before_shapes_are_few_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is wrong while it is compiled, in the calls after which few shapes are used, is wrong."""

    class Compiled(Kernel):
        def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
            is_first = len({s[1:] for s in self.shapes}) < 2 and (*read(b).shape,) not in {s[1:] for s in self.shapes}
            time.sleep(0.02 * is_first)
            y = super().matmul(a, b, out_dtype)
            return y * BFLOAT16(0) if is_first else y

    monkeypatch.setattr("mxspec_conformance.targets.product_fitting._COMPILED", 0.02)
    monkeypatch.setattr("mxspec_conformance.targets.product_fitting._TIMES", 2.0)
    report = _judge(Compiled())
    assert "few are used" in report.formats[0].behaviour["sizes"]
    assert any(r.verdict is Verdict.FAIL for r in report.requirements)


def test_compiled_shapes_are_few() -> None:
    """Once two shapes of b were compiled, few are used, and those of tails are among them."""
    session = InProcessSession(Kernel(), "slow")
    watch = SizeWatch(session, parse_product(f"bfloat16 @ {FP4}"))
    seconds = iter((1.5, 0.0, 0.0, 1.2, 0.01))
    found: list[SizedSession | None] = []
    for shape in ((1, 32), (1, 32), (1, 64)):
        found.append(watch.see_time(shape, lambda: time.sleep(next(seconds)))[1])
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert found[2].capabilities.few_shapes
    many, few = Kernel(), Kernel()
    _judge(many)
    few_session = SizedSession(InProcessSession(few, "few"), "", few_shapes=True)
    check(few_session, only="matmul/*/*", quick=True)
    assert len({s[1:] for s in few.shapes}) < len({s[1:] for s in many.shapes})
    assert any(k % 64 for _, _, k in few.shapes)


def test_a_prepared_operand_serves_later_calls() -> None:
    """`prepare(b)` is called once for an operand, and what it returns serves calls after others were prepared."""

    @dataclass
    class Prepared(Kernel):
        prepared: int = 0
        only_last: bool = False

        def prepare(self, b: Any) -> Any:
            self.prepared += 1
            self.last = b
            return b

        def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
            return super().matmul(a, self.last if self.only_last and self.last.shape == b.shape else b, out_dtype)

    right, wrong = Prepared(), Prepared(only_last=True)
    assert all(r.verdict is Verdict.PASS for r in check(right, only="matmul/*/*").requirements)
    assert right.prepared < len(right.shapes)
    failed = [r.id for r in check(wrong, only="matmul/*/*").requirements if r.verdict is Verdict.FAIL]
    assert f"matmul/bfloat16@{FP4}/state" in failed


def test_prepared_operands_of_two_shapes_are_two() -> None:
    """Operands of 128 x 64 and of 64 x 128 may have the same bytes; each has what was prepared of it."""

    class Prepared(Kernel):
        def prepare(self, b: Any) -> Any:
            return b

    report = _judge(Prepared(lambda m, n, k: n % 128 or k % 64))
    assert report.formats[0].behaviour["sizes"].endswith("PRODUCT_SHAPES = {'n': 128, 'k': 64}")


def test_grouped_sizes_are_found_one_axis_at_a_time() -> None:
    """The smallest call that is tried has the size in question, and not a larger one that its multiples divide."""
    right = grouped_kernels.build("offsets")
    multiply = right.grouped_matmul

    def refuse(a: Any, b: Any, *args: Any, **options: Any) -> Any:
        if b.shape[1] % 16 or b.shape[2] % 128:
            raise ValueError(b.shape)
        return multiply(a, b, *args, **options)

    right.grouped_matmul = refuse
    report = check(right, quick=True)
    assert all(r.verdict is Verdict.PASS for r in report.requirements), [(r.id, r.note) for r in report.requirements]
    assert report.formats[0].behaviour["sizes"].startswith("takes n in multiples of 16 and k in multiples of 128 ")


def test_sizes_are_found_in_the_dtype_that_a_product_has() -> None:
    """One product writes float16, the other bfloat16: each is judged in the sizes that it takes."""
    kernel = Kernel(lambda m, n, k: n % 64 > 0, OUT_DTYPES=("float16", "bfloat16"))
    multiply = kernel.matmul

    def answer(a: Any, b: Any, out_dtype: str) -> Any:
        if out_dtype == "float16":
            raise NotImplementedError
        return multiply(a, b, out_dtype)

    kernel.matmul = answer  # type: ignore[method-assign]
    report = _judge(kernel)
    assert {r.verdict for r in report.requirements} == {Verdict.PASS}, "what the first dtype would have tested is tested in the other"
    words = report.formats[0].behaviour["sizes"]
    assert "n in multiples of 64" in words
    assert "declines outputs of float16" in words


@pytest.mark.parametrize("k_least", [256, 1 << 20])
def test_a_dtype_is_left_only_where_it_is_declined_always(k_least: int) -> None:
    """A float32 product that is declined for short sums, and wrong, fails; one that is always declined hides no other."""
    kernel = Kernel(lambda m, n, k: n % 64 > 0, OUT_DTYPES=("float32", "bfloat16"))
    multiply = kernel.matmul

    def answer(a: Any, b: Any, out_dtype: str) -> Any:
        y = multiply(a, b, out_dtype)
        if out_dtype == "float32":
            if a.shape[1] < k_least:
                raise NotImplementedError
            return y.astype(np.float32) * 2
        return y

    kernel.matmul = answer  # type: ignore[method-assign]
    report = _judge(kernel)
    assert any(r.verdict is Verdict.FAIL for r in report.requirements) == (k_least == 256)
    assert ("declines outputs of float32" in report.formats[0].behaviour["sizes"]) == (k_least != 256)


def test_parts_that_are_added_in_any_order_are_named() -> None:
    """Rounded parts whose order changes from call to call: sums are wrong, and equal calls differ."""
    kernel, calls = Kernel(cut=lambda m, n, k: [k // 4 // 32 * 32, k // 2 // 32 * 32] if k > 64 else []), count()

    def multiply_parts(a: Any, b: Any, out_dtype: str) -> Any:
        x, w = a.astype(np.float64), read(b)
        ends = kernel.cut(len(x), *w.shape)
        parts = [multiply(x[:, i:j], w[:, i:j]).astype(BFLOAT16) for i, j in zip([0, *ends], [*ends, w.shape[1]], strict=True)]
        turned = np.roll(np.stack(parts), next(calls), axis=0)
        with np.errstate(all="ignore"):
            return reduce(lambda y, part: (y.astype(np.float32) + part).astype(BFLOAT16), turned)

    kernel.matmul = multiply_parts  # type: ignore[method-assign]
    deviations = check(kernel, only="matmul/*/*").formats[0].deviations
    assert any(d.startswith("equal calls return different bits") for d in deviations), deviations
    assert not any(d.startswith("the answer depends on earlier calls") for d in deviations)


@pytest.mark.parametrize("ends", [lambda k: [k // 2 // 32 * 32], lambda k: list(range(256, k, 256))])
def test_rounded_parts_are_named(ends: Callable[[int], list[int]]) -> None:
    """Where only large products are cut, the report says so, and where k is cut in the smallest one that is wrong."""
    report = _judge(Kernel(cut=lambda m, n, k: ends(k) if k > 512 else []))
    first = report.formats[0].deviations[0]
    assert first.startswith("partial sums are rounded to bfloat16 before they are added (split-K or stream-K): in m x n x k = ")
    shape, cuts = first.partition("k = ")[2].split(", k is cut at ")
    k = int(shape.rpartition(" x ")[2])
    assert cuts.partition(";")[0] == ", ".join(map(str, ends(k)))


def test_identify_says_why_nothing_was_answered() -> None:
    """A target that takes larger products is asked in those; one that takes none shows what it raised."""
    product = parse_product(f"bfloat16 @ {FP4}")
    strict = InProcessSession(Kernel(lambda m, n, k: n % 64 or k % 128), "strict")
    assert fit_product(strict, product).capabilities.product_shapes == (1, 64, 128)
    closed = InProcessSession(Kernel(lambda m, n, k: True), "closed")
    assert list(describe_product(identify_product(closed, product))) == ["no answer"]


def test_rounded_parts_are_named_beside_another_mistake() -> None:
    """No class of additions allows the outputs of a kernel that makes another mistake as well: the parts are named all the same."""

    class Both(Kernel):
        def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
            y = super().matmul(a, b, out_dtype)
            return y * BFLOAT16(1 + (a.shape[1] == 96))

    deviations = _judge(Both(cut=lambda m, n, k: [k // 2 // 32 * 32] if k > 512 else [])).formats[0].deviations
    assert any(d.startswith("partial sums are rounded to bfloat16") for d in deviations)


@pytest.mark.parametrize(
    ("ignored", "note"),
    [
        (lambda x: not x.flags.c_contiguous, "only inputs are wrong whose numbers do not lie one behind the other in memory"),
        (lambda x: x.flags.c_contiguous and x.ctypes.data % 16, "only inputs are wrong whose address is no multiple of 16 bytes"),
        (lambda x: not x.flags.c_contiguous or x.ctypes.data % 16, ""),
    ],
)
def test_wrong_views_have_their_place_in_common(ignored: Callable[[Any], bool], note: str) -> None:
    """A kernel that reads views wrongly: which ones."""

    class Views(Kernel):
        def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
            return super().matmul(np.ascontiguousarray(a) * BFLOAT16(1 + bool(ignored(a))), b, out_dtype)

    report = check(Views(), only="matmul/*/memory", quick=True)
    assert [(r.verdict, r.note) for r in report.requirements] == [(Verdict.FAIL, note)]


def test_answers_that_change_are_not_blamed_on_views() -> None:
    """Where an answer depends on other calls, that views are wrong and dense inputs happen to be right says nothing of views."""

    class Changing(Kernel):
        def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
            changed = not a.flags.c_contiguous or threading.current_thread() is not threading.main_thread()
            return super().matmul(np.ascontiguousarray(a) * BFLOAT16(1 + changed), b, out_dtype)

    report = check(Changing(), only="matmul/*/[ms][et]*", quick=True)
    verdicts = {r.id.rpartition("/")[2]: (r.verdict, r.note) for r in report.requirements}
    assert verdicts == {"memory": (Verdict.FAIL, ""), "state": (Verdict.FAIL, "")}
