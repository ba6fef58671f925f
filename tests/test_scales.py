"""Scale rules on arrays: against the exact model, against integer arithmetic on the bits, against log2 itself."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy import log2 as numpy_log2  # noqa: TID251  # the outside witness of the thresholds; the model calls no log2

from mxspec import exact
from mxspec.expressions import AMAX
from mxspec.formats import BFLOAT16, E8M0, ELEMENTS, FLOAT32, UE4M3, ElementFormat, ScaleFormat
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import ExponentUnderflow, ScaleRule, ScaleStep
from mxspec.reals import Real, decode_real, encode_real, make_real, round_real
from mxspec.rounding import DETERMINISTIC, Rounding
from mxspec.scales import encode_ggml_ue4m3, encode_scale, log2f_floor, log2f_thresholds, scale_exponents, significand_bits

from tests.support import FLT_MAX, INF, MIN_NORMAL, NAN, Float32s, around, assert_same, float_bits, floats, magnitudes, real, rng

EXPONENT_STEPS = [s for s in ScaleStep if s not in (ScaleStep.ENCODE, ScaleStep.GGML_UE4M3)]
LOG2_STEPS = [s for s in EXPONENT_STEPS if "log2" in s.value]


def prove_rule(bits: list[int], rule: ScaleRule, scale: ScaleFormat, element: ElementFormat) -> None:
    """The array rule equals the exact one on these float32 values."""
    got = encode_scale(floats(bits), rule, scale, element)
    expected = [exact.encode_scale(real(b), rule, scale, element) for b in bits]
    assert_same(got, np.array(expected, np.uint8), lambda i: f"{rule.step} {element.name}: {bits[i[0]]:08x}")


@cache
def exponent_points(element: ElementFormat, few: bool) -> tuple[int, ...]:
    """float32 bits where an exponent rule changes its answer, in every binade (few: in a tenth of them)."""
    top = element.max_value / Fraction(2) ** element.emax
    half_up = 2 - Fraction(1, 1 << (significand_bits(element) + 1))
    root = Fraction(0x3504F3, 1 << 23) + 1  # near 2**0.5
    exponents = range(-149, 128)
    if few:
        draw = rng("exponents", element.name)
        exponents = [-149, -127, -126, -125, -1, 0, 1, 2, 126, 127, *draw.sample(range(-148, 127), 20)]  # type: ignore[assignment]
    points: set[int] = {0, 1, 2, 3, FLT_MAX, INF, NAN}
    for e in exponents:
        for significand in (Fraction(1), top, half_up, root):
            bits = float_bits(significand * Fraction(2) ** e)
            points.update(around(min(bits, FLT_MAX)))
    return tuple(sorted(points))


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
@pytest.mark.parametrize("step", [s for s in EXPONENT_STEPS if s not in LOG2_STEPS])
def test_exponent_rules(step: ScaleStep, element: ElementFormat) -> None:
    for rule in (
        ScaleRule(value=AMAX, step=step, subtract_emax=True),
        ScaleRule(value=AMAX, step=step, offset=1, underflow=ExponentUnderflow.WRAP),
    ):
        prove_rule(list(exponent_points(element, few=False)), rule, E8M0, element)


@pytest.mark.parametrize("step", LOG2_STEPS)
def test_rules_with_a_float_log2(step: ScaleStep) -> None:
    """In a sample of binades, both ends and the middle of each, every float near the thresholds."""
    first, last = log2f_thresholds()
    points = set(exponent_points(ELEMENTS["e2m1"], few=True))
    draw = rng("log2", step)
    for k in (-149, -148, -126, -64, -2, -1, 0, 1, 2, 3, 64, 127, 128, *draw.sample(range(-140, 120), 16)):
        for value in (float(first[k + 149]), float(last[k + 149])):
            if 0 < value < 2.0**128:
                points.update(around(float_bits(value), 2))
        middle = float_bits(Fraction(Decimal(2) ** (Decimal(2 * k + 1) / 2)))
        points.update(around(middle, 40)[::9])
    bits = [*sorted(b for b in points if b <= INF), NAN]
    for element in (ELEMENTS["e2m1"], ELEMENTS["int8"]):
        prove_rule(bits, ScaleRule(value=AMAX, step=step, subtract_emax=True), E8M0, element)
    wrapped = ScaleRule(value=AMAX, step=step, subtract_emax=True, underflow=ExponentUnderflow.WRAP)
    prove_rule(bits, wrapped, E8M0, ELEMENTS["e5m2"])


@given(st.integers(0, INF), st.sampled_from(list(ScaleStep)), st.sampled_from(sorted(ELEMENTS)), st.data())
def test_any_rule_on_any_float(bits: int, step: ScaleStep, name: str, data: st.DataObject) -> None:
    rule = ScaleRule(
        value=AMAX,
        step=step,
        rounding=data.draw(st.sampled_from(DETERMINISTIC)),
        subtract_emax=data.draw(st.booleans()),
        offset=data.draw(st.integers(-1, 1)),
        underflow=data.draw(st.sampled_from(ExponentUnderflow)),
        byte_range=data.draw(st.sampled_from(((0x00, 0xFE), (0x08, 0x7E), (0x01, 0xFD)))),
    )
    nearby = [b for b in around(bits) if b <= INF]
    for scale in (E8M0, UE4M3):
        high = min(rule.byte_range[1], scale.max_code)
        fitting = replace(rule, byte_range=(rule.byte_range[0], high))
        if step is ScaleStep.GGML_UE4M3 and scale is E8M0:
            continue
        prove_rule(nearby, fitting, scale, ELEMENTS[name])


@pytest.mark.parametrize("mode", DETERMINISTIC)
@pytest.mark.parametrize("scale", [E8M0, UE4M3], ids=["e8m0", "ue4m3"])
def test_direct_encoding(scale: ScaleFormat, mode: Rounding) -> None:
    """Float32 values, and quotients that only the exact domain holds."""
    grid = magnitudes(scale)
    points = {1, MIN_NORMAL, FLT_MAX, INF, NAN, 0}
    for low, high in pairwise(grid):
        for value in (low, (low + high) / 2):
            points.update(around(float_bits(value)))
    rule = ScaleRule(value=AMAX, step=ScaleStep.ENCODE, rounding=mode, byte_range=(0x00, scale.max_code))
    prove_rule(sorted(points), rule, scale, ELEMENTS["e2m1"])
    hair, half = Fraction(1, 1 << 40), Fraction(1, 2)
    parts = (hair, half - hair, half + hair)
    wide = np.array([float(low + (high - low) * t) for low, high in pairwise(grid) for t in parts])
    got = encode_scale(wide, rule, scale, ELEMENTS["e2m1"])
    expected = [encode_real(make_real(Fraction(float(v))), scale, rounding=mode) for v in wide]
    assert got.tolist() == expected


@pytest.mark.parametrize("step", ScaleStep)
def test_bytes_of_zero_infinity_and_nan(step: ScaleStep) -> None:
    """By default the low end, the high end and the format's NaN; the rule's own bytes where it names them."""
    scale = UE4M3 if step in (ScaleStep.ENCODE, ScaleStep.GGML_UE4M3) else E8M0
    special = floats([0, INF, NAN, NAN | 0x80000000])
    plain = ScaleRule(value=AMAX, step=step, byte_range=(0x03, 0x70))
    assert encode_scale(special, plain, scale, ELEMENTS["e2m1"]).tolist() == [0x03, 0x70, scale.nan_code, scale.nan_code]
    named = replace(plain, on_zero=0x11, on_inf=0x22, on_nan=0x33)
    assert encode_scale(special, named, scale, ELEMENTS["e2m1"]).tolist() == [0x11, 0x22, 0x33, 0x33]
    for rule, expected in ((plain, [0x03, 0x70, scale.nan_code]), (named, [0x11, 0x22, 0x33])):
        values = (real(0), real(INF), real(NAN))
        assert [exact.encode_scale(v, rule, scale, ELEMENTS["e2m1"]) for v in values] == expected


def fields(bits: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]:
    """Exponent and trailing significand of positive normal float32 bits, as integers."""
    return (bits >> 23) - 127, bits & 0x7FFFFF


def normal_points(element: ElementFormat) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """float32 bits of normal numbers at all thresholds of all binades."""
    return np.array([b for b in exponent_points(element, few=False) if MIN_NORMAL <= b <= FLT_MAX], np.int64)


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_integer_definitions(element: ElementFormat) -> None:
    """The published integer forms: the exponent field, a carry from half a unit, a compared significand."""
    bits = normal_points(element)
    exponent, mantissa = fields(bits)
    trailing = significand_bits(element)
    top = int((element.max_value / Fraction(2) ** element.emax - 1) * 2**23)
    carried, _ = fields(bits + (1 << (22 - trailing)))
    forms = {
        "mx-floor": exponent - element.emax,
        "mx-ceil": exponent - element.emax + (mantissa != 0),
        "mx-even": carried - element.emax,
        "mx-rceil": exponent - element.emax + (mantissa > top),
    }
    amax = bits.astype(np.uint32).view(np.float32)
    for profile in list_profiles("mxfp4"):
        if profile.id not in forms:
            continue
        assert profile.one_level is not None
        rule = profile.one_level.scale
        value = amax if profile.id != "mx-rceil" else amax.astype(np.float64) / float(element.max_value)
        expected = np.clip(forms.pop(profile.id) + 127, 0, 254).astype(np.uint8)
        assert_same(encode_scale(value, rule, E8M0, element), expected, lambda i: f"{bits[i[0]]:08x}")
    assert not forms


def decimal_log2(value: Fraction) -> Fraction:
    """log2 with 90 digits: more than the model's 60, so that an unlucky rounding there would show."""
    with localcontext() as context:
        context.prec = 90
        log = (Decimal(value.numerator) / Decimal(value.denominator)).ln() / Decimal(2).ln()
        return Fraction(log)


