"""Formats as data: the published facts, the meaning of every code, the registries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mxspec
from mxspec import formats, reals
from mxspec.formats import (
    BLOCKS,
    ELEMENTS,
    FLOATS,
    SCALES,
    ElementFormat,
    ScalarFormat,
    ScaleFormat,
    floor_log2,
    get_block,
    get_scalar,
    power_of_two,
    register_scalar,
)

from tests.support import FLOAT_TYPES, magnitudes

SCALARS: dict[str, ElementFormat | ScaleFormat] = {**ELEMENTS, **SCALES}
EVERY_FORMAT: dict[str, ScalarFormat] = {**SCALARS, **FLOATS}

F = Fraction

#: name -> bits, emax, largest value and its code, smallest normal, smallest positive, Inf codes, NaN codes.
#: OCP MX v1.0 tables 1 to 7, OFP8 table 1.
FACTS: dict[str, tuple[int, int, Fraction, int, Fraction, Fraction, set[int], set[int]]] = {
    "e2m1": (4, 2, F(6), 0x7, F(1), F(1, 2), set(), set()),
    "e2m3": (6, 2, F(15, 2), 0x1F, F(1), F(1, 8), set(), set()),
    "e3m2": (6, 4, F(28), 0x1F, F(1, 4), F(1, 16), set(), set()),
    "e4m3": (8, 8, F(448), 0x7E, F(1, 64), F(1, 512), set(), {0x7F, 0xFF}),
    "e5m2": (8, 15, F(57344), 0x7B, F(1, 1 << 14), F(1, 1 << 16), {0x7C, 0xFC},
             {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}),
    "int8": (8, 0, F(127, 64), 0x7F, F(1, 64), F(1, 64), set(), set()),
    "e8m0": (8, 127, F(2) ** 127, 0xFE, F(2) ** -127, F(2) ** -127, set(), {0xFF}),
    "ue4m3": (7, 8, F(448), 0x7E, F(1, 64), F(1, 512), set(), {0x7F}),
    "float16": (16, 15, F(65504), 0x7BFF, F(1, 1 << 14), F(1, 1 << 24), {0x7C00, 0xFC00}, set()),
    "bfloat16": (16, 127, F(255) * 2**120, 0x7F7F, F(2) ** -126, F(2) ** -133, {0x7F80, 0xFF80}, set()),
}  # fmt: skip


@cache
def decode_all(fmt: ScalarFormat) -> list[reals.Real]:
    """What every code means."""
    return [reals.decode_real(c, fmt) for c in range(fmt.code_count)]


@pytest.mark.parametrize("name", FACTS)
def test_published_facts(name: str) -> None:
    bits, emax, largest, code, normal, smallest, infinities, nans = FACTS[name]
    fmt = EVERY_FORMAT[name]
    assert fmt.bits == bits
    assert fmt.code_count == 2**bits
    assert fmt.emax == emax
    assert fmt.max_value == largest
    assert fmt.max_code == code
    assert fmt.min_normal == normal
    assert fmt.min_subnormal == smallest
    decoded = decode_all(fmt)
    assert {c for c, x in enumerate(decoded) if x.is_infinite} == infinities
    found = {c for c, x in enumerate(decoded) if x.nan}
    assert found == {c for c in range(fmt.code_count) if fmt.is_nan(c)}
    if name in FLOATS:
        assert len(found) == 2 * (2**fmt.mantissa_bits - 1)
    else:
        assert found == nans


def test_all_formats_have_facts() -> None:
    assert set(FACTS) == set(EVERY_FORMAT) - {"float32"}


@pytest.mark.parametrize("name", SCALARS)
def test_meaning_of_every_code(name: str) -> None:
    """Sign, exponent field and fraction read from the bits by hand."""
    fmt = SCALARS[name]
    for code in range(fmt.code_count):
        x = reals.decode_real(code, fmt)
        if name == "int8":
            assert x.value == F(code - 256 if code > 127 else code, 64)
            continue
        if x.nan or x.is_infinite:
            continue
        sign, magnitude = (code >> (fmt.bits - 1), code & (2 ** (fmt.bits - 1) - 1)) if fmt.signed else (0, code)
        assert x.value == (-1) ** sign * magnitudes(fmt)[magnitude]
        assert x.sign == sign


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_16_bit_float_means_what_numpy_says(name: str) -> None:
    dtype, fmt, unsigned = FLOAT_TYPES[name]
    values = np.arange(1 << 16).astype(unsigned).view(dtype).astype(np.float32)
    for x, value in zip(decode_all(fmt), values, strict=True):
        assert x.nan == bool(np.isnan(value))
        if x.nan:
            continue
        assert x.sign == int(np.signbit(value))
        assert (np.inf if x.magnitude is None else float(x.magnitude)) == abs(value)


@pytest.mark.parametrize("name", SCALARS)
def test_split_and_join_are_inverse(name: str) -> None:
    fmt = SCALARS[name]
    for code in range(fmt.code_count):
        sign, magnitude = fmt.split(code)
        assert fmt.join(sign, magnitude) == code
        assert sign == int(fmt.signed and code >= fmt.code_count // 2)
    assert fmt.join(1, 5) == (5 if not fmt.signed else (-5 % 256 if fmt.twos_complement else 5 | fmt.sign_bit))


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("excess", [0, 1])
def test_split_refuses_what_is_no_code(name: str, excess: int) -> None:
    fmt = SCALARS[name]
    code = -1 if excess else fmt.code_count
    with pytest.raises(ValueError, match=rf"more than the {fmt.bits} bits of {name}; allowed are 0 to"):
        fmt.split(code)


@pytest.mark.parametrize("name", EVERY_FORMAT)
def test_magnitude_codes_are_ordered_and_go_on_past_the_largest(name: str) -> None:
    fmt = EVERY_FORMAT[name]
    codes = range(fmt.max_code + 1) if fmt.bits <= 8 else [0, 1, 2, fmt.max_code - 1, fmt.max_code]
    values = [fmt.magnitude(c) for c in codes]
    assert values == sorted(set(values))
    gap = fmt.magnitude(fmt.max_code) - fmt.magnitude(fmt.max_code - 1)
    # e4m3 and ue4m3 end before their binade does; the others' next value is a power of two; e8m0's gap doubles.
    expected = fmt.max_value + (2 * gap if name == "e8m0" else gap)
    assert fmt.magnitude(fmt.max_code + 1) == expected
    assert fmt.magnitude(0) == (0 if fmt.has_zero else F(2) ** -127)


@given(st.fractions(min_value=F(1, 1 << 200), max_value=1 << 200))
def test_floor_log2(value: Fraction) -> None:
    e = floor_log2(value)
    assert power_of_two(e) <= value < power_of_two(e + 1)


@pytest.mark.parametrize("exponent", [-1074, -149, -1, 0, 1, 127, 1023])
def test_floor_log2_at_powers_of_two(exponent: int) -> None:
    power = power_of_two(exponent)
    assert power == F(2) ** exponent
    assert floor_log2(power) == exponent
    assert floor_log2(power * (1 - F(1, 1 << 80))) == exponent - 1
    assert floor_log2(power * (1 + F(1, 1 << 80))) == exponent


#: name -> element, scale, k, tensor scale, block shapes, bits per element.
BLOCK_FACTS: dict[str, tuple[str, str, int, bool, tuple[tuple[int, int], ...], Fraction]] = {
    "mxfp4": ("e2m1", "e8m0", 32, False, ((1, 32),), F(17, 4)),
    "mxfp6_e2m3": ("e2m3", "e8m0", 32, False, ((1, 32),), F(25, 4)),
    "mxfp6_e3m2": ("e3m2", "e8m0", 32, False, ((1, 32),), F(25, 4)),
    "mxfp8_e4m3": ("e4m3", "e8m0", 32, False, ((1, 32),), F(33, 4)),
    "mxfp8_e5m2": ("e5m2", "e8m0", 32, False, ((1, 32),), F(33, 4)),
    "mxint8": ("int8", "e8m0", 32, False, ((1, 32),), F(33, 4)),
    "nvfp4": ("e2m1", "ue4m3", 16, True, ((1, 16), (16, 16)), F(9, 2)),
}


def test_block_formats() -> None:
    found = {name: (f.element.name, f.scale.name, f.k, f.has_tensor_scale, f.shapes, f.bits_per_element) for name, f in BLOCKS.items()}
    assert found == BLOCK_FACTS


def test_formats_are_frozen_and_public() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(BLOCKS["mxfp4"], "k", 16)  # noqa: B010  # mypy would refuse the assignment
    assert get_block("mxfp4") is BLOCKS["mxfp4"] is mxspec.get_block(BLOCKS["mxfp4"])
    assert get_scalar("e2m1") is ELEMENTS["e2m1"] is get_scalar(ELEMENTS["e2m1"])
    assert get_scalar("e8m0") is SCALES["e8m0"]


@pytest.fixture
def registries() -> Iterator[None]:
    """Restores the registries of scalar formats."""
    kept = [(registry, dict(registry)) for registry in (formats._elements, formats._scales)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


UE5M3 = ScaleFormat(
    name="ue5m3", bits=8, exponent_bits=5, mantissa_bits=3, bias=15, signed=False, has_zero=True,
    max_code=0xFE, nan_code=0xFF,
)  # fmt: skip


@pytest.mark.usefixtures("registries")
def test_a_new_format_can_be_registered_and_used() -> None:
    """UE5M3 as CUDA 13.5 has it: smallest 2^-17, smallest normal 2^-14, 1.0 = 78, largest 1.75 * 2^16."""
    assert "ue5m3" not in SCALES
    register_scalar(UE5M3)
    register_scalar(UE5M3)
    assert get_scalar("ue5m3") is UE5M3
    assert UE5M3.max_value == 114688
    x = np.array([0, 2**-17, 2**-14, 1, 114688, np.inf, np.nan], np.float32)
    codes = mxspec.encode(x, "ue5m3")
    assert codes.tolist() == [0x00, 0x01, 0x08, 0x78, 0xFE, 0xFE, 0xFF]
    assert mxspec.decode(codes[:5], "ue5m3").tolist() == x[:5].tolist()
    tiny = ElementFormat(name="e1m2", bits=4, exponent_bits=1, mantissa_bits=2, bias=1, signed=True, has_zero=True, max_code=7)
    register_scalar(tiny)
    assert ELEMENTS["e1m2"] is tiny
    assert mxspec.decode(np.arange(8, dtype=np.uint8), "e1m2").tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75]
