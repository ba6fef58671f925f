"""Expressions: operations on arrays equal the exact ones, bit for bit; building, printing and walking them."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from mxspec import expressions as ex
from mxspec.arrays import ARRAYS, ceil_pow2, flush_to_zero, rcp_approx
from mxspec.exact import EXACT, rcp_approx as exact_rcp
from mxspec.expressions import (
    AMAX,
    ONE,
    SF,
    Choose,
    Const,
    Domain,
    Leaf,
    Op,
    S,
    Test as Condition,  # pytest would collect it under its own name
    X,
    const,
    evaluate,
    exact,
    f32,
    leaves,
    substitute,
    walk,
)
from mxspec.rcp_table import load_rcp_table
from mxspec.reals import Real

from tests.support import FLT_MAX, INF, MIN_NORMAL, NAN, SIGN, Array, around, both_signs, float_bits, floats, real, rng, same_real

BINARY = (Op.ADD, Op.SUB, Op.MUL, Op.DIV)
SELECTING = (Op.MIN, Op.MAX, Op.FMIN, Op.FMAX)
ROUNDED = (Domain.F32, Domain.F32_FTZ, Domain.BF16, Domain.F16)

#: Ends of every domain: subnormals of float32 and float16, midpoints of bfloat16, overflow of float16.
SPECIAL = both_signs(
    [
        0, 1, 2, 3, 0x007FFFFE, MIN_NORMAL - 1, MIN_NORMAL, MIN_NORMAL + 1, 0x00C00001, 0x01000000, 0x0E000000,
        0x1F800000, 0x20000001,
        0x33000000, 0x33000001, 0x387FFFFF, 0x38800000, 0x3EAAAAAB, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001,
        0x3F808000, 0x3F818000, 0x3F818001, 0x3FC00000, 0x40490FDB, 0x45280000, 0x477FE000, 0x477FF000, 0x5F000000,
        0x7E800000, 0x7F000000, 0x7F7F7FFF, 0x7F7F8000, FLT_MAX, INF, NAN,
    ]
)  # fmt: skip


def as_real(value: Array, index: int) -> Real:
    """An array's number as an exact one, whatever the array's dtype."""
    number = float(np.broadcast_to(value, (max(index + 1, value.size),))[index]) if value.ndim == 0 else float(value[index])
    sign = int(np.signbit(number))
    if np.isnan(number):
        return Real(sign, Fraction(0), nan=True)
    return Real(sign, None if np.isinf(number) else abs(Fraction(number)))


def prove(op: Op, domain: Domain, columns: list[list[int]]) -> None:
    """One operation on arrays equals the exact one on each number."""
    got = ARRAYS.apply(op, domain, tuple(floats(c) for c in columns))
    for index, bits in enumerate(zip(*columns, strict=True)):
        expected = EXACT.apply(op, domain, tuple(real(b) for b in bits))
        found = as_real(got, index)
        assert same_real(found, expected), f"{op} {domain} of {[f'{b:08x}' for b in bits]}: {found}, expected {expected}"


@pytest.mark.parametrize("domain", ROUNDED)
@pytest.mark.parametrize("op", BINARY)
def test_rounded_operations_on_special_numbers(op: Op, domain: Domain) -> None:
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    prove(op, domain, [[a for a, _ in pairs], [b for _, b in pairs]])


@pytest.mark.parametrize("op", SELECTING)
def test_selections_on_special_numbers(op: Op) -> None:
    """min and max take NaN from either side, fmin and fmax take the other number; of 0 and -0 the first."""
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    prove(op, Domain.EXACT, [[a for a, _ in pairs], [b for _, b in pairs]])


@pytest.mark.parametrize("domain", [*ROUNDED, Domain.EXACT])
def test_rounding_operation(domain: Domain) -> None:
    bits = [b for s in SPECIAL for b in around(s) if b & ~SIGN <= INF]
    prove(Op.ROUND, domain, [bits])


def test_rounding_of_exact_products() -> None:
    """What the exact domain holds beyond float32 is rounded once."""
    draw = rng("rounding")
    for domain in ROUNDED:
        for _ in range(40):
            a, b = (draw.choice(SPECIAL) & ~SIGN for _ in range(2))
            if a >= INF or b >= INF or float(real(a).value * real(b).value) == 0:
                continue
            wide = ARRAYS.apply(Op.MUL, Domain.EXACT, (floats([a]), floats([b])))
            assert wide.dtype == np.float64
            product = EXACT.apply(Op.MUL, Domain.EXACT, (real(a), real(b)))
            assert same_real(as_real(wide, 0), product)
            got = as_real(ARRAYS.apply(Op.ROUND, domain, (wide,)), 0)
            assert same_real(got, EXACT.apply(Op.ROUND, domain, (product,))), (domain, f"{a:08x}", f"{b:08x}")


@pytest.mark.parametrize(("domain", "bits"), [(Domain.BF16, 8), (Domain.F16, 11)])
def test_16_bit_domains_round_to_float32_first(domain: Domain, bits: int) -> None:
    """1 + half a unit + a hair: float32 loses the hair, and the tie goes to even; one rounding would go up."""
    wide = np.array([1 + 2.0**-bits + 2.0**-40])
    got = ARRAYS.apply(Op.ROUND, domain, (wide,))
    assert got.tolist() == [1.0]
    assert EXACT.apply(Op.ROUND, domain, (as_real(wide, 0),)) == real(0x3F800000)


@pytest.mark.parametrize("op", [Op.ABS, Op.CEIL_POW2])
def test_unary_operations(op: Op) -> None:
    bits = [b for s in SPECIAL for b in around(s) if b & ~SIGN <= INF]
    prove(op, Domain.EXACT, [[*bits, NAN, NAN | SIGN]])


def test_flush_boundary() -> None:
    """A product is tiny if it lies below 2^-126 after rounding to 24 bits with any exponent; 2^-126 itself is not."""
    half = 0x3F000000
    for a, flushed in ((0x00FFFFFF, True), (0x01000000, False)):
        got = ARRAYS.apply(Op.MUL, Domain.F32_FTZ, (floats([a]), floats([half])))
        assert bool(got[0] == 0) is flushed
        prove(Op.MUL, Domain.F32_FTZ, [[a, a | SIGN], [half, half]])
    # (1 + 2^-23) (1 - 2^-23) 2^-126 lies a 2^-46th below 2^-126, and rounds to it in 24 bits: kept.
    above, below = 0x3F000001, 0x00FFFFFE
    product = real(above).value * real(below).value
    assert Fraction(2) ** -126 * (1 - Fraction(1, 1 << 45)) < product < Fraction(2) ** -126
    got = ARRAYS.apply(Op.MUL, Domain.F32_FTZ, (floats([above]), floats([below])))
    assert got.view(np.uint32).tolist() == [MIN_NORMAL]
    prove(Op.MUL, Domain.F32_FTZ, [[above], [below]])


@pytest.mark.parametrize("test", Condition)
def test_choices(test: Condition) -> None:
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    left, right = floats([a for a, _ in pairs]), floats([b for _, b in pairs])
    then, otherwise = floats([0x3F800000] * len(pairs)), floats([0x40000000] * len(pairs))
    got = ARRAYS.choose(left, test, right, then, otherwise)
    one, two = real(0x3F800000), real(0x40000000)
    expected = [1 if EXACT.choose(real(a), test, real(b), one, two) is one else 2 for a, b in pairs]
    assert got.tolist() == expected


def test_choices_by_hand() -> None:
    zero, minus, nan, inf = real(0), real(SIGN), real(NAN), real(INF | SIGN)
    one, two = real(0x3F800000), real(0x40000000)

    def chosen(a: Real, test: Condition, b: Real) -> bool:
        return EXACT.choose(a, test, b, one, two) is one

    assert chosen(zero, Condition.EQUAL, minus)
    assert not chosen(nan, Condition.EQUAL, nan)
    assert chosen(inf, Condition.EQUAL, inf)
    assert not chosen(zero, Condition.LESS, minus)
    assert chosen(inf, Condition.LESS, zero)
    assert not chosen(nan, Condition.LESS, zero)
    assert chosen(nan, Condition.IS_NAN, zero)
    assert chosen(inf, Condition.IS_INF, zero)
    assert not chosen(zero, Condition.IS_NAN, nan)


def test_reciprocal_table() -> None:
    """The measured table, by its digest, and the numbers of its entries that its description gives."""
    table = load_rcp_table()
    assert (table.dtype.name, table.shape) == ("int8", (1 << 23,))
    values, counts = np.unique(table, return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {-1: 374723, 0: 7280086, 1: 733799}
    assert hashlib.sha256(table.tobytes()).hexdigest() == RCP_SHA256
    assert table[0] == 0  # powers of two are exact


RCP_SHA256 = "862bea101da795bf5fd46df9dfe5142a79c29edd831e2da30aa84385d885e8fe"


def test_reciprocal() -> None:
    """On arrays and exactly, in all binades; 1/6 and 1/448 are the rounded ones."""
    draw = rng("rcp")
    bits = both_signs([0, 1, MIN_NORMAL - 1, MIN_NORMAL, 0x7E800000, 0x7E800001, 0x7F000000, FLT_MAX, INF, NAN])
    bits += [(e << 23) | m for e in (1, 2, 64, 126, 127, 128, 200, 252, 253, 254) for m in (0, 1, 0x400000, 0x7FFFFF)]
    bits += [draw.randrange(INF) | (SIGN if draw.random() < 0.5 else 0) for _ in range(3000)]
    got = rcp_approx(floats(bits))
    for index, b in enumerate(bits):
        assert same_real(as_real(got, index), exact_rcp(real(b))), f"{b:08x}"
    known = rcp_approx(floats([float_bits(6), float_bits(448), float_bits(3)])).view(np.uint32).tolist()
    assert known[0] == float_bits(Fraction(1, 6))
    assert known[1] == float_bits(Fraction(1, 448))
    assert abs(known[2] - float_bits(Fraction(1, 3))) <= 1
    prove(Op.RCP, Domain.RCP_APPROX, [bits[:60]])


def test_reciprocal_flushes() -> None:
    """Subnormal operands count as zeros, subnormal results become zeros, each with its sign."""
    got = rcp_approx(floats([1, 1 | SIGN, 0x7E800000, 0x7E800001, 0x7F000000, FLT_MAX | SIGN]))
    assert got.view(np.uint32).tolist() == [INF, INF | SIGN, MIN_NORMAL, 0, 0, SIGN]


def test_flush_to_zero() -> None:
    x = floats([1, 1 | SIGN, MIN_NORMAL - 1, MIN_NORMAL, MIN_NORMAL | SIGN, 0, SIGN, INF])
    expected = [0, SIGN, 0, MIN_NORMAL, MIN_NORMAL | SIGN, 0, SIGN, INF]
    assert flush_to_zero(x).view(np.uint32).tolist() == expected


def test_powers_of_two_are_rounded_up() -> None:
    x = np.array([1.0, 1.0000001, -3.0, 2.0**-149, 3 * 2.0**-149, 0.0, -0.0, np.inf])
    got = ceil_pow2(x)
    assert got[:-1].tolist() == [1, 2, -4, 2.0**-149, 2.0**-147, 0, 0]
    assert np.signbit(got).tolist() == np.signbit(x).tolist()
    assert ceil_pow2(np.array([2.0**128 - 2.0**104])).tolist() == [2.0**128]


EXPRESSION = f32.mul(X, ex.minimum(f32.div(ONE, f32.mul(SF, f32.div(ONE, S))), ex.FLT_MAX))


def test_printing() -> None:
    assert str(EXPRESSION) == "(x *_f32 min((1 /_f32 (sf *_f32 (1 /_f32 S))), 3.4028235e+38 [0x7f7fffff]))"
    assert str(exact.div(X, SF)) == "(x / sf)"
    assert str(ex.if_equal(SF, ex.ZERO, ex.ZERO, X)) == "(0 if sf == 0 else x)"
    assert str(ex.if_nan(SF, const(Fraction(1, 2)), X)) == "(0.5 if sf is nan else x)"
    assert str(ex.rcp_approx(X)) == "rcp_sm90.rcp(x)"
    assert str(ex.ONE_SIXTH) == "0.16666667 [0x3e2aaaab]"


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x38D1B717, "0.0001"), (0x2B8CBCCC, "1e-12"), (0x43E00000, "448"), (0x80000000, "-0"), (0xFF800000, "-inf"),
        (0x7FC00001, "nan [0x7fc00001]"), (0x3B124925, "0.002232143 [0x3b124925]"), (0x4A800001, "4194304.5"), (0x00000001, "1e-45"),
        (0x00800000, "1.1754944e-38 [0x00800000]"),
    ],
)  # fmt: skip
def test_a_constant_is_its_decimal(bits: int, text: str) -> None:
    """The shortest one that is rounded to it; its bits where that is long and not exact."""
    assert str(Const(bits)) == text
    if "[" not in text:
        assert np.float32(text).view(np.uint32) == bits


def test_walking() -> None:
    steps = list(walk(EXPRESSION))
    assert steps[-1] is EXPRESSION
    assert len(steps) == len(set(steps))
    seen: set[ex.Expr] = set()
    for step in steps:
        assert set(ex.children(step)) <= seen
        seen.add(step)
    assert leaves(EXPRESSION) == {"x", "sf", "S"}
    assert leaves(ex.if_less(AMAX, ONE, X, Leaf("new"))) == {"amax", "x", "new"}


def test_substitution() -> None:
    one_level = substitute(EXPRESSION, {S: ONE})
    assert leaves(one_level) == {"x", "sf"}
    assert str(one_level) == str(EXPRESSION).replace("S", "1")
    assert substitute(EXPRESSION, {AMAX: ONE}) == EXPRESSION
    choice = substitute(ex.if_inf(X, SF, S), {X: AMAX, S: const(2)})
    assert choice == Choose(AMAX, Condition.IS_INF, AMAX, SF, const(2))


def test_evaluation_of_one_expression_both_ways() -> None:
    bits = {"x": float_bits(Fraction(7, 3)), "sf": float_bits(Fraction(13, 8)), "S": float_bits(Fraction(2688, 11))}
    array = evaluate(EXPRESSION, {n: floats([b]) for n, b in bits.items()}, ARRAYS)
    number = evaluate(EXPRESSION, {n: real(b) for n, b in bits.items()}, EXACT)
    assert as_real(array, 0) == number
    x, sf, s = (np.uint32(b).view(np.float32) for b in bits.values())
    assert array[0] == x * (np.float32(1) / (sf * (np.float32(1) / s)))


def test_unbound_leaves_are_named() -> None:
    with pytest.raises(ValueError, match="S is not bound; bound are x, sf"):
        evaluate(EXPRESSION, {"x": real(0), "sf": real(0)}, EXACT)


@pytest.mark.parametrize("value", [Fraction(1, 3), 2**24 + 1, Fraction(1, 1 << 150), 1e39])
def test_constants_are_exactly_float32(value: Fraction | int | float) -> None:
    with pytest.raises(ValueError, match=r"is not a float32; write it as an operation or as Const\(bits\)|no rational value"):
        const(value)


def test_constants() -> None:
    assert const(1) == ONE == Const(0x3F800000)
    assert const(-0.5).bits == 0xBF000000
    assert const(Fraction(1, 1 << 149)).bits == 1
    assert ARRAYS.constant(0x3F800000).dtype == np.float32
    assert EXACT.constant(0xC0000000) == real(0xC0000000)


@pytest.mark.parametrize("domain", ROUNDED)
def test_two_roundings_may_not_hide(domain: Domain) -> None:
    wide = np.array([1.0])
    with pytest.raises(ValueError, match=r"\* in .* takes float32 operands; round the exact one first"):
        ARRAYS.apply(Op.MUL, domain, (wide, floats([0x3F800000])))


def test_expressions_in_words() -> None:
    names = {"sf": "block scale"}
    assert ex.put_in_words(f32.div(ONE, f32.mul(SF, S)), names) == "1 / (block scale * S), each result rounded to float32"
    assert ex.put_in_words(ex.ftz.mul(X, SF), {}) == "x * sf, rounded to float32 without subnormals"
    assert ex.put_in_words(exact.mul(f32.div(X, SF), S), {}) == "(x / sf) * S, each result rounded to float32 or exact"
    assert ex.put_in_words(ex.fmin(X, ex.if_equal(SF, ex.ZERO, ONE, ex.rcp_approx(SF))), {}) == (
        "fmin(x, (1 if sf == 0 else rcp(sf))), as the chip approximates 1 / x"
    )
    assert ex.put_in_words(X, {"x": "the element"}) == "the element"