def rounded(value: Fraction, *, bfloat16: bool = False) -> Fraction:
    """A log2 as float32 has it, or then as bfloat16 has it."""
    single = round_real(make_real(value), FLOAT32)
    return (round_real(single, BFLOAT16) if bfloat16 else single).value


K = range(-149, 129)


def test_log2f_thresholds_against_decimal_logarithms() -> None:
    """For every k: the first float32 whose log2 rounds to k or more, and the last that rounds to k or less."""
    first, last = log2f_thresholds()
    assert len(first) == len(last) == len(K)
    for k, low, high in zip(K, first, last, strict=True):
        power = Fraction(2) ** k
        if k == 0:
            assert low == high == 1
            continue
        assert rounded(decimal_log2(Fraction(low))) == rounded(decimal_log2(Fraction(high))) == k
        if k < 128:
            below, bits, above = float_bits(low) - 1, float_bits(high), float_bits(high) + 1
            assert real(bits).value == Fraction(high)  # both are float32 numbers
            if below:
                assert rounded(decimal_log2(real(below).value)) < k
            if above <= FLT_MAX:
                assert rounded(decimal_log2(real(above).value)) > k
        else:
            assert rounded(decimal_log2(real(float_bits(low) - 1).value)) < k
        assert low <= float(power) <= high


