"""Products: sums are exact, classes hold every accumulation of theirs, and what is decided has one result."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec import dot
from mxspec.dot import ACCUMULATORS, Accumulator, Direction, Epilogue, Factor, Order, Special, sums
from mxspec.formats import BLOCKS, get_block

from tests.support import rng

FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")
DIRECTIONS = (Direction.NEAREST, Direction.ZERO, Direction.DOWN, Direction.UP)


def draw_block(name: str, rows: int, k: int, spread: int, *seeds: object) -> Factor:
    """Every finite code at random, scales within `spread` of one."""
    fmt = get_block(name)
    draw = np.random.default_rng(rng("dot", name, rows, k, spread, *seeds).randrange(1 << 32))
    finite = np.flatnonzero(np.isfinite(mxspec.decode(np.arange(fmt.element.code_count, dtype=np.uint8), fmt.element.name)))
    codes = draw.choice(finite, (rows, k)).astype(np.uint8)
    shape = (rows, k // fmt.k)
    scales = draw.integers(127 - spread, 128 + spread, shape) if fmt.is_mx else draw.integers(1, 0x7F, shape)
    return dot.block_factor(codes, scales.astype(np.uint8), name)


def sum_exactly(a: Factor, b: Factor) -> list[list[Fraction]]:
    rows = [[Fraction(x) for x in row] for row in a.values.tolist()]
    columns = [[Fraction(x) for x in row] for row in b.values.tolist()]
    return [[sum((x * y for x, y in zip(r, c, strict=True)), Fraction()) for c in columns] for r in rows]


def assert_exact(found: dot.Sums, a: Factor, b: Factor) -> None:
    for i, row in enumerate(sum_exactly(a, b)):
        for j, exact in enumerate(row):
            near = Fraction(float(found.nearest[i, j]))
            assert float(exact) == found.nearest[i, j]
            assert (exact > near) - (exact < near) == found.remainder[i, j]
    products = np.abs(a.values[:, None, :] * b.values[None, :, :])
    assert (found.magnitude >= products.max(axis=-1)).all()
    assert (np.ldexp(products, -found.unit[..., None].astype(int)) % 1 == 0).all()


@pytest.mark.parametrize("spread", [0, 5, 60])
@pytest.mark.parametrize("a", FORMATS)
def test_sums_are_exact(a: str, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    b = FORMATS[(FORMATS.index(a) + 2) % len(FORMATS)]
    left, right = draw_block(a, 5, 64, spread, "left"), draw_block(b, 4, 64, spread, "right")
    found = dot.sum_products(left, right)
    assert_exact(found, left, right)
    monkeypatch.setattr(sums, "_FEW", 0)  # the way of large matrices
    by_slices = dot.sum_products(left, right)
    assert (by_slices.nearest == found.nearest).all()
    assert (by_slices.remainder == found.remainder).all()


def test_slices_are_distilled_even_where_they_nearly_cancel() -> None:
    draw = np.random.default_rng(rng("distil").randrange(1 << 32))
    columns = [np.ldexp(draw.integers(-(1 << 52), 1 << 52, 500).astype(np.float64), e) for e in (0, 30, 55, 58)]
    columns.append(-columns[-1] - columns[-2] + draw.integers(-3, 4, 500))
    near, signs = sums._distil(columns)
    for i in range(500):
        exact = sum((Fraction(float(c[i])) for c in columns), Fraction())
        assert float(exact) == near[i]
        assert signs[i] == (exact > Fraction(float(near[i]))) - (exact < Fraction(float(near[i])))


@pytest.mark.parametrize("shift", [0, -536, -537, -538, -560, 446, 447, 448])
def test_products_of_53_bits_keep_their_errors(shift: int) -> None:
    """Also where the error of a product is the smallest subnormal, where it is smaller, and on both sides of 2**500."""
    draw = np.random.default_rng(rng("errors", shift).randrange(1 << 32))
    for _ in range(50):
        x, y = (np.ldexp(draw.integers(1 << 52, 1 << 53, 9) | 1, shift).astype(np.float64) for _ in range(2))
        y *= draw.choice([-1, 1], 9)
        x[1:], y[1:] = [x[0] * y[0], *x[2:]], [-1, *y[2:]]
        x[4:6], y[4:6], x[6:], y[6:] = x[2:4], -y[2:4], 0, 0  # what is left is little more than the error of the first
        exact = sum((Fraction(p) * Fraction(q) for p, q in zip(x.tolist(), y.tolist(), strict=True)), Fraction())
        near, sign = sums._add_products(x, y)
        assert near == float(exact)
        assert sign == (exact > Fraction(near)) - (exact < Fraction(near))


def test_plain_sides_of_24_bits_are_added_in_rationals() -> None:
    draw = np.random.default_rng(rng("plain").randrange(1 << 32))
    x, y = (draw.standard_normal((3, 40)).astype(np.float32) for _ in range(2))
    a, b = dot.plain_factor(x), dot.plain_factor(y)
    assert_exact(dot.sum_products(a, b), a, b)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_rounding_to_floats_is_the_cast_and_the_directions_enclose_it(name: str) -> None:
    draw = np.random.default_rng(rng("rounding", name).randrange(1 << 32))
    fmt = dot.OUTPUTS[name]
    dtype = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}[name]
    x = draw.standard_normal(20_000) * 2.0 ** draw.integers(-160, 140, 20_000)
    with np.errstate(over="ignore"):
        x = x.astype(np.float32).astype(np.float64)  # ml_dtypes rounds float64 twice
    ends = [0.0, -0.0, np.inf, -np.inf, float(fmt.max_value), float(fmt.max_value) * (1 + 2.0 ** -(fmt.mantissa_bits + 2))]
    x = np.concatenate([x, ends, [float(v) / 2 for v in ends[:2]]])
    with np.errstate(over="ignore"):
        assert (dot.round_floats(x, fmt) == x.astype(np.float32).astype(dtype).astype(np.float64)).all()
    down, up, zero = (dot.round_floats(x, fmt, d) for d in (Direction.DOWN, Direction.UP, Direction.ZERO))
    assert (down <= x).all()
    assert (up >= x).all()
    assert (np.where(x < 0, up, down) == zero).all()
    held = x == dot.round_floats(x, fmt)
    assert (down[held] == up[held]).all()
    assert (down[~held] < up[~held]).all()


def accumulate(a: Factor, b: Factor, unit: Accumulator) -> list[dot.rounding.Float64s]:
    if unit.group:
        return [dot.simulate_product(a, b, unit)]
    directions = DIRECTIONS if unit.faithful else (Direction.NEAREST,)
    return [dot.simulate_product(a, b, unit, order=o, direction=d) for o in Order for d in directions]


@pytest.mark.parametrize("unit", ACCUMULATORS.values(), ids=lambda u: u.name)
@pytest.mark.parametrize("name", ["mxfp4", "mxfp8_e4m3", "mxfp8_e5m2", "nvfp4", "mxint8"])
def test_a_class_holds_all_that_its_accumulations_give(name: str, unit: Accumulator) -> None:
    for spread in (0, 4, 20):
        a, b = draw_block(name, 4, 128, spread, "a"), draw_block(name, 5, 128, spread, "b")
        found = dot.sum_products(a, b)
        allowed = dot.allow_outputs(found, unit, "float32")
        for output in accumulate(a, b, unit):
            assert allowed.accepts(output).all()
            assert (output[allowed.decided] == found.nearest[allowed.decided]).all()


@pytest.mark.parametrize("unit", ACCUMULATORS.values(), ids=lambda u: u.name)
def test_what_every_accumulation_has_to_give_has_the_bits_and_one_more_has_not(unit: Accumulator) -> None:
    """Sums of integers just below, and at, the class's limit: below, all orders agree; beyond, one does not."""
    k = 8
    bits = unit.sure_bits
    for power, decided in ((bits - 1, True), (bits, False)):
        values = np.zeros((1, k))
        values[0, :3] = 2.0**power - 1, 0, 1 if decided else 2  # the last product is what is lost
        b = np.ones((1, k))
        a, one = dot.exact_factor(values), dot.exact_factor(b)
        allowed = dot.allow_outputs(dot.sum_products(a, one), unit, "float32")
        assert allowed.decided.all() == decided


