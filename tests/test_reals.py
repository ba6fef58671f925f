"""Exact numbers against NumPy's IEEE 754 arithmetic: addition, product, quotient and rounding."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from mxspec import reals
from mxspec.formats import BFLOAT16, FLOAT16, FLOAT32, FLOATS
from mxspec.reals import INFINITY, NAN, ZERO, Real, decode_real, encode_real, make_real, round_real
from mxspec.rounding import Overflow

from tests.support import FLOAT_TYPES, FLT_MAX, INF, MIN_NORMAL, NAN_BITS, SIGN, bits_of, floats, real, rng

Operation = Callable[[Any, Any], Any]

OPERATIONS: dict[str, tuple[Callable[[Real, Real], Real], Operation]] = {
    "add": (reals.add, operator.add),
    "subtract": (lambda a, b: reals.add(a, reals.negate(b)), operator.sub),
    "multiply": (reals.multiply, operator.mul),
    "divide": (reals.divide, operator.truediv),
}

#: Zeros, both ends of the subnormals, one and its neighbours, thirds, the largest, infinity; float16's likewise.
FLOAT32_SPECIALS = (
    0, 1, 2, 3, 0x00400000, MIN_NORMAL - 1, MIN_NORMAL, MIN_NORMAL + 1, 0x00FFFFFF, 0x01000000, 0x33800000,
    0x34000001, 0x3EAAAAAB, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40490FDB, 0x45280000, 0x4B7FFFFF, 0x5F000000,
    0x7E800000, 0x7F000000, FLT_MAX - 1, FLT_MAX, INF,
)  # fmt: skip
FLOAT16_SPECIALS = (
    0, 1, 2, 3, 0x200, 0x3FF, 0x400, 0x401, 0x7FF, 0x800, 0x1400, 0x2AAB, 0x3555, 0x3BFF, 0x3C00, 0x3C01, 0x4248,
    0x63FF, 0x6400, 0x77FF, 0x7800, 0x7BFE, 0x7BFF, 0x7C00,
)  # fmt: skip


def expected_bits(name: str, kind: str, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> list[int]:
    """What NumPy gives, by bits; NaN is the canonical one."""
    fmt = FLOATS[kind]
    with np.errstate(all="ignore"):
        result = OPERATIONS[name][1](a, b)
    assert result.dtype == a.dtype
    return [fmt.nan_code or 0 if np.isnan(v) else int(c) for v, c in zip(result, bits_of(result), strict=True)]


def model_bits(name: str, kind: str, a: Real, b: Real) -> int:
    fmt = FLOATS[kind]
    result = round_real(OPERATIONS[name][0](a, b), fmt)
    return fmt.nan_code or 0 if result.nan else encode_real(result, fmt, overflow=Overflow.OWN)


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_on_special_numbers(name: str, kind: str) -> None:
    """Every pair of special numbers, in all four signs."""
    dtype, fmt, unsigned = FLOAT_TYPES[kind]
    specials = FLOAT32_SPECIALS if kind == "float32" else FLOAT16_SPECIALS
    nan = fmt.nan_code or 0
    codes = [*specials, *(c | fmt.sign_bit for c in specials), nan, nan | fmt.sign_bit]
    values = [decode_real(c, fmt) for c in codes]
    array = np.array(codes, unsigned).view(dtype)
    for code, value, scalar in zip(codes, values, array, strict=True):
        wanted = expected_bits(name, kind, np.full_like(array, scalar), array)
        got = [model_bits(name, kind, value, other) for other in values]
        pairs = [f"{code:x} {name} {other:x}" for other in codes]
        assert list(zip(pairs, got, strict=True)) == list(zip(pairs, wanted, strict=True))


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_on_sampled_numbers(name: str, kind: str) -> None:
    """Any bits, and numbers of one binade, whose sums and quotients often lie midway."""
    dtype, fmt, unsigned = FLOAT_TYPES[kind]
    draw = rng("reals", name, kind)
    near = 1 << fmt.mantissa_bits
    codes = [(draw.randrange(fmt.code_count), draw.randrange(fmt.code_count)) for _ in range(1200)]
    codes += [
        ((fmt.bias << fmt.mantissa_bits) + draw.randrange(near), ((fmt.bias + 1) << fmt.mantissa_bits) + draw.randrange(near))
        for _ in range(600)
    ]
    left, right = (np.array([c[i] for c in codes], unsigned).view(dtype) for i in (0, 1))
    got = [model_bits(name, kind, decode_real(a, fmt), decode_real(b, fmt)) for a, b in codes]
    assert got == expected_bits(name, kind, left, right)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_rounding_to_16_bits(kind: str) -> None:
    """float32 -> 16 bits at every midpoint with both neighbours: every exponent, few and all-ones significands."""
    dtype, fmt, _ = FLOAT_TYPES[kind]
    draw = rng("round", kind)
    codes = {0, 1, 2, 3, fmt.max_code - 1, fmt.max_code}
    for field in range(1 << fmt.exponent_bits):
        base = field << fmt.mantissa_bits
        last = (1 << fmt.mantissa_bits) - 1
        codes.update(base + m for m in (0, 1, 2, last - 1, last, draw.randrange(last)))
    bits: list[int] = [FLT_MAX, INF, 1, 2]
    for code in sorted(c for c in codes if c <= fmt.max_code):
        middle = (fmt.magnitude(code) + fmt.magnitude(code + 1)) / 2
        centre = encode_real(make_real(middle), FLOAT32)
        bits += [max(centre - 1, 0), centre, min(centre + 1, FLT_MAX)]
    bits += [b | SIGN for b in bits]
    with np.errstate(over="ignore", under="ignore"):
        wanted = bits_of(floats(bits).astype(dtype)).tolist()
    got = [encode_real(round_real(real(b), fmt), fmt, overflow=Overflow.OWN) for b in bits]
    assert got == wanted


def test_rounding_keeps_what_fits() -> None:
    for fmt in FLOATS.values():
        for code in (0, fmt.sign_bit, 1, fmt.max_code, fmt.max_code | fmt.sign_bit, fmt.inf_code or 0):
            assert round_real(decode_real(code, fmt), fmt) == decode_real(code, fmt)
    assert all(round_real(real(b), FLOAT16).nan for b in NAN_BITS)
    assert round_real(make_real(FLOAT32.max_value * 2), FLOAT32) == INFINITY
    assert round_real(make_real(-Fraction(1, 1 << 200)), BFLOAT16) == Real(1, Fraction(0))


def test_comparison_of_special_numbers() -> None:
    codes = [*FLOAT32_SPECIALS, *(c | SIGN for c in FLOAT32_SPECIALS), *NAN_BITS]
    array = floats(codes)
    for code, x in zip(codes, array, strict=True):
        assert [reals.less(real(code), real(other)) for other in codes] == (x < array).tolist()


@pytest.mark.parametrize("bits", [*FLOAT32_SPECIALS, *NAN_BITS])
def test_signs(bits: int) -> None:
    for code in (bits, bits ^ SIGN):
        x = real(code)
        assert reals.negate(x).sign == 1 - x.sign
        assert reals.negate(reals.negate(x)) == x
        assert reals.absolute(x) == (x if not x.sign else reals.negate(x))


def test_flush_subnormal() -> None:
    for code in (1, MIN_NORMAL - 1):
        assert reals.flush_subnormal(real(code), FLOAT32) == ZERO
        assert reals.flush_subnormal(real(code | SIGN), FLOAT32) == Real(1, Fraction(0))
    for code in (0, SIGN, MIN_NORMAL, MIN_NORMAL | SIGN, FLT_MAX, INF, INF | SIGN):
        assert reals.flush_subnormal(real(code), FLOAT32) == real(code)
    assert reals.flush_subnormal(NAN, FLOAT32).nan


@given(st.integers(0, FLT_MAX), st.booleans())
def test_float32_codes_survive(bits: int, negative: bool) -> None:
    code = bits | SIGN if negative else bits
    assert encode_real(real(code), FLOAT32) == code
    assert float(real(code).value) == float(floats([code])[0])


def test_kinds_of_numbers() -> None:
    assert (ZERO.is_zero, ZERO.is_finite, ZERO.is_infinite) == (True, True, False)
    assert (INFINITY.is_zero, INFINITY.is_finite, INFINITY.is_infinite) == (False, False, True)
    assert (NAN.is_zero, NAN.is_finite, NAN.is_infinite) == (False, False, False)
    assert make_real(-2) == Real(1, Fraction(2))
    assert make_real(0, negative_zero=True) == Real(1, Fraction(0))
    assert make_real(3, negative_zero=True) == Real(0, Fraction(3))
    assert make_real(-2).value == -2
    assert [str(x) for x in (make_real(Fraction(-1, 2)), INFINITY, reals.negate(NAN))] == ["-1/2", "+inf", "-nan"]


@pytest.mark.parametrize("x", [NAN, INFINITY, reals.negate(INFINITY)])
def test_only_finite_numbers_have_a_value(x: Real) -> None:
    with pytest.raises(ValueError, match="has no rational value"):
        _ = x.value