def test_log2bf16_thresholds_against_decimal_logarithms() -> None:
    """The floor of a bfloat16 log2: at each threshold, found by bisection on the exact rule, and one float below."""
    element = ELEMENTS["e2m1"]
    rule = ScaleRule(value=AMAX, step=ScaleStep.LOG2BF16_FLOOR)
    draw = rng("log2bf16")
    for k in (-148, -147, -129, -128, -126, -2, -1, 0, 1, 2, 127, *draw.sample(range(-146, 127), 20)):
        low, high = float_bits(Fraction(2) ** (k - 1)), float_bits(Fraction(2) ** k)
        while high - low > 1:
            middle = (low + high) // 2
            exponent = int(scale_exponents(floats([middle]).astype(np.float64), rule, element)[0])
            low, high = (low, middle) if exponent >= k else (middle, high)
        if k != 0:
            assert rounded(decimal_log2(real(high).value), bfloat16=True) >= k
        assert rounded(decimal_log2(real(low).value), bfloat16=True) < k


def test_log2_rounded_to_an_integer_changes_at_the_decimal_middle() -> None:
    element = ELEMENTS["e2m1"]
    rule = ScaleRule(value=AMAX, step=ScaleStep.LOG2F_ROUND)
    draw = rng("log2round")
    for k in (-149, -2, -1, 0, 1, 2, 126, *draw.sample(range(-140, 120), 24)):
        low, high = float_bits(Fraction(2) ** k), float_bits(Fraction(2) ** (k + 1))
        while high - low > 1:
            middle = (low + high) // 2
            exponent = int(scale_exponents(floats([middle]).astype(np.float64), rule, element)[0])
            low, high = (low, middle) if exponent >= k + 1 else (middle, high)
        assert round(rounded(decimal_log2(real(high).value))) == k + 1
        assert round(rounded(decimal_log2(real(low).value))) == k


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="another C library's log2f may differ in the last place; the thresholds are those of the rounded log2",
)
def test_thresholds_agree_with_numpys_float32_log2() -> None:
    """An outside witness: NumPy's float32 log2 on the 64 floats either side of every power of two."""
    for k in range(-126, 129):
        power = INF if k == 128 else float_bits(Fraction(2) ** k)
        bits = np.array([b for b in range(power - 64, power + 65) if MIN_NORMAL <= b <= FLT_MAX], np.uint32)
        x = bits.view(np.float32)
        log = numpy_log2(x)
        assert log.dtype == np.float32
        wide = x.astype(np.float64)
        assert_same(log2f_floor(wide), np.floor(log).astype(np.int64), lambda i: f"floor {bits[i[0]]:08x}")  # noqa: B023
        rule = ScaleRule(value=AMAX, step=ScaleStep.LOG2F_CEIL)
        ceil = scale_exponents(wide, rule, ELEMENTS["e2m1"])
        assert_same(ceil, np.ceil(log).astype(np.int64), lambda i: f"ceil {bits[i[0]]:08x}")  # noqa: B023


