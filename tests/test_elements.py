"""Encoders and decoders on arrays against the exact definition: every format, rounding, overflow and NaN policy."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import mxspec
from mxspec.elements import as_float32, decode_table, default_nan_policy, encode_table, exact_table_index, round_to, table_index
from mxspec.formats import ELEMENTS, SCALES, ElementFormat, ScaleFormat
from mxspec.reals import Real, encode_real
from mxspec.rounding import DETERMINISTIC, NanPolicy, Overflow, Rounding

from tests.strategies import float32_bits
from tests.support import (
    BFLOAT,
    FLOAT_TYPES,
    FLT_MAX,
    INF,
    NAN_BITS,
    SIGN,
    Array,
    Float32s,
    assert_same,
    bits_of,
    both_signs,
    floats,
    magnitudes,
    real,
    reals_of,
    rng,
    rounded_bits,
    rounding_points,
)

Scalar = ElementFormat | ScaleFormat
SCALARS: dict[str, Scalar] = {**ELEMENTS, **SCALES}


def has_own(fmt: Scalar) -> bool:
    """Whether the format has an Inf or a NaN."""
    return fmt.inf_code is not None or fmt.nan_code is not None


def overflows(fmt: Scalar) -> list[Overflow]:
    """The overflow policies that a format can honour."""
    return list(Overflow) if has_own(fmt) else [Overflow.SATURATE]


def inputs(fmt: Scalar) -> list[int]:
    """float32 bits where some encoder of the format changes its answer, in the signs that it takes."""
    points = rounding_points(fmt)
    return both_signs(points) if fmt.signed else [*points, SIGN]


def exact_codes(bits: list[int], fmt: Scalar, **options: Any) -> Array:
    return np.array([encode_real(real(b), fmt, **options) for b in bits], np.uint8)


@pytest.mark.parametrize("mode", [Rounding.RNE, Rounding.RTP, Rounding.RTN])
@pytest.mark.parametrize("name", SCALARS)
def test_every_bit_below_a_threshold_counts(name: str, mode: Rounding) -> None:
    """Each of the 16 low bits alone, above values and midpoints, in gaps that the run's seed chooses."""
    fmt = SCALARS[name]
    points = [b for b in rounding_points(fmt) if b & 0xFFFF == 0 and b < INF]
    chosen = rng("sticky", name, mode).sample(points, min(60, len(points)))
    bits = [b | 1 << low for b in chosen for low in range(16)]
    got = mxspec.encode(floats(bits), name, rounding=mode)
    assert_same(got, exact_codes(bits, fmt, rounding=mode), lambda i: f"{name} {mode}: {bits[i[0]]:08x}")


