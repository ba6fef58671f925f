"""Sides of affine integers and sparse sides: their numbers and sums against exact rationals, contract by contract."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec import affine, dot, quantize, sparsity
from mxspec.affine import AffineFormat, Offset, get_affine, list_contracts
from mxspec.affine.exact import dequantize_code
from mxspec.dot import ACCUMULATORS, Contract, Factor, OperandContract, Order, Special
from mxspec.sparsity import BlockScales, GroupScales, SparseTensor

FORMATS = [
    f"int{bits}-g{group}-{offset}-{dtype}"
    for bits, group, dtype in ((4, 32, "float16"), (8, 16, "bfloat16"), (3, 8, "float32"), (1, 4, "float16"))
    for offset in ("bias", "zero")
]


def draw_affine(name: str, rows: int, groups: int, seed: int = 0, spread: int = 3) -> tuple[Any, Any, Any, AffineFormat]:
    """Codes, scales and offsets at random, scales and biases of many exponents and either sign."""
    fmt, draw = get_affine(name), np.random.default_rng(seed)
    codes = draw.integers(0, fmt.bins + 1, (rows, groups * fmt.group)).astype(np.uint8)
    shape = rows, groups

    def floats() -> Any:
        return np.ldexp(draw.standard_normal(shape), draw.integers(-spread, spread, shape)).astype(fmt.numpy_dtype)

    offsets = floats() if fmt.offset is Offset.BIAS else draw.integers(0, fmt.bins + 1, shape).astype(np.uint8)
    return codes, floats(), offsets, fmt


def bits_of(x: Any) -> int:
    return int(np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}"))


def rational(codes: Any, scales: Any, offsets: Any, fmt: AffineFormat, contract: str, i: int, k: int) -> Fraction:
    """One number by the definition."""
    g = k // fmt.group
    offset = bits_of(offsets[i, g]) if fmt.offset is Offset.BIAS else int(offsets[i, g])
    rule = affine.get_contract(contract, fmt)
    return dequantize_code(int(codes[i, k]), bits_of(scales[i, g]), offset, fmt, rule).value


def numbers_of(factor: Factor, i: int, k: int) -> Fraction:
    return sum((Fraction(float(part[i, k])) for part in factor.parts), Fraction())


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_and_sums_are_the_rationals_of_each_contract(name: str) -> None:
    codes, scales, offsets, fmt = draw_affine(name, 3, 2)
    x = np.ldexp(np.random.default_rng(5).standard_normal((2, codes.shape[1])), 3).astype(np.float16)
    a = dot.plain_factor(x)
    for rule in list_contracts(fmt):
        b = dot.affine_factor(codes, scales, offsets, fmt, contract=rule)
        w = [[rational(codes, scales, offsets, fmt, rule.name, i, k) for k in range(b.k)] for i in range(b.rows)]
        assert all(numbers_of(b, i, k) == w[i][k] for i in range(b.rows) for k in range(b.k)), rule.name
        sums = dot.sum_products(a, b)
        for i in range(a.rows):
            for j in range(b.rows):
                exact = sum(Fraction(float(x[i, k])) * w[j][k] for k in range(b.k))
                near = Fraction(float(sums.nearest[i, j]))
                assert float(exact) == float(near)
                assert sums.remainder[i, j] == (exact > near) - (exact < near)
                assert Fraction(float(sums.magnitude[i, j])) >= sum(abs(Fraction(float(x[i, k])) * w[j][k]) for k in range(b.k))


def test_both_sides_may_be_affine() -> None:
    sides = [draw_affine(name, 2, 2, seed, spread=40) for seed, name in enumerate(("int4-g16-bias-float32", "int8-g16-zero-bfloat16"))]
    a, b = (dot.affine_factor(*side) for side in sides)
    sums = dot.sum_products(a, b)
    exact = [[sum(numbers_of(a, i, k) * numbers_of(b, j, k) for k in range(a.k)) for j in range(2)] for i in range(2)]
    assert [[float(x) for x in row] for row in exact] == sums.nearest.tolist()


def test_the_interval_of_exact_numbers_holds_sums_of_groups() -> None:
    """s * sum(a q) + b * sum(a) in float32, group by group, cancels more than the numbers themselves do."""
    fmt = get_affine("int4-g32-bias-float16")
    draw = np.random.default_rng(3)
    codes = draw.integers(0, 16, (6, 512)).astype(np.uint8)
    scales = (draw.random((6, 16)) / 8).astype(np.float16)
    biases = (-scales.astype(np.float32) * 7.5).astype(np.float16)
    x = (draw.random((5, 512)) + 1).astype(np.float16)
    xs, qs = x.astype(np.float32), codes.astype(np.float32)
    total = np.zeros((5, 6), np.float32)
    for g in range(16):
        run = slice(32 * g, 32 * g + 32)
        products = xs[:, run] @ qs[:, run].T
        total = total + (products * scales[:, g].astype(np.float32) + xs[:, run].sum(axis=1)[:, None] * biases[:, g].astype(np.float32))
    a = dot.plain_factor(x)
    unit = ACCUMULATORS["float32"]
    exact = dot.allow_outputs(dot.sum_products(a, dot.affine_factor(codes, scales, biases, fmt)), unit, "float32")
    assert exact.accepts(total).all()
    # The bound of rounded numbers, which this kernel does not round, is narrower.
    rounded = dot.allow_outputs(dot.sum_products(a, dot.affine_factor(codes, scales, biases, fmt, contract="float32")), unit, "float32")
    assert (exact.high - exact.low > rounded.high - rounded.low).all()


def test_an_order_of_additions_needs_numbers_that_are_rounded() -> None:
    codes, scales, offsets, fmt = draw_affine("int4-g32-bias-float16", 2, 1)
    a = dot.plain_factor(np.ones((1, 32), np.float16))
    with pytest.raises(ValueError, match="pass affine_factor a contract other than exact"):
        dot.simulate_product(a, dot.affine_factor(codes, scales, offsets, fmt), ACCUMULATORS["float32"])
    b = dot.affine_factor(codes, scales, offsets, fmt, contract="float16")
    assert dot.simulate_product(a, b, ACCUMULATORS["float32"], order=Order.PAIRS).shape == (1, 2)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("held", ["float32", "bfloat16", "float16"])
def test_rounding_real_numbers_is_the_fused_contract(name: str, held: str) -> None:
    codes, scales, offsets, fmt = draw_affine(name, 4, 3, seed=7)
    fused = f"{held}-fma" if fmt.offset is Offset.BIAS else held
    rounded = dot.apply_contract(dot.affine_factor(codes, scales, offsets, fmt), Contract(held))
    wanted = dot.affine_factor(codes, scales, offsets, fmt, contract=fused)
    assert (rounded.values == wanted.values).all()
    assert rounded.rest is None


@pytest.mark.parametrize("rule", ["2:4", "4:8"])
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4", "mxint8", "float16", "bfloat16", "int4-g16-bias-float16", "int8-g16-zero-float16"])
def test_sparse_sides_hold_the_numbers_of_sparse_tensors(fmt: str, rule: str) -> None:
    draw = np.random.default_rng(2)
    k = 64
    metadata = draw.choice(sorted(sparsity.KEPT), (3, k // sparsity.get_sparsity(rule).group)).astype(np.uint8)
    shape = (3, k // 2)
    scales = offsets = None
    if fmt in ("float16", "bfloat16"):
        items = draw.standard_normal(shape).astype(ml_dtypes.bfloat16 if fmt == "bfloat16" else np.float16)
        tensor = SparseTensor(items, metadata, fmt, sparsity.get_sparsity(rule))
    elif fmt.startswith("int"):
        _, scales, offsets, kind = draw_affine(fmt, 3, k // 16)
        items = draw.integers(0, kind.bins + 1, shape).astype(np.uint8)
        given = {"zeros" if kind.offset is Offset.ZERO else "biases": offsets}
        tensor = SparseTensor(items, metadata, "uint8", sparsity.get_sparsity(rule), GroupScales(16, scales, **given))
    else:
        t = quantize(draw.standard_normal((3, k)).astype(np.float32), fmt)
        items, scales = t.codes[:, : k // 2].copy(), t.scales
        tensor = SparseTensor(items, metadata, t.format.element.name, sparsity.get_sparsity(rule), BlockScales(t.format, t.profile, scales))
    factor = dot.sparse_factor(items, metadata, fmt, scales, offsets, sparsity=rule)
    assert (dot.round_floats(factor.odd, dot.OUTPUTS["float32"]) == tensor.dequantize(np.float32).astype(np.float64)).all()
    assert factor.kept is not None
    assert (factor.kept == tensor.mask).all()
    ones = dot.plain_factor(np.ones((1, k), np.float32))
    exact = [sum((numbers_of(factor, i, at) for at in range(k)), Fraction()) for i in range(3)]
    assert [float(x) for x in exact] == dot.sum_products(ones, factor).nearest[0].tolist()


def test_what_is_dropped_meets_no_infinity() -> None:
    kept, metadata = np.full((1, 4), 1.5, np.float16), np.array([[4, 14]], np.uint8)  # places 0 1 and 6 7
    side = dot.sparse_factor(kept, metadata, "float16")
    x = np.ones((8, 8), np.float16)
    x[np.arange(8), np.arange(8)] = np.inf
    special = dot.sum_products(dot.plain_factor(x), side).special[:, 0]
    plus = [Special.PLUS_INF if at in (0, 1, 6, 7) else Special.FINITE for at in range(8)]
    assert special.tolist() == plus
    assert dot.sum_products(side, side).nearest.tolist() == [[9.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dot.affine_factor(np.zeros((1, 48), np.uint8), np.ones((1, 1), np.float16), np.ones((1, 1), np.float16), "int4-g32-bias-float16"),
         "k = 48 is not a multiple of the group of 32"),
        (lambda: dot.affine_factor(np.zeros((1, 32), np.uint8), np.ones((1, 1), np.float16), np.ones((1, 1), np.float16), "int4-g32-bias-float16", contract="float8"),
         "unknown contract"),
        (lambda: dot.affine_factor(np.zeros((32,), np.uint8), np.ones((1,), np.float16), np.ones((1,), np.float16), "int4-g32-bias-float16"),
         "has two"),
        (lambda: dot.sparse_factor(np.zeros((1, 4), np.uint8), np.array([[0, 0]], np.uint8), "mxfp4", np.zeros((1, 1), np.uint8)), "metadata hold 0x0"),
        (lambda: dot.sparse_factor(np.zeros((1, 6), np.uint8), np.full((1, 3), 4, np.uint8), "int4-g6-bias-float16", np.ones((1, 2), np.float16), np.ones((1, 2), np.float16)),
         "group = 6"),
    ],
)  # fmt: skip
def test_what_is_no_side_is_refused_in_words(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_contracts_of_products_are_data() -> None:
    texts = [c.text for c in dot.list_operand_contracts([get_affine("int4-g32-bias-float16")])]
    assert texts[0] == "exact"
    assert {"float32-fma/bfloat16", "float16", "bfloat16-fma"} <= set(texts)
    assert len(set(texts)) == len(texts)
    assert set(texts) <= set(dot.CONTRACT_TEXTS)
    both = [get_affine("int4-g32-bias-float16"), get_affine("int4-g32-zero-float16")]
    assert not any("products" in c.text for c in dot.list_operand_contracts(both))
    assert OperandContract(held=Contract.FLOAT16).text == "float16"
