"""Scalars by exhaustion: every code, and every bfloat16 and float16 number through every encoder.

The exact model is evaluated where its answer may change. It is monotone in the magnitude for each sign (for stochastic
rounding with a fixed word too), so among sorted magnitudes equal answers at both ends of a stretch are the answers of
the whole stretch, and bisection finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

import mxspec
from mxspec import elements, reals
from mxspec.formats import BFLOAT16, ELEMENTS, FLOAT16, FLOAT32, SCALES, ElementFormat, ScaleFormat
from mxspec.rounding import DETERMINISTIC, NanPolicy, Overflow, Rounding

from tests.cuda_headers import all_of, directed_float32
from tests.support import SIGN, Codes, Float32s, assert_same, bits_of, float_of, real, rng

FORMATS: dict[str, ElementFormat | ScaleFormat] = {**ELEMENTS, **SCALES}
OVERFLOWS = {name: tuple(Overflow) if fmt.nan_code is not None else (Overflow.SATURATE,) for name, fmt in FORMATS.items()}
CASES = [(name, overflow) for name in FORMATS for overflow in OVERFLOWS[name]]

_NAN = 0x7FC00000


@lru_cache(maxsize=1)
def sixteen_bit_inputs() -> Float32s:
    """All bfloat16 and float16 numbers, widened to float32."""
    x: Float32s = np.concatenate([all_of(d).astype(np.float32) for d in ("bfloat16", "float16")])
    return x


@lru_cache(maxsize=1)
def magnitudes() -> tuple[list[int], np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """The sorted magnitude bits of the inputs, all NaN as one, and the place of each input among them."""
    bits = bits_of(sixteen_bit_inputs()) & np.uint32(SIGN - 1)
    bits = np.where(bits > 0x7F800000, np.uint32(_NAN), bits)
    unique, place = np.unique(bits, return_inverse=True)
    return unique.tolist(), place


def exact_codes(answer: Callable[[int], int]) -> Codes:
    """The exact answers for all inputs; `answer` takes float32 bits."""
    sorted_bits, place = magnitudes()
    halves = []
    for sign in (0, SIGN):
        codes = np.zeros(len(sorted_bits), np.uint8)
        _fill(lambda i, sign=sign: answer(sorted_bits[i] | sign), codes)  # type: ignore[misc]
        halves.append(codes)
    negative = np.signbit(sixteen_bit_inputs())
    result: Codes = np.where(negative, halves[1][place], halves[0][place])
    return result


def _fill(answer: Callable[[int], int], codes: Codes) -> None:
    """All answers to sorted magnitudes; infinity and NaN are the last two."""
    last = len(codes) - 3
    codes[-2], codes[-1] = answer(last + 1), answer(last + 2)
    codes[0], codes[last] = answer(0), answer(last)
    stretches = [(0, last)]
    while stretches:
        low, high = stretches.pop()
        if codes[low] == codes[high]:
            codes[low:high] = codes[low]
        elif high - low > 1:
            middle = (low + high) // 2
            codes[middle] = answer(middle)
            stretches += [(low, middle), (middle, high)]


def encoder(fmt: ElementFormat | ScaleFormat, rounding: Rounding, overflow: Overflow, word: int | None = None) -> Callable[[int], int]:
    """The exact model of one encoder, on float32 bits; 8 random bits."""
    nan = elements.default_nan_policy(fmt)

    def answer(bits: int) -> int:
        x = real(bits)
        return reals.encode_real(
            x if fmt.signed else reals.absolute(x), fmt,
            rounding=rounding, overflow=overflow, nan=nan, random=word, random_bits=8,
        )  # fmt: skip

    return answer


def describe(index: tuple[int, ...]) -> str:
    return f"float32 {int(bits_of(sixteen_bit_inputs())[index]):#010x}"


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_decodes_exactly(name: str) -> None:
    fmt = FORMATS[name]
    codes = np.arange(fmt.code_count, dtype=np.uint32).astype(np.uint8)
    expected = np.array([float_of(reals.decode_real(int(c), fmt)) for c in codes], np.float32)
    missing = np.array([fmt.is_nan(int(c)) for c in codes])
    values = mxspec.decode(codes, name)
    assert np.array_equal(np.isnan(values), missing)
    assert_same(values[~missing], expected[~missing])


@pytest.mark.parametrize("rounding", DETERMINISTIC)
@pytest.mark.parametrize("name", FORMATS)
def test_every_value_encodes_to_its_own_code(name: str, rounding: Rounding) -> None:
    """But for the NaN codes, and int8's 80, which means -2 and which the encoder does not write."""
    fmt = FORMATS[name]
    codes = np.array([c for c in range(fmt.code_count) if not fmt.is_nan(c)], np.uint8)
    overflow = Overflow.OWN if fmt.inf_code is not None else Overflow.SATURATE
    again = mxspec.encode(mxspec.decode(codes, name), name, rounding=rounding, overflow=overflow)
    if name == "int8":
        assert again[0x80] == 0x81
        again[0x80] = 0x80
    assert_same(again, codes)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bit_numbers_widen_exactly(dtype: str) -> None:
    x = all_of(dtype)
    fmt = BFLOAT16 if dtype == "bfloat16" else FLOAT16
    wide = bits_of(elements.as_float32(x)).tolist()
    for bits, wide_bits in enumerate(wide):
        narrow = reals.decode_real(bits, fmt)
        widened = reals.decode_real(wide_bits, FLOAT32)
        assert (widened.nan, widened.sign) == (narrow.nan, narrow.sign)
        assert narrow.nan or widened == narrow