def test_no_class_is_vacuous_on_short_sums() -> None:
    for unit in ACCUMULATORS.values():
        name = "mxfp4" if unit.precision <= 11 else "mxfp8_e4m3"
        a, b = draw_block(name, 3, 64, 0, "short"), draw_block(name, 3, 64, 0, "short too")
        found = dot.sum_products(a, b)
        share = unit.bound_error(found) / found.magnitude
        assert (share < (1 if unit.precision <= 11 else 0.2)).all(), unit.name


@pytest.mark.parametrize("out_dtype", ["float32", "bfloat16", "float16"])
def test_matmul_rounds_the_exact_result_once(out_dtype: str) -> None:
    a, b = draw_block("nvfp4", 4, 48, 0, "m"), draw_block("mxfp8_e4m3", 3, 96, 1, "m")
    b = Factor(values=b.values[:, :48], exponents=b.exponents[:, :48], tensor_scale=0.3)
    draw = np.random.default_rng(rng("epilogue").randrange(1 << 32))
    c, bias = draw.standard_normal((4, 3)).astype(np.float32), draw.standard_normal(3).astype(np.float32)
    y = dot.matmul(a, b, alpha=1 / 3, beta=0.7, c=c, bias=bias, out_dtype=out_dtype)
    scale = Fraction(float(np.float32(1 / 3))) * Fraction(0.3)
    fmt = dot.OUTPUTS[out_dtype]
    for i, row in enumerate(sum_exactly(a, b)):
        for j, exact in enumerate(row):
            total = exact * scale + Fraction(float(np.float32(0.7))) * Fraction(float(c[i, j])) + Fraction(float(bias[j]))
            code = mxspec.reals.encode_real(mxspec.reals.make_real(total), fmt, overflow=mxspec.Overflow.OWN)
            assert int(y[i, j].view(f"u{y.dtype.itemsize}")) == code