def ggml_reference(value: Fraction) -> int:
    """ggml's encoder in words: 3 bits and half up on the next one; below 2^-6 in steps of 2^-9; 248 is the end."""
    value = min(value, Fraction(448))
    if value < Fraction(1, 64):
        return min(int(value * 512 + Fraction(1, 2)), 7)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    eighths = int(value / Fraction(2) ** exponent * 16)
    code = ((exponent + 7) << 3) + (eighths + 1) // 2 - 8
    return code if code < 0x78 else 0x7E


def test_ggml_encoder() -> None:
    points = {1, 2, MIN_NORMAL, FLT_MAX, float_bits(447), float_bits(449)}
    for value in magnitudes(UE4M3)[1:]:
        for factor in (Fraction(1), Fraction(33, 32), Fraction(17, 16), Fraction(15, 16), Fraction(31, 32)):
            points.update(around(float_bits(value * factor)))
    points.update(around(float_bits(248)) + around(float_bits(Fraction(1, 1024))) + around(float_bits(Fraction(15, 1024))))
    bits = sorted(points - {float_bits(Fraction(1, 1024)) - 1})
    got = encode_ggml_ue4m3(floats(bits))
    assert_same(got, np.array([ggml_reference(real(b).value) for b in bits], np.uint8), lambda i: f"{bits[i[0]]:08x}")
    # The float32 sum with 0.5 rounds up to 1 just below a half step.
    assert encode_ggml_ue4m3(floats([float_bits(Fraction(1, 1024)) - 1])).tolist() == [1]
    known = {248.0: 0x7E, 247.9: 0x78 - 1, 256.0: 0x7E, 1.0: 0x38, 0.0: 0, 2.0**-6: 0x08, 7.6 / 512: 7}
    assert encode_ggml_ue4m3(np.array(list(known), np.float32)).tolist() == list(known.values())


def test_significand_bits() -> None:
    found = {name: significand_bits(f) for name, f in ELEMENTS.items()}
    assert found == {"e2m1": 1, "e2m3": 3, "e3m2": 2, "e4m3": 3, "e5m2": 2, "int8": 6}


def test_signs_do_not_matter() -> None:
    """A scale's value may come out as -0."""
    rule = ScaleRule(value=AMAX, step=ScaleStep.FLOOR, on_zero=0x55)
    x: Float32s = floats([0x80000000, 0xC0000000])
    assert encode_scale(x, rule, E8M0, ELEMENTS["e2m1"]).tolist() == [0x55, 0x80]
    assert exact.encode_scale(Real(1, Fraction(0)), rule, E8M0, ELEMENTS["e2m1"]) == 0x55
    assert exact.encode_scale(decode_real(0xC0000000, FLOAT32), rule, E8M0, ELEMENTS["e2m1"]) == 0x80