def test_default_nan_policies() -> None:
    """The format's NaN with the input's sign; PTX's positive maximum where there is none."""
    x = floats([0x7FC00000, 0xFFC00000])
    found = {name: mxspec.encode(x, name).tolist() for name in SCALARS}
    assert found == {
        "e2m1": [0x7, 0x7], "e2m3": [0x1F, 0x1F], "e3m2": [0x1F, 0x1F], "e4m3": [0x7F, 0xFF], "e5m2": [0x7F, 0xFF],
        "int8": [0x7F, 0x7F], "e8m0": [0xFF, 0xFF], "ue4m3": [0x7F, 0x7F],
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", SCALARS)
def test_other_dtypes_give_the_same_codes(name: str, kind: str) -> None:
    fmt = SCALARS[name]
    points = floats([*inputs(fmt), *NAN_BITS])
    if kind == "float64":
        with np.errstate(invalid="ignore"):
            x: Array = points.astype(np.float64)
        wide = points
    else:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            x = points.astype(FLOAT_TYPES[kind][0])
        wide = x.astype(np.float32)
    for mode in DETERMINISTIC:
        got = mxspec.encode(x, name, rounding=mode)
        assert_same(got, mxspec.encode(wide, name, rounding=mode))
    exact = [encode_real(v, fmt, nan=default_nan_policy(fmt)) for v in reals_of(wide)]
    assert mxspec.encode(x, name).tolist() == exact


def test_bfloat16_and_float16_values_themselves() -> None:
    """A 16-bit input is its value, not a rounded one: e4m3 ties of bfloat16's own grid."""
    x = np.array([0x4188, 0x4198, 0x4189], np.uint16).view(BFLOAT)  # 17, 19, 17.125
    assert mxspec.encode(x, "e4m3").tolist() == [0x58, 0x5A, 0x59]
    half = np.array([17, 19, 17.02], np.float16)
    assert mxspec.encode(half, "e4m3").tolist() == [0x58, 0x5A, 0x59]


@given(st.lists(st.tuples(float32_bits(), st.integers(0, 2**32 - 1)), min_size=1, max_size=20), st.data())
@example([(0x7F7FFFFF, 2**32 - 1), (INF, 0), (0x80000001, 2**32 - 1)], None)
def test_stochastic(pairs: list[tuple[int, int]], data: st.DataObject | None) -> None:
    names = sorted(SCALARS) if data is None else [data.draw(st.sampled_from(sorted(SCALARS)))]
    n = 32 if data is None else data.draw(st.integers(1, 32))
    for name in names:
        fmt = SCALARS[name]
        bits = [b for b, _ in pairs]
        words = [w for _, w in pairs]
        got = mxspec.encode(floats(bits), name, rounding="sr", random_bits=np.array(words, np.uint32), sr_bits=n, sign="ignore")
        nan = default_nan_policy(fmt)
        expected = [encode_real(real(b), fmt, rounding=Rounding.SR, random=w & 2**n - 1, random_bits=n, nan=nan) for b, w in pairs]
        assert got.tolist() == expected


def test_random_words_of_any_unsigned_width() -> None:
    """Only the low bits count."""
    x = np.full(4, 0.75, np.float32)
    codes = [
        mxspec.encode(x, "e2m1", rounding="sr", random_bits=words, sr_bits=8).tolist()
        for words in (
            np.array([0, 127, 128, 255], np.uint8),
            np.array([0xFF00, 0x017F, 0x0080, 0x12FF], np.uint16),
            np.array([0x12345600, 0xFFFFFF7F, 0x80, 0xABCDEFFF], np.uint32),
            np.array([1 << 40, 127, (1 << 63) + 128, (1 << 64) - 1], np.uint64),
        )
    ]
    assert codes == [[1, 1, 2, 2]] * 4


@pytest.mark.parametrize("name", ["e8m0", "ue4m3"])
def test_unsigned_formats_and_signs(name: str) -> None:
    x = np.array([0.0, -0.0, 1.0, np.inf], np.float32)
    zero = mxspec.encode(x, name)
    assert zero.tolist() == [0, 0, 0x7F if name == "e8m0" else 0x38, 0xFE if name == "e8m0" else 0x7E]
    assert_same(mxspec.encode(-x, name, sign="ignore"), zero)
    nan = floats([0xFFC00000])
    assert mxspec.encode(nan, name).tolist() == [SCALES[name].nan_code]
    for bad in (-1.0, -np.inf, -(2.0**-149)):
        with pytest.raises(ValueError, match=rf"x\[1\] = .* is negative and {name} is unsigned; pass sign='ignore'"):
            mxspec.encode(np.array([1, bad], np.float32), name)


SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (3, 0, 2), (2, 3), (2, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    x = np.resize(np.array([0.25, -1.25, 7, -0.0, np.inf], np.float32), size).reshape(shape)
    before = x.copy()
    codes = mxspec.encode(x, "e2m1")
    assert isinstance(codes, np.ndarray)
    assert (codes.dtype.name, codes.shape) == ("uint8", shape)
    assert codes.ravel().tolist() == np.resize(np.array([0, 0xA, 7, 8, 7]), size).tolist()
    values = mxspec.decode(codes, "e2m1")
    assert isinstance(values, np.ndarray)
    assert (values.dtype.name, values.shape) == ("float32", shape)
    assert bits_of(x).tolist() == bits_of(before).tolist()
    words = np.zeros(shape, np.uint32)
    stochastic = mxspec.encode(x, "e2m1", rounding="sr", random_bits=words)
    assert isinstance(stochastic, np.ndarray)
    assert_same(stochastic, mxspec.encode(x, "e2m1", rounding="rtz"))


def test_strides() -> None:
    base = np.arange(-12, 12, dtype=np.float32).reshape(4, 6) / 2
    reversed_view, transposed, every_other = base[:, ::-1], base.T, base[::2, 1::2]
    for view in (reversed_view, transposed, every_other, np.asfortranarray(base)):
        assert_same(mxspec.encode(view, "e2m3"), mxspec.encode(np.array(view, np.float32), "e2m3"))
    codes = mxspec.encode(base, "e2m3")
    assert_same(mxspec.decode(codes.T[::-1], "e2m3"), mxspec.decode(np.ascontiguousarray(codes.T[::-1]), "e2m3"))
    read_only = base.copy()
    read_only.flags.writeable = False
    assert_same(mxspec.encode(read_only, "e2m3"), codes)
    decoded = mxspec.decode(codes, "e2m3")
    decoded[:] = 7  # the result is the caller's own
    assert_same(mxspec.decode(codes, "e2m3"), base)


def test_tables_are_read_only() -> None:
    for table in (decode_table(ELEMENTS["e2m1"]), encode_table(ELEMENTS["e2m1"], Rounding.RNE, Overflow.SATURATE, NanPolicy.ZERO)):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 1


@lru_cache(maxsize=1)
def double_points() -> list[float]:
    """float64 numbers around float32, float16 and bfloat16 midpoints, closer than float32 can tell."""
    draw = rng("round_to")
    points: list[float] = [0.0, 5e-324, 2.0**-149, 2.0**-150, 2.0**-1022, 1e-310, 1e308, float(np.inf), 2.0**128, 65504.0]
    for _, fmt, _ in FLOAT_TYPES.values():
        last = fmt.max_code
        codes = {0, 1, 2, last - 1, last, 1 << fmt.mantissa_bits, (1 << fmt.mantissa_bits) - 1}
        codes.update(draw.randrange(last) for _ in range(60))
        for code in codes:
            low, high = float(fmt.magnitude(code)), float(fmt.magnitude(code + 1))
            middle = (low + high) / 2
            for value in (low, middle):
                points += [value, np.nextafter(value, -np.inf), np.nextafter(value, np.inf), value * (1 + 2.0**-40)]
                points += [value * (1 - 2.0**-30), value * (1 + 2.0**-26)]
    return [float(p) for p in points] + [-float(p) for p in points]


@pytest.mark.parametrize("kind", FLOAT_TYPES)
def test_round_to_rounds_once(kind: str) -> None:
    """float64 -> float32, float16, bfloat16; ml_dtypes' and some of NumPy's casts go through float32."""
    dtype, fmt, _ = FLOAT_TYPES[kind]
    points = double_points()
    got = round_to(np.array(points), dtype)
    assert got.dtype == dtype
    expected = []
    for p in points:
        sign = int(np.signbit(p))
        x = Real(sign, None) if np.isinf(p) else Real(sign, abs(Fraction(p)))
        expected.append(rounded_bits(x, fmt))
    found = bits_of(got).tolist()
    assert [(p, hex(b)) for p, b in zip(points, found, strict=True)] == [(p, hex(b)) for p, b in zip(points, expected, strict=True)]


@pytest.mark.parametrize("kind", FLOAT_TYPES)
def test_round_to_makes_nan_canonical(kind: str) -> None:
    dtype, fmt, _ = FLOAT_TYPES[kind]
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64)
    assert bits_of(round_to(nans.view(np.float64), dtype)).tolist() == [fmt.nan_code] * 4


@pytest.mark.parametrize("mode", DETERMINISTIC)
@pytest.mark.parametrize("name", SCALARS)
def test_exact_table_index_sees_what_float32_cannot(name: str, mode: Rounding) -> None:
    """Quotients as float64, just off every threshold, decided as the rational would be."""
    fmt = SCALARS[name]
    grid = magnitudes(fmt)[:: 1 if fmt.code_count < 128 else 3]
    values: list[float] = []
    for low, high in pairwise(grid):
        for value in (float(low), float((low + high) / 2)):
            values += [np.nextafter(value, 0), value, np.nextafter(value, np.inf), value * (1 + 2.0**-30)]
    values += [float(fmt.max_value) * (1 + 2.0**-50), float(fmt.max_value) * 1e9, 5e-324, 2.0**-150]
    x = np.array([*values, *(-v for v in values if fmt.signed)])
    table = encode_table(fmt, mode, Overflow.SATURATE, default_nan_policy(fmt))
    got = table[exact_table_index(x)]
    signs = [int(np.signbit(v)) for v in x]
    expected = [encode_real(Real(s, abs(Fraction(float(v)))), fmt, rounding=mode) for v, s in zip(x, signs, strict=True)]
    assert_same(got, np.array(expected, np.uint8), lambda i: f"{name} {mode}: {x[i[0]].hex()}")
    special = table[exact_table_index(np.array([np.inf, -0.0 if fmt.signed else 0.0]))]
    assert special.tolist() == [fmt.max_code, fmt.join(int(fmt.signed), 0)]


@given(st.lists(float32_bits(), min_size=1, max_size=30))
def test_exact_index_of_float32_is_the_index(bits: list[int]) -> None:
    x = floats([b for b in bits if b & ~SIGN <= INF])
    assert exact_table_index(x.astype(np.float64)).tolist() == table_index(x).tolist()


@given(st.integers(0, FLT_MAX), st.integers(1, (1 << 29) - 1))
def test_float64_is_taken_only_if_it_is_float32(bits: int, excess: int) -> None:
    """Any of the 29 bits that float32 lacks makes it refuse; none makes it pass."""
    value = float(floats([bits])[0])
    assert as_float32(np.array([value])).view(np.uint32)[0] == bits
    wider = (np.array([value]).view(np.uint64) + np.uint64(excess)).view(np.float64)
    with pytest.raises(ValueError, match=r"x\[0\] = .* is float64 and not exactly a float32"):
        as_float32(wider)


def test_as_float32_keeps_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    narrow: Float32s = as_float32(x)
    assert bits_of(narrow)[:4].tolist() == [0, SIGN, INF, INF | SIGN]
    assert np.isnan(narrow[4])
    already = np.array([1, 2], np.float32)
    assert as_float32(already) is already