def test_an_epilogue_of_powers_of_two_and_small_integers_is_decided() -> None:
    a, b = draw_block("mxfp4", 4, 64, 0, "e"), draw_block("mxfp4", 3, 64, 0, "f")
    found = dot.sum_products(a, b)
    whole = Epilogue(alpha=0.5, beta=2.0, c=np.full((4, 3), 3, np.float32), bias=np.arange(3, dtype=np.float32))
    third = Epilogue(alpha=1 / 3)
    unit = ACCUMULATORS["float32"]
    assert dot.allow_outputs(found, unit, "float32", epilogue=whole).decided.all()
    assert not dot.allow_outputs(found, unit, "float32", epilogue=third).decided.any()
    allowed = dot.allow_outputs(found, unit, "float32", epilogue=third)
    assert allowed.accepts(dot.matmul(a, b, alpha=1 / 3)).all()
    assert (allowed.high - allowed.low <= found.magnitude * 2.0**-15).all()


def test_not_a_number_and_infinity_are_found_by_rule() -> None:
    a, b = draw_block("mxfp8_e5m2", 5, 32, 0, "s"), draw_block("mxfp8_e5m2", 1, 32, 0, "t")
    a.values[0, 3], a.values[1, 4], a.values[2, 4], a.values[3, 5:7] = np.nan, np.inf, -np.inf, (np.inf, -np.inf)
    b.values[0] = np.abs(b.values[0]) + 1
    found = dot.sum_products(a, b)
    assert found.special[:, 0].tolist() == [Special.NAN, Special.PLUS_INF, Special.MINUS_INF, Special.NAN, Special.FINITE]
    y = dot.matmul(a, b)[:, 0]
    assert np.isnan(y[[0, 3]]).all()
    assert y[1:3].tolist() == [np.inf, -np.inf]
    assert dot.allow_outputs(found, ACCUMULATORS["float32"], "float32").accepts(dot.matmul(a, b)).all()
    b.values[0, 4] = 0  # an infinity times zero
    assert dot.sum_products(a, b).special[1, 0] == Special.NAN


