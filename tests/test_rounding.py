"""Rounding: every mode against its definition on signed values, overflow, NaN, stochastic rounding."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from mxspec.formats import ELEMENTS, FLOATS, SCALES, ScalarFormat
from mxspec.reals import INFINITY, Real, encode_real, make_real, nan_codes, neighbours, overflow_code, round_magnitude
from mxspec.rounding import DETERMINISTIC, MAGNITUDE_RULES, MagnitudeRule, NanPolicy, Overflow, Rounding

from tests.support import magnitudes, rng

SCALARS: dict[str, ScalarFormat] = {**ELEMENTS, **SCALES}
SIGNED = {n: f for n, f in SCALARS.items() if f.signed}
EPSILON = Fraction(1, 1 << 200)


def test_every_mode_has_a_rule() -> None:
    assert set(MAGNITUDE_RULES) == set(Rounding) - {Rounding.SR} == set(DETERMINISTIC)
    assert [m.value for m in Rounding] == ["rne", "rna", "rnz", "rnu", "rtz", "rtn", "rtp", "sr"]


def choose(x: Fraction, low: Fraction, high: Fraction, low_even: bool, mode: Rounding) -> Fraction:
    """Which of two neighbours low < x < high a mode takes: the definitions on signed numbers, as IEEE 754 has them."""
    middle = (low + high) / 2
    toward_zero, away = (low, high) if x > 0 else (high, low)
    if mode is Rounding.RTN:
        return low
    if mode is Rounding.RTP:
        return high
    if mode is Rounding.RTZ:
        return toward_zero
    if x != middle:
        return low if x < middle else high
    if mode is Rounding.RNE:
        return low if low_even else high
    return {Rounding.RNA: away, Rounding.RNZ: toward_zero, Rounding.RNU: high}[mode]


def interesting(fmt: ScalarFormat) -> list[Fraction]:
    """Magnitudes within the range: values, midpoints, just off both, parts of gaps.

    Of formats with more than 100 values a third of the gaps, which the run's seed chooses, and the outermost.
    """
    grid = magnitudes(fmt)
    gaps = list(pairwise(grid))
    if len(gaps) > 100:
        gaps = [*gaps[:9], *rng("gaps", fmt.name).sample(gaps[9:-9], len(gaps) // 3), *gaps[-9:]]
    points: set[Fraction] = set()
    for low, high in gaps:
        middle, gap = (low + high) / 2, high - low
        points |= {low, middle, middle * (1 - EPSILON), middle * (1 + EPSILON), low + gap / 3, high - gap / 7}
        points |= {low * (1 + EPSILON), high * (1 - EPSILON)}
    return sorted(points)


@pytest.mark.parametrize("name", SCALARS)
def test_deterministic_modes_follow_their_definitions(name: str) -> None:
    fmt = SCALARS[name]
    grid = magnitudes(fmt)
    for magnitude in interesting(fmt):
        lo = bisect_right(grid, magnitude) - 1
        for sign in (0, 1) if fmt.signed else (0,):
            x = -magnitude if sign else magnitude
            for mode in DETERMINISTIC:
                code = encode_real(Real(sign, magnitude), fmt, rounding=mode)
                got_sign, got = fmt.split(code)
                if grid[lo] == magnitude:
                    assert got == lo
                else:
                    ends = sorted(((-1) ** sign * grid[lo], (-1) ** sign * grid[lo + 1]))
                    low_code = lo + 1 if sign else lo
                    expected = choose(x, ends[0], ends[1], low_code % 2 == 0, mode)
                    assert (-1) ** sign * grid[got] == expected, (name, mode, float(x))
                # int8 has one zero.
                assert got_sign == (0 if fmt.twos_complement and got == 0 else sign)


def test_below_the_smallest_scale_there_is_only_the_smallest() -> None:
    e8m0 = SCALES["e8m0"]
    for magnitude in (Fraction(0), Fraction(1, 1 << 149), Fraction(1, 1 << 127) * (1 - EPSILON)):
        assert neighbours(magnitude, e8m0) == (0, 0)
        for mode in DETERMINISTIC:
            assert encode_real(make_real(magnitude), e8m0, rounding=mode) == 0


@pytest.mark.parametrize("rule", MagnitudeRule)
@given(data=st.data())
def test_nothing_lies_nearer(rule: MagnitudeRule, data: st.DataObject) -> None:
    """Within one gap for the directed rules, within half a gap for the others, in any format, past its range too."""
    fmt = data.draw(st.sampled_from([*SCALARS.values(), *FLOATS.values()]))
    magnitude = data.draw(st.fractions(min_value=0, max_value=fmt.max_value * 3))
    if not fmt.has_zero and magnitude < fmt.min_subnormal:
        magnitude += fmt.min_subnormal
    code = round_magnitude(magnitude, fmt, rule)
    value = fmt.magnitude(code)
    above = fmt.magnitude(code + 1) - value
    below = value - fmt.magnitude(code - 1) if code else above
    if rule is MagnitudeRule.DOWN:
        assert value <= magnitude < value + above
    elif rule is MagnitudeRule.UP:
        assert value - below < magnitude <= value
    else:
        assert value - below / 2 <= magnitude <= value + above / 2


#: Beyond the largest value, by sign: directed roundings toward zero stop at it (IEEE 754 section 7.4).
STOPS: dict[Rounding, tuple[bool, bool]] = {
    Rounding.RNE: (False, False),
    Rounding.RNA: (False, False),
    Rounding.RNZ: (False, False),
    Rounding.RNU: (False, False),
    Rounding.RTZ: (True, True),
    Rounding.RTN: (True, False),
    Rounding.RTP: (False, True),
}


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_overflow(name: str, mode: Rounding) -> None:
    fmt = SCALARS[name]
    own = fmt.inf_code if fmt.inf_code is not None else fmt.nan_code
    for sign in (0, 1) if fmt.signed else (0,):
        largest = fmt.join(sign, fmt.max_code)
        far = Real(sign, fmt.max_value * 1000)
        infinity = Real(sign, None)
        for x in (far, infinity):
            assert encode_real(x, fmt, rounding=mode, overflow=Overflow.SATURATE) == largest
        assert encode_real(far, fmt, rounding=mode, overflow=Overflow.SATURATE_FINITE) == largest
        if own is None:
            for overflow, x in ((Overflow.OWN, far), (Overflow.OWN, infinity), (Overflow.SATURATE_FINITE, infinity)):
                with pytest.raises(ValueError, match=rf"{name} has neither Inf nor NaN.*use overflow='saturate'"):
                    encode_real(x, fmt, rounding=mode, overflow=overflow)
            continue
        lost = fmt.join(sign, own)
        assert encode_real(infinity, fmt, rounding=mode, overflow=Overflow.SATURATE_FINITE) == lost
        assert encode_real(infinity, fmt, rounding=mode, overflow=Overflow.OWN) == lost
        expected = largest if STOPS[mode][sign] else lost
        assert encode_real(far, fmt, rounding=mode, overflow=Overflow.OWN) == expected


@pytest.mark.parametrize(
    ("name", "value", "mode", "code"),
    [
        ("e4m3", Fraction(464), Rounding.RNE, 0x7E),
        ("e4m3", Fraction(464) + EPSILON, Rounding.RNE, 0x7F),
        ("e4m3", Fraction(464), Rounding.RNA, 0x7F),
        ("e4m3", Fraction(464), Rounding.RNZ, 0x7E),
        ("e4m3", Fraction(448) + EPSILON, Rounding.RTP, 0x7F),
        ("e4m3", Fraction(480), Rounding.RTZ, 0x7E),
        ("e5m2", Fraction(61440) - EPSILON, Rounding.RNE, 0x7B),
        ("e5m2", Fraction(61440), Rounding.RNE, 0x7C),
        ("e5m2", Fraction(61440), Rounding.RNZ, 0x7B),
        ("e5m2", Fraction(57344) + EPSILON, Rounding.RTP, 0x7C),
        ("e5m2", -Fraction(57344) - EPSILON, Rounding.RTP, 0xFB),
        ("e5m2", -Fraction(57344) - EPSILON, Rounding.RTN, 0xFC),
        ("e8m0", Fraction(2) ** 127 * Fraction(3, 2), Rounding.RNZ, 0xFE),
        ("e8m0", Fraction(2) ** 127 * Fraction(3, 2), Rounding.RNA, 0xFF),
        ("e8m0", Fraction(2) ** 127 + EPSILON, Rounding.RTP, 0xFF),
        ("ue4m3", Fraction(464) + EPSILON, Rounding.RNE, 0x7F),
    ],
)  # fmt: skip
def test_where_overflow_begins(name: str, value: Fraction, mode: Rounding, code: int) -> None:
    """Round first, then compare with the range."""
    assert encode_real(make_real(value), SCALARS[name], rounding=mode, overflow=Overflow.OWN) == code


#: policy -> codes of a positive and a negative NaN in e2m1, e2m3, e3m2, e4m3, e5m2; None: refused.
NAN_CODES: dict[NanPolicy, list[tuple[int, int] | None]] = {
    NanPolicy.NAN: [None, None, None, (0x7F, 0xFF), (0x7F, 0xFF)],
    NanPolicy.NAN_POSITIVE: [None, None, None, (0x7F, 0x7F), (0x7F, 0x7F)],
    NanPolicy.NAN_NEGATIVE: [None, None, None, (0xFF, 0xFF), (0xFF, 0xFF)],
    NanPolicy.MAX_POSITIVE: [(7, 7), (0x1F, 0x1F), (0x1F, 0x1F), (0x7E, 0x7E), (0x7B, 0x7B)],
    NanPolicy.MAX_SIGNED: [(7, 15), (0x1F, 0x3F), (0x1F, 0x3F), (0x7E, 0xFE), (0x7B, 0xFB)],
    NanPolicy.ZERO: [(0, 0)] * 5,
    NanPolicy.ZERO_SIGNED: [(0, 8), (0, 0x20), (0, 0x20), (0, 0x80), (0, 0x80)],
    NanPolicy.ZERO_FLIPPED: [(8, 0), (0x20, 0), (0x20, 0), (0x80, 0), (0x80, 0)],
    NanPolicy.ZERO_NEGATIVE: [(8, 8), (0x20, 0x20), (0x20, 0x20), (0x80, 0x80), (0x80, 0x80)],
    NanPolicy.RAISE: [None] * 5,
}


@pytest.mark.parametrize("policy", NAN_CODES)
def test_nan_policies(policy: NanPolicy) -> None:
    for name, expected in zip(("e2m1", "e2m3", "e3m2", "e4m3", "e5m2"), NAN_CODES[policy], strict=True):
        fmt = ELEMENTS[name]
        for sign in (0, 1):
            x = Real(sign, Fraction(0), nan=True)
            if expected is None:
                with pytest.raises(ValueError, match=name):
                    encode_real(x, fmt, nan=policy)
            else:
                assert encode_real(x, fmt, nan=policy) == expected[sign]


def test_every_nan_policy_is_tested() -> None:
    assert set(NAN_CODES) | {NanPolicy.AS_NUMBER} == set(NanPolicy)


def test_nan_as_a_number() -> None:
    """torchao's codes of a quiet NaN: 3, 0C and 0E, with the NaN's sign."""
    for name, code in (("e2m1", 0x3), ("e2m3", 0x0C), ("e3m2", 0x0E)):
        fmt = ELEMENTS[name]
        assert nan_codes(fmt, NanPolicy.AS_NUMBER) == (code, code | fmt.sign_bit)


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("n", [8, 32])
def test_stochastic_threshold(name: str, n: int) -> None:
    """Up from the first r with floor(frac 2^n) + r >= 2^n on, for one value in each gap."""
    fmt = SCALARS[name]
    grid = magnitudes(fmt)
    for lo, (low, high) in enumerate(pairwise(grid)):
        frac = Fraction(2 * lo + 1, 2 * len(grid)) + EPSILON
        x = Real(0, low + frac * (high - low))
        first_up = 2**n - int(frac * 2**n)
        for random, expected in ((first_up - 1, lo), (first_up, lo + 1), (0, lo), (2**n - 1, lo + (first_up < 2**n))):
            if random < 2**n:
                code = encode_real(x, fmt, rounding=Rounding.SR, random=random, random_bits=n)
                assert fmt.split(code)[1] == expected


def test_stochastic_needs_bits() -> None:
    with pytest.raises(ValueError, match="needs explicit random bits; pass random_bits"):
        encode_real(make_real(1), ELEMENTS["e2m1"], rounding=Rounding.SR)


def test_overflow_code_of_infinity_ignores_the_direction() -> None:
    e5m2 = ELEMENTS["e5m2"]
    assert overflow_code(e5m2, 0, Overflow.OWN, infinite=True, toward_zero=True) == 0x7C
    assert overflow_code(e5m2, 1, Overflow.OWN, infinite=False, toward_zero=True) == 0xFB
    assert encode_real(INFINITY, ELEMENTS["e4m3"], overflow=Overflow.OWN) == 0x7F
