"""Stochastic rules: Transformer Engine's software rule on arrays against its definition, its packing, its difference
from the integer rule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mxspec
from mxspec.formats import E2M1
from mxspec.reals import encode_real
from mxspec.rounding import Rounding
from mxspec.stochastic import encode_te_stochastic, encode_te_stochastic_exact, unpack_random_words

from tests.strategies import float32_bits
from tests.support import BFLOAT, FLT_MAX, INF, MIN_NORMAL, NAN_BITS, SIGN, around, assert_same, float_bits, floats, real, rng

BYTES = np.arange(256, dtype=np.uint8)


def points() -> list[int]:
    """float32 bits where the rule is directed at: every quarter of every step, the floats next to it, and the ends."""
    found = {0, 1, MIN_NORMAL - 1, MIN_NORMAL, FLT_MAX - 1, FLT_MAX}
    for low, step, count in ((Fraction(0), Fraction(1, 2), 4), (Fraction(2), Fraction(1), 2), (Fraction(4), Fraction(2), 1)):
        for n in range(count * 4 + 1):
            found.update(around(float_bits(low + step * Fraction(n, 4))))
    for value in (6.0, 7.0, 1e30):
        found.update(around(float_bits(value)))
    return sorted(found)


def test_every_byte_at_directed_points() -> None:
    """All 256 bytes at each point; a negative number gives the positive one's code with the sign set."""
    codes = points()
    x = np.repeat(floats(codes), 256)
    r = np.tile(BYTES, len(codes))
    expected = np.array([encode_te_stochastic_exact(real(c), byte) for c in codes for byte in range(256)], np.uint8)

    def describe(index: tuple[int, ...]) -> str:
        return f"{codes[index[0] // 256]:08x} with byte {index[0] % 256}"

    assert_same(encode_te_stochastic(x, r), expected, describe)
    assert_same(encode_te_stochastic(-x, r), expected | np.uint8(8), describe)
    for c in codes[::7]:
        assert encode_te_stochastic_exact(real(c | SIGN), 200) == encode_te_stochastic_exact(real(c), 200) | 8


@given(float32_bits(), st.integers(0, 255))
def test_any_number(bits: int, byte: int) -> None:
    got = encode_te_stochastic(floats([bits]), np.array([byte], np.uint8))
    assert got.tolist() == [encode_te_stochastic_exact(real(bits), byte)]


def test_where_the_two_rules_differ() -> None:
    """One float below each threshold of a byte: only there, and there the software rule goes up."""
    differing: list[tuple[float, int]] = []
    for byte in range(1, 256):
        for low, step in ((0.0, 0.5), (0.5, 0.5), (1.0, 0.5), (1.5, 0.5), (2.0, 1.0), (3.0, 1.0), (4.0, 2.0)):
            threshold = float_bits(Fraction(low) + Fraction(step) * Fraction(256 - byte, 256))
            x = floats([threshold - 2, threshold - 1, threshold, threshold + 1])
            bytes_ = np.full(4, byte, np.uint8)
            software = encode_te_stochastic(x, bytes_)
            integer = mxspec.encode(x, "e2m1", rounding="sr", random_bits=bytes_, sr_bits=8)
            assert (integer[2:] == software[2:]).all()
            assert (software >= integer).all()
            differing += [(float(v), byte) for v, s, i in zip(x, software, integer, strict=True) if s != i]
    assert (float.fromhex("0x1.fffffep-3"), 128) in differing
    assert all(encode_real(real(float_bits(v)), E2M1, rounding=Rounding.SR, random=b, random_bits=8)
               < encode_te_stochastic_exact(real(float_bits(v)), b) for v, b in differing)  # fmt: skip
    assert len(differing) > 100


def test_probability() -> None:
    """Of 256 bytes: 1.9 goes up in 204, 2.5 in 128, 5.99 in 254; values of the grid and zero never move."""

    def ups(value: float) -> int:
        x = np.full(256, value, np.float32)
        codes = encode_te_stochastic(x, BYTES)
        return int((codes > codes.min()).sum())

    assert [ups(v) for v in (1.9, 2.5, 5.99)] == [204, 128, 254]
    for value in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 7.0, 1e38):
        assert ups(value) == 0
        assert ups(-value) == 0


def test_special_numbers() -> None:
    """Beyond 6, infinities: 6 with their sign; NaN of either sign: +6; zeros keep their sign."""
    x = floats([INF, INF | SIGN, FLT_MAX, FLT_MAX | SIGN, 0, SIGN, *NAN_BITS])
    for byte in (0, 255):
        got = encode_te_stochastic(x, np.full(len(x), byte, np.uint8)).tolist()
        assert got == [0x7, 0xF, 0x7, 0xF, 0x0, 0x8] + [0x7] * len(NAN_BITS)
    assert [encode_te_stochastic_exact(real(b), 9) for b in (INF, INF | SIGN, *NAN_BITS)] == [7, 15] + [7] * len(NAN_BITS)


def test_other_dtypes_and_shapes() -> None:
    draw = rng("te shapes")
    values = np.array([draw.randrange(-96, 97) / 16 for _ in range(24)], np.float32).reshape(2, 3, 4)
    r = np.array([draw.randrange(256) for _ in range(24)], np.uint8).reshape(2, 3, 4)
    codes = encode_te_stochastic(values, r)
    assert (codes.dtype.name, codes.shape) == ("uint8", (2, 3, 4))
    for dtype in (np.float16, BFLOAT, np.float64):
        assert_same(encode_te_stochastic(values.astype(dtype), r), codes)
    assert_same(encode_te_stochastic(values.transpose(), r.transpose()), np.ascontiguousarray(codes.transpose()))
    assert encode_te_stochastic(values[:0], r[:0]).shape == (0, 3, 4)
    scalar = encode_te_stochastic(np.float32(1.25), np.uint8(255))
    assert (scalar.shape, int(scalar)) == ((), 3)


def test_packing_of_random_words() -> None:
    """One word for four neighbours, the lowest byte the first of them."""
    words = np.array([[0x44332211, 0xDDCCBBAA], [0, 0x01020304]], np.uint32)
    expected = [[0x11, 0x22, 0x33, 0x44, 0xAA, 0xBB, 0xCC, 0xDD], [0, 0, 0, 0, 4, 3, 2, 1]]
    assert unpack_random_words(words).tolist() == expected
    assert unpack_random_words(words).dtype == np.uint8
    assert unpack_random_words(words[:, ::-1]).tolist() == [row[4:] + row[:4] for row in expected]
    assert unpack_random_words(np.uint32(0x44332211)).tolist() == [0x11, 0x22, 0x33, 0x44]
    assert unpack_random_words(words[:, :0]).shape == (2, 0)
    big_endian = words.astype(">u4")
    assert unpack_random_words(big_endian.astype(np.uint32)).tolist() == expected


def test_wrong_random_bytes_are_refused() -> None:
    x = np.zeros((2, 4), np.float32)
    message = r"random_bytes have dtype {} and shape {}; pass uint8 of shape \(2, 4\) \(unpack_random_words makes them"
    with pytest.raises(ValueError, match=message.format("uint32", r"\(2, 4\)")):
        encode_te_stochastic(x, np.zeros((2, 4), np.uint32))
    with pytest.raises(ValueError, match=message.format("uint8", r"\(4,\)")):
        encode_te_stochastic(x, np.zeros(4, np.uint8))
    with pytest.raises(TypeError, match="words have dtype int64; pass uint32, one word for four elements"):
        unpack_random_words(np.zeros(4, np.int64))