def test_block_dot_of_the_definition() -> None:
    ones = np.full(32, 2, np.uint8)  # 1.0
    assert dot.block_dot(ones, 127, ones, 128, "mxfp4") == 64
    assert np.isnan(dot.block_dot(ones, 0xFF, ones, 127, "mxfp4"))
    half = np.full(16, 1, np.uint8)
    assert dot.block_dot(half, 0x38, half, 0x40, "nvfp4", a_tensor_scale=0.5, b_tensor_scale=3.0) == 16 * 0.25 * 2 * 1.5
    assert dot.block_dot(ones, 0, ones, 0xFE, "mxfp4") == 32, "2**-127 times 2**127"


@pytest.mark.parametrize("name", BLOCKS)
def test_wrong_operands_are_refused(name: str) -> None:
    fmt = get_block(name)
    codes, scales = np.zeros((2, 2 * fmt.k), np.uint8), np.zeros((2, 2), np.uint8)
    a = dot.block_factor(codes, scales, name)
    with pytest.raises(ValueError, match=f"k = {fmt.k + 1} is not a multiple of the {fmt.k}-element block"):
        dot.block_factor(codes[:, : fmt.k + 1], scales, name)
    with pytest.raises(ValueError, match="scales have shape"):
        dot.block_factor(codes, scales[:, :1], name)
    with pytest.raises(ValueError, match="both operands of a product have one k"):
        dot.matmul(a, dot.block_factor(codes[:, : fmt.k], scales[:, :1], name))
    with pytest.raises(ValueError, match="out_dtype = 'int8'"):
        dot.matmul(a, a, out_dtype="int8")
    with pytest.raises(ValueError, match="bias has shape"):
        dot.matmul(a, a, bias=np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="a plain operand of a product"):
        dot.plain_factor(np.zeros((2, 2), np.int32))


#: Every kind of number that decides what becomes of NaN and infinities.
KINDS = (np.nan, -np.inf, -1.5, -0.0, 0.0, 2.0, np.inf)


@pytest.mark.parametrize("keeps", [(True, True), (True, False), (False, True), (False, False)], ids=str)
def test_nan_and_infinities_of_every_pair_are_those_of_float64(keeps: tuple[bool, bool]) -> None:
    # float64 itself is the witness: none of these sums overflows. What a sparse side drops is no number and meets nothing.
    pairs = np.array(np.meshgrid(KINDS, KINDS)).reshape(2, -1).T
    kept = np.broadcast_to(keeps, pairs.shape)
    a = dataclasses.replace(dot.exact_factor(np.where(kept, pairs, 0)), kept=kept)
    b = dot.exact_factor(pairs)
    for left, right in ((a, b), (b, a)):
        found = dot.sum_products(left, right).special
        with np.errstate(invalid="ignore"):
            products = np.where(keeps, pairs[:, None] * pairs[None], 0).sum(axis=2)
        want = np.select(
            [np.isnan(products), products == np.inf, products == -np.inf], [Special.NAN, Special.PLUS_INF, Special.MINUS_INF]
        )  # fmt: skip
        assert (found == want).all()


