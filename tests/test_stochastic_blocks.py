"""Stochastic rounding in blocks: the arrays against the definition, and the neighbours of scaled elements."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import mxspec
from mxspec.elements_given_scale import find_neighbours
from mxspec.exact import RandomWords, quantize_block
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec.profiles.schema import Profile
from mxspec.reals import decode_real, neighbours

from tests.support import INF, NAN_BITS, SIGN, assert_same, floats, real, rng

#: (profile, format, whether with a tensor scale) of everything that can be rounded stochastically.
ROUNDABLE = [
    (p, f, steps is p.two_level)
    for p in mxspec.list_profiles()
    for f in p.formats
    for steps in (p.one_level, p.two_level)
    if steps is not None and steps.alternative is None and steps.element.error is None
]
#: Rows: ordinary numbers, wide, with a subnormal maximum, with special values.
SPECIAL = (0, SIGN, INF, INF | SIGN, *NAN_BITS)


def draw_rows(name: str, k: int) -> list[list[int]]:
    draw = rng(name)
    rows = [[draw.randrange(1 << 32) & 0x807FFFFF | draw.randrange(118, 134) << 23 for _ in range(k)] for _ in range(3)]
    rows += [[draw.randrange(1 << 23) | draw.randrange(2) << 31 for _ in range(k)]]
    rows += [[draw.choice([*SPECIAL, draw.randrange(0x7F800000)]) for _ in range(k)]]
    rows += [[draw.choice([0, SIGN, INF | SIGN, draw.randrange(0x7F800000)]) for _ in range(k)]]
    return rows


@pytest.mark.parametrize("bits", [8, 32])
def test_arrays_are_the_definition_in_every_profile(bits: int) -> None:
    """Numbers, zeros, infinities and NaN; codes and scales; what the definition refuses is refused."""
    assert len(ROUNDABLE) > 100
    for profile, fmt, two_level in ROUNDABLE:
        check(profile, fmt, bits, two_level)


def check(profile: Profile, fmt: str, bits: int, two_level: bool) -> None:
    k = BLOCKS[fmt].k
    draw = rng(f"words {profile.id} {bits}")
    for row in draw_rows(f"{profile.id} {fmt} {bits}", k):
        words = [draw.choice([0, 1, 2**bits - 1, draw.randrange(2**bits)]) for _ in range(k)]
        x, array = floats(row), np.array(words, np.uint32)
        largest = np.nan_to_num(x, nan=0, posinf=0, neginf=0)
        scale = mxspec.tensor_scale(largest, fmt, profile) if two_level else None
        native = None if scale is None else real(scale.bits)
        try:
            expected = quantize_block([real(b) for b in row], fmt, profile=profile, tensor_scale=native, random=RandomWords(words, bits))
        except ValueError:
            with pytest.raises(ValueError, match="NaN"):
                mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale, random_bits=array, sr_bits=bits)
            continue
        t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale, random_bits=array, sr_bits=bits)
        assert int(t.scales[0]) == expected.scale_code, (profile.id, fmt)
        assert_same(t.codes, np.array(expected.codes, np.uint8), lambda i, r=row: f"{profile.id} {fmt} {r[i[0]]:08x}")


def test_what_chooses_by_errors_is_refused_by_the_definition_too() -> None:
    name = "fouroversix-0.1/nvfp4/mse"
    with pytest.raises(ValueError, match="chooses between answers by their errors; quantize without random words"):
        quantize_block([real(0x3F800000)] * 16, "nvfp4", profile=name, tensor_scale=real(0x3F800000), random=RandomWords([0] * 16))


@pytest.mark.parametrize("name", list(ELEMENTS))
def test_neighbours_of_scaled_elements(name: str) -> None:
    """Both codes and the fraction, against exact numbers: everywhere between two values, on them, and beyond the largest."""
    element, draw = ELEMENTS[name], rng(f"neighbours {name}")
    top = element.max_value
    points = [Fraction(0), top, top * 2, Fraction(1, 1 << 126)]
    for m in range(element.max_code):
        low, high = element.magnitude(m), element.magnitude(m + 1)
        points += [low, *(low + (high - low) * Fraction(draw.randrange(1, 256), 256) for _ in range(3))]
        points.append(low + (high - low) * Fraction(1, 1 << 19))
    scaled = np.array([float(sign * p) for p in points for sign in (1, -1)])
    low_codes, high_codes, fractions = find_neighbours(scaled, element)
    for value, a, b, fraction in zip(scaled, low_codes, high_codes, fractions, strict=True):
        magnitude = min(Fraction(abs(float(value))), top)
        first, second = neighbours(magnitude, element)
        sign = int(np.signbit(value))
        assert (int(a), int(b)) == (element.join(sign, first), element.join(sign, min(second, element.max_code))), value
        between = element.magnitude(second) - element.magnitude(first) if second > first else Fraction(1)
        assert Fraction(float(fraction)) == (magnitude - element.magnitude(first)) / between
        assert decode_real(int(a), element).value == (-1 if sign else 1) * element.magnitude(first)