@pytest.mark.parametrize("rounding", DETERMINISTIC)
@pytest.mark.parametrize(("name", "overflow"), CASES)
def test_every_sixteen_bit_number(name: str, overflow: Overflow, rounding: Rounding) -> None:
    expected = exact_codes(encoder(FORMATS[name], rounding, overflow))
    x = sixteen_bit_inputs()
    assert_same(mxspec.encode(x, name, rounding=rounding, overflow=overflow, sign="ignore"), expected, describe)


@pytest.mark.parametrize(("name", "overflow"), CASES)
def test_every_sixteen_bit_number_stochastically(name: str, overflow: Overflow) -> None:
    x = sixteen_bit_inputs()
    draw = rng("sr", name, overflow)
    for word in (0, 128, 255, draw.randrange(256)):
        expected = exact_codes(encoder(FORMATS[name], Rounding.SR, overflow, word))
        codes = mxspec.encode(
            x, name, rounding="sr", overflow=overflow, sign="ignore", sr_bits=8,
            random_bits=np.full(x.shape, word, np.uint8),
        )  # fmt: skip
        assert_same(codes, expected, lambda i, word=word: f"{describe(i)}, random bits {word}")  # type: ignore[misc]


@pytest.mark.parametrize("rounding", DETERMINISTIC)
@pytest.mark.parametrize(("name", "overflow"), CASES)
def test_values_midpoints_and_their_neighbours(name: str, overflow: Overflow, rounding: Rounding) -> None:
    x = directed_float32(name)
    answer = encoder(FORMATS[name], rounding, overflow)
    expected = np.array([answer(int(b)) for b in bits_of(x)], np.uint8)
    codes = mxspec.encode(x, name, rounding=rounding, overflow=overflow, sign="ignore")
    assert_same(codes, expected, lambda i: f"float32 {int(bits_of(x)[i]):#010x}")


@pytest.mark.parametrize(("name", "overflow"), CASES)
@pytest.mark.parametrize("bits", [1, 8, 16, 32])
def test_stochastic_rounding_around_values(name: str, overflow: Overflow, bits: int) -> None:
    """Random words, and for each input the last word that keeps it down with the first that takes it up."""
    fmt, draw = FORMATS[name], rng("sr around", name, overflow, bits)
    x = directed_float32(name)
    x = x[draw.sample(range(len(x)), min(400, len(x)))]
    nan = elements.default_nan_policy(fmt)
    inputs, words = [], []
    for b in bits_of(x).tolist():
        value = reals.absolute(real(b))
        tried = {0, (1 << bits) - 1, draw.randrange(1 << bits)}
        if value.is_finite:
            assert value.magnitude is not None
            low, high = reals.neighbours(value.magnitude, fmt)
            if low != high:
                a, z = fmt.magnitude(low), fmt.magnitude(high)
                step = (value.magnitude - a) * (1 << bits) // (z - a)
                tried |= {w for w in ((1 << bits) - step - 1, (1 << bits) - step) if 0 <= w < 1 << bits}
        inputs += [b] * len(tried)
        words += sorted(tried)
    given = np.array(inputs, np.uint32).view(np.float32)
    expected = [
        reals.encode_real(
            real(b) if fmt.signed else reals.absolute(real(b)), fmt,
            rounding=Rounding.SR, overflow=overflow, nan=nan, random=w, random_bits=bits,
        )
        for b, w in zip(inputs, words, strict=True)
    ]  # fmt: skip
    codes = mxspec.encode(
        given, name, rounding="sr", overflow=overflow, sign="ignore", sr_bits=bits,
        random_bits=np.array(words, np.uint32),
    )  # fmt: skip
    assert_same(codes, np.array(expected, np.uint8), lambda i: f"float32 {inputs[i[0]]:#010x}, random bits {words[i[0]]:#x}")


@pytest.mark.parametrize("policy", NanPolicy)
@pytest.mark.parametrize("name", FORMATS)
def test_every_nan_policy(name: str, policy: NanPolicy) -> None:
    fmt = FORMATS[name]
    nans = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF], np.uint32)
    if policy is NanPolicy.RAISE or (fmt.nan_code is None and policy.value in ("nan", "nan-positive", "nan-negative")):
        with pytest.raises(ValueError, match=f"nan='{policy.value}'"):
            mxspec.encode(nans.view(np.float32), name, nan=policy)
        return
    positive, negative = reals.nan_codes(fmt, policy)
    if not fmt.signed:
        negative = positive
    for rounding in (*DETERMINISTIC, Rounding.SR):
        words = np.full(6, 255, np.uint8) if rounding is Rounding.SR else None
        codes = mxspec.encode(
            nans.view(np.float32), name, rounding=rounding, nan=policy, random_bits=words,
            sr_bits=8 if words is not None else 32,
        )  # fmt: skip
        assert codes.tolist() == [positive] * 3 + [negative] * 3