def test_infinities_meet_the_epilogue() -> None:
    side = dot.plain_factor(np.array([[1, 2], [np.inf, 0]], np.float32))
    sums = dot.sum_products(side, side)
    c, bias = np.array([[np.inf, -np.inf], [0, np.nan]], np.float32), np.array([0, 1], np.float32)
    for alpha in (1.0, -2.0, 0.0):
        with np.errstate(invalid="ignore"):
            want = np.float32(alpha) * np.array([[5, np.inf], [np.inf, np.inf]], np.float32) + c + bias
        got = dot.matmul(side, side, alpha=alpha, beta=1.0, c=c, bias=bias)
        assert np.array_equal(got, want, equal_nan=True)
        epilogue = Epilogue(alpha=alpha, beta=1.0, c=c, bias=bias)
        assert dot.allow_outputs(sums, ACCUMULATORS["float32"], "float32", epilogue=epilogue).accepts(got).all()
    with pytest.raises(ValueError, match="alpha = inf; it has to be finite"):
        dot.matmul(side, side, alpha=np.inf)


def test_contracts_round_each_number_once() -> None:
    a = draw_block("nvfp4", 3, 32, 0, "contract")
    a = Factor(values=a.values, exponents=a.exponents, tensor_scale=float(np.float32(1 / 3)))
    exact = dot.apply_contract(a, dot.Contract.EXACT)
    assert exact is a
    for contract in (dot.Contract.FLOAT32, dot.Contract.BFLOAT16, dot.Contract.FLOAT16):
        got = dot.apply_contract(a, contract)
        assert got.tensor_scale == 1
        want = dot.round_floats(a.values * a.tensor_scale, dot.OUTPUTS[contract.value])
        assert (got.values == want).all()


def test_empty_products() -> None:
    a, b = (dot.block_factor(np.zeros((n, 0), np.uint8), np.zeros((n, 0), np.uint8), "mxfp4") for n in (2, 3))
    assert dot.matmul(a, b).tolist() == [[0.0] * 3] * 2
    assert dot.matmul(a, dot.block_factor(np.zeros((0, 0), np.uint8), np.zeros((0, 0), np.uint8), "mxfp4")).shape == (2, 0)


def test_a_tensor_is_an_operand() -> None:
    """Exact products of what the bits say: decoded by the exact profile, whose tensor scale may be converted on request."""
    x = np.linspace(-3, 3, 96, dtype=np.float32).reshape(2, 48)
    for fmt in ("mxfp8_e4m3", "nvfp4"):
        t = mxspec.quantize(x, fmt, pad=True)
        assert (dot.matmul(t, t) == dot.matmul(*[dot.block_factor(t.codes, t.scales, fmt)] * 2)).all()
    amax = mxspec.TensorScale("amax", 3.0)
    t = mxspec.quantize(x, "nvfp4", tensor_scale=amax)
    decode = mxspec.tensor_scale(x, "nvfp4", "nvfp4-exact")
    wanted = dot.block_factor(t.codes, t.scales, "nvfp4", tensor_scale=decode.value)
    given = dot.block_factor(t, convert=True)
    assert given.tensor_scale == wanted.tensor_scale == np.float32(3 / 2688)
    assert (given.values == wanted.values).all()
    u = mxspec.BlockTensor.from_codes(t.codes, t.scales, "nvfp4", profile="nvfp4-exact", tensor_scale=decode)
    assert (dot.matmul(u, u) == dot.matmul(wanted, wanted)).all()


@pytest.mark.parametrize("name", ["fused-f13-32", "fused-f13-32-promoted-128", "fused-f13-16"])
def test_a_product_that_is_zero_aligns_nothing(name: str) -> None:
    """Aligned at 2^2, as a zero next to 448 would be, 13 bits end above 2^-12."""
    a, b = np.array([[0, 2.0**-6]], ml_dtypes.float8_e4m3fn), np.array([[448, 2.0**-6]], ml_dtypes.float8_e4m3fn)
    assert dot.simulate_product(dot.plain_factor(a), dot.plain_factor(b), ACCUMULATORS[name]) == 2.0**-12
