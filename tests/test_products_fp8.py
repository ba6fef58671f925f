"""Products of FP8 numbers without block scales, and of float32 numbers that a unit rounds to TF32."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec import dot
from mxspec.dot import Contract
from mxspec_conformance import check
from mxspec_conformance.identification.products import identify_products_of

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
FP8 = [{"a": "float8_e4m3fn", "b": "float8_e4m3fn"}, {"a": "float8_e5m2", "b": "float8_e4m3fn"}]


def make(matmul: Callable[..., Any], operands: Any = FP8, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(NAME="fp8", VERSION="1", OPERANDS=operands, matmul=matmul, **more)


def add(a: Any, b: Any, out_dtype: str) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32).T


def unit(name: str, contract: Contract = Contract.EXACT) -> Callable[..., Any]:
    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        sides = [dot.apply_contract(dot.plain_factor(x), contract) for x in (a, b)]
        return dot.simulate_product(*sides, dot.get_accumulator(name)).astype(np.float32)

    return matmul


def failing(target: Any) -> list[str]:
    return [r.id.rpartition("/")[2] for r in check(target).requirements if r.verdict not in ("pass", "open")]


def notes(target: Any) -> list[str]:
    return [text for entry in check(target).formats for text in entry.deviations]


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_a_side_is_every_code(dtype: Any) -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(4, 64).view(dtype)
    factor = dot.plain_factor(codes)
    assert np.array_equal(factor.values, codes.astype(np.float64), equal_nan=True)
    least = 1 - dot.PLAIN_FORMATS[np.dtype(dtype).name].bias
    assert factor.exponents.min() == least


def test_a_right_kernel_passes() -> None:
    assert failing(make(add)) == []


@pytest.mark.parametrize("name", ["fused-f13-32", "fused-f13-32-promoted-128"])
def test_the_tensor_cores_pass_under_their_own_class_and_are_recognized(name: str) -> None:
    assert failing(make(unit(name), ACCUMULATOR=name)) == []
    assert "interval" in failing(make(unit(name), FP8[:1]))
    found = identify_products_of(make(unit(name), FP8[:1]))
    assert {x.model for x in found} == {name}
    assert {x.near_bits for x in found} == {13}


def read_as(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda a, b, out_dtype: add(a, change(b), out_dtype)


def no_subnormals(b: Any) -> Any:
    return np.where(np.abs(b.astype(np.float32)) < 2.0**-6, 0, b.astype(np.float32))


def nan_is_480(b: Any) -> Any:
    x = b.astype(np.float32)
    return np.where(np.isnan(x), np.where(b.view(np.uint8) < 0x80, 480, -480), x)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b.view(E5M2 if b.dtype == E4M3 else E4M3), "the codes of b are read as the other FP8 format"),
        (lambda b: b.astype(np.float32) / 2, "numbers of b are half their value, as those of an FNUZ format"),
        (nan_is_480, "the NaN of b is taken as 480"),
    ],
)
def test_a_mistake_is_named(change: Callable[[Any], Any], words: str) -> None:
    assert words in notes(make(read_as(change), FP8[:1]))


def test_flushed_subnormals_fail() -> None:
    assert failing(make(read_as(no_subnormals), FP8[:1]))


FLOAT32 = {"a": "float32", "b": "float32"}


def test_tf32_fails_unless_it_is_declared() -> None:
    matmul = unit("fused-f25-8", Contract.TF32)
    assert notes(make(matmul, FLOAT32)) == ["numbers of a and b are rounded to TF32"]
    assert failing(make(matmul, FLOAT32, CONTRACT="tf32")) == []
    # Neither random sums nor single numbers of 24 bits are rounded.
    assert failing(make(unit("float32"), FLOAT32, CONTRACT="tf32")) == ["identity", "interval"]


@pytest.mark.parametrize("held", [Contract.BFLOAT16, Contract.FLOAT16])
def test_float32_is_rounded_to_16_bits_only_where_that_is_declared(held: Contract) -> None:
    """As TPUs multiply, and oneDNN under fpmath=bf16."""
    matmul = unit("float32", held)
    assert notes(make(matmul, FLOAT32)) == [f"numbers of a and b are rounded to {held}"]
    assert failing(make(matmul, FLOAT32, CONTRACT=held.value)) == []


@pytest.mark.parametrize(
    ("contract", "operands"), [("bfloat16", {"a": "float16", "b": "bfloat16"}), ("float32", FLOAT32), ("tf32", FP8[0])]
)
def test_a_contract_that_touches_no_side_is_said(contract: str, operands: dict[str, str]) -> None:
    report = check(make(unit("float32"), operands, CONTRACT=contract))
    assert report.exit_code == 0
    (result,) = report.formats
    assert result.behaviour["declared contract"] == f"{contract}: it touches no number of these sides, which are judged by all"


@pytest.mark.parametrize("parts", [1, 8])
def test_fma_and_split_k_are_recognized(parts: int) -> None:
    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        sides = dot.plain_factor(a), dot.plain_factor(b)
        y = dot.simulate_product(*sides, dot.get_accumulator("float32-nearest"), fused=True, parts=parts)
        return y.astype(np.float32)

    (found,) = identify_products_of(make(matmul, FLOAT32))
    wanted = "float32-nearest, forward, by FMA" + (f", {parts} runs of k summed apart" if parts > 1 else "")
    assert found.model == wanted


def test_a_fused_addition_rounds_once() -> None:
    x = np.float32(1 + 2.0**-12)
    a, b = (dot.plain_factor(np.array([v], np.float32)) for v in ([1, x], [-1, x]))
    unit = dot.get_accumulator("float32-nearest")
    assert dot.simulate_product(a, b, unit)[0, 0] == float(x * x) - 1
    assert dot.simulate_product(a, b, unit, fused=True)[0, 0] == float(x) ** 2 - 1


def experts(a: Any, b: Any, groups: Any, form: str, out_dtype: str) -> Any:
    """Experts whose matrices have a float32 scale for 128 rows and 128 columns."""
    x = a.codes.view(E4M3).astype(np.float32) * np.repeat(a.scales, 128, axis=-1)
    scales = np.repeat(np.repeat(b.scales, 128, axis=-1), 128, axis=-2)[:, : b.shape[1]]
    w = b.codes.view(E4M3).astype(np.float32) * scales
    return np.concatenate([rows @ m.T for rows, m in zip(np.split(x, np.cumsum(groups)[:-1]), w, strict=True)])


def test_experts_have_scales_of_tiles() -> None:
    grouped = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128", "form": "counts"}

    def swapped(a: Any, b: Any, *more: Any) -> Any:
        return experts(a, SimpleNamespace(codes=b.codes, scales=np.roll(b.scales, 1, axis=0), shape=b.shape), *more)

    right, wrong = (SimpleNamespace(NAME="fp8", VERSION="1", GROUPED=grouped, grouped_matmul=run) for run in (experts, swapped))
    assert not failing(right)
    assert "position" in failing(wrong)
