"""What rules say of themselves is what they do: every property of every registered rule, shown both ways.

Where a property holds, nothing that is built to break it does; where it does not, something built to show that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import mxspec
from mxspec.blocks import _search_codes, element_table, encode_elements, quantize_rows
from mxspec.elements import decode_table, table_index
from mxspec.formats import BLOCKS, BlockFormat, ElementFormat, ScaleFormat
from mxspec.profiles import Profile, list_profiles
from mxspec.profiles.schema import ElementRule, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import DETERMINISTIC, Rounding
from mxspec.scales import encode_scale, log2f_thresholds
from mxspec.stepfunctions import GRID, LAST_FINITE, MIN_NORMAL
from mxspec.tensorscale import bind_arrays, derive_tensor_scale

from tests.support import Array, Codes, Float32s, float_bits, rng


def levels() -> Iterator[tuple[Profile, BlockFormat, QuantizationSteps]]:
    """Every profile in every format that it covers, without and with a tensor scale."""
    for fmt in BLOCKS.values():
        for profile in list_profiles(fmt):
            for level in (profile.one_level, profile.two_level):
                if level is not None:
                    yield profile, fmt, level


@cache
def scale_rules() -> tuple[tuple[ScaleRule, ScaleFormat, ElementFormat], ...]:
    rules = ((rule, fmt) for _, fmt, level in levels() for rule in scale_rules_of(level))
    return tuple(dict.fromkeys((rule, fmt.scale, fmt.element) for rule, fmt in rules))


def scale_rules_of(level: QuantizationSteps) -> list[ScaleRule]:
    return [level.scale] if level.alternative is None else [level.scale, level.alternative.scale]


@cache
def element_rules() -> tuple[tuple[ElementRule, ElementFormat, ScaleFormat], ...]:
    return tuple(dict.fromkeys((level.element, fmt.element, fmt.scale) for _, fmt, level in levels()))


def floats(bits: Array) -> Float32s:
    return bits.astype(np.uint32).view(np.float32)


@cache
def rising() -> Float32s:
    """Finite numbers from zero on: the ends of binades, thresholds of a rounded log2, midpoints of ue4m3, random ones."""
    draw = np.random.default_rng(rng("rising").randrange(1 << 32))
    log2 = np.concatenate(log2f_thresholds())
    grid = decode_table(BLOCKS["nvfp4"].scale)[:0x7F].astype(np.float64)
    near = np.concatenate([log2[log2 < 2.0**128], grid, (grid[1:] + grid[:-1]) / 2]).astype(np.float32)
    around = (near.view(np.uint32).astype(np.int64)[:, None] + np.arange(-2, 3)).ravel()
    every = np.concatenate([np.array(GRID), around, draw.integers(0, LAST_FINITE + 1, 50_000)])
    return floats(np.unique(np.clip(every, 0, LAST_FINITE)))


def test_monotone_scale_rules_never_fall_and_the_others_do() -> None:
    found = set()
    for rule, scale, element in scale_rules():
        codes = encode_scale(rising(), rule, scale, element).astype(int)
        assert (np.diff(codes) >= 0).all() == rule.is_monotone, (rule, element.name)
        found.add(rule.is_monotone)
    assert found == {True, False}


@pytest.mark.parametrize("step", ScaleStep)
def test_a_step_has_a_table_if_and_only_if_seventeen_bits_decide(step: ScaleStep) -> None:
    """A normal number and the one with the same upper half and the same word on the lower half have one code."""
    rules = [(r, s, e) for r, s, e in scale_rules() if r.step is step]
    if step is ScaleStep.LOG2F_ROUND:  # no profile's
        rules = [(replace(r, step=step), s, e) for r, s, e in scale_rules() if r.step is ScaleStep.LOG2F_FLOOR][:1]
    assert rules
    bits = rising().view(np.uint32)
    bits = bits[bits >= MIN_NORMAL]
    same = floats(bits & 0xFFFF0000 | (bits & 0xFFFF != 0))
    agree = [(encode_scale(floats(bits), *rule) == encode_scale(same, *rule)).all() for rule in rules]
    assert all(agree) if step.has_table else not any(agree)


# Elements. Under the scale one, the quotient is the element itself.


def quotients(element: ElementFormat) -> Float32s:
    """Magnitudes up to 3/2 of the largest value, rising: values, midpoints and powers of two, what lies around them."""
    values = np.array([float(element.magnitude(m)) for m in range(element.max_code + 2)])
    ties = (values[1:] + values[:-1]) / 2
    powers = 2.0 ** np.arange(-element.bias - 4, element.emax + 2)
    centres = np.concatenate([values, ties, ties * (1 - 2.0**-8), ties * (1 + 2.0**-8), powers, [values[-1] * 1.2]])
    around = (centres.astype(np.float32).view(np.uint32).astype(np.int64)[:, None] + np.arange(-100, 101)).ravel()
    top = float_bits(element.max_value * 3 / 2)
    return floats(np.unique(np.append(np.clip(around, 0, top), np.linspace(0, top, 4000).astype(np.int64))))


def encode_quotients(scaled: Float32s, rule: ElementRule, element: ElementFormat) -> Codes:
    """The rule's codes of blocks [n, k] of quotients."""
    one = np.float32(1)
    if rule.error is not None:
        known = {"x": scaled, "scaled": scaled, "sf": np.full((len(scaled), 1), one), "M": np.float32(1), "S": one}
        return _search_codes(known, rule, element, scaled.shape)
    return encode_elements(scaled, scaled, np.zeros(scaled.shape, np.bool_), rule, element)


def rows_with_zeros(scaled: Float32s) -> Float32s:
    """Each number among zeros, in its own row."""
    rows = np.zeros((len(scaled), 2), np.float32)
    rows[:, 1] = scaled
    return rows


def test_monotone_element_rules_never_fall_and_the_others_do() -> None:
    """The rounding to bfloat16 before some rules is part of how their profiles scale, and is done here too."""
    found = set()
    for rule, element, _ in element_rules():
        x = quotients(element)
        if rule.half_floor_domain.value == "bf16":
            x = np.unique(floats((x.view(np.uint32) + 0x8000) & 0xFFFF0000))
        for sign in (1, -1):
            codes = encode_quotients(rows_with_zeros(x * np.float32(sign)), rule, element)[:, 1]
            magnitudes = np.array([element.split(c)[1] for c in range(element.code_count)])[codes]
            assert (np.diff(magnitudes) >= 0).all() == rule.is_monotone, (rule, element.name)
        found.add(rule.is_monotone)
    assert found == {True, False}


def test_lane_local_element_rules_never_touch_another_lane_and_the_others_do() -> None:
    draw = np.random.default_rng(rng("lane-local").randrange(1 << 32))
    for rule, element, _ in element_rules():
        x = (draw.standard_normal((400, 16)) * float(element.max_value)).astype(np.float32)
        changed = x.copy()
        lane = draw.integers(0, 16, len(x))
        row = np.arange(len(x))
        # Up to 2^20: fields without bounds spill from 128 on.
        changed[row, lane] = (draw.standard_normal(len(x)) * 2.0 ** draw.integers(-9, 21, len(x))).astype(np.float32)
        different = encode_quotients(x, rule, element) != encode_quotients(changed, rule, element)
        different[row, lane] = False
        assert different.any() != rule.is_lane_local, (rule, element.name)


def test_element_rules_with_a_table_are_that_table_and_the_others_are_not() -> None:
    for rule, element, _ in element_rules():
        x = quotients(element)
        both = np.concatenate([x, -x])
        codes = encode_quotients(rows_with_zeros(both), rule, element)[:, 1]
        table = element_table(element, replace(rule, error=None))
        assert (codes == table[table_index(both)]).all() == rule.has_table, (rule, element.name)
        half = (both.view(np.uint32) & 0xFFFF0000 | (both.view(np.uint32) & 0xFFFF != 0)).view(np.float32)
        if rule.has_table:
            assert (codes == encode_quotients(rows_with_zeros(half), rule, element)[:, 1]).all()


def test_a_rule_with_another_rounding_is_that_rounding() -> None:
    for rule, element, _ in element_rules():
        if not rule.is_lane_local:
            continue
        x = quotients(element)
        for rounding in (Rounding.RNE, Rounding.RNA, Rounding.RTZ):
            plain = rule.with_rounding(rounding)
            assert plain.has_table
            assert (plain.zero, plain.overflow, plain.under_nan_scale) == (rule.zero, rule.overflow, rule.under_nan_scale)
            codes = encode_quotients(rows_with_zeros(x), plain, element)[:, 1]
            expected = mxspec.encode(x, element, rounding=rounding, overflow=rule.overflow)
            values = [np.abs(decode_table(element)[c]) for c in (codes, expected)]
            assert np.array_equal(*values, equal_nan=True)


def test_only_stochastic_rounding_is_not_deterministic() -> None:
    assert all(rule.is_deterministic for rule, _, _ in element_rules())
    assert all(ElementRule(rounding=r).is_deterministic for r in DETERMINISTIC)
    stochastic = ElementRule(rounding=Rounding.SR)
    assert not stochastic.is_deterministic
    assert not stochastic.has_table


# Whole blocks.


def ordinary_scale(profile: Profile, level: QuantizationSteps) -> dict[str, Array]:
    """The leaves of a tensor scale under which numbers of about one are ordinary."""
    if level is profile.one_level:
        return {}
    return dict(bind_arrays(profile, derive_tensor_scale(float_bits(8), profile)))


def test_a_lane_below_the_maximum_never_changes_another_lane_of_a_lane_local_profile() -> None:
    """And where two scales are tried it changes some, scale byte included."""
    draw = np.random.default_rng(rng("blocks").randrange(1 << 32))
    for profile, fmt, level in levels():
        if not level.element.is_lane_local:
            continue  # its bits spill only beyond eight times the largest value, which no block of its own scale holds
        # One in two million normal numbers is beyond 5, and would be the maximum.
        x = draw.standard_normal((600, fmt.k)).astype(np.float32).clip(-4, 4)
        x[:, 3] = np.float32(5) * np.where(draw.random(600) < 0.5, -1, 1)
        changed = x.copy()
        lane = 4 + draw.integers(0, fmt.k - 4, 600)
        changed[np.arange(600), lane] = draw.standard_normal(600).astype(np.float32).clip(-4, 4)
        bindings = ordinary_scale(profile, level)
        scales, codes = quantize_rows(x, fmt, profile, level, bindings)
        other_scales, other_codes = quantize_rows(changed, fmt, profile, level, bindings)
        different = codes != other_codes
        different[np.arange(600), lane] = False
        moved = different.any() or (scales != other_scales).any()
        assert moved != level.is_lane_local, (profile.id, fmt.name)


def test_codes_that_need_the_maximum_are_those_that_differ_under_one_scale_byte() -> None:
    """Blocks with maxima of one scale byte and the same other lanes: their codes differ for some profile that needs the
    maximum, and for none that does not.
    """
    draw = np.random.default_rng(rng("maximum").randrange(1 << 32))
    seen = False
    for profile, fmt, level in levels():
        if level.alternative is not None:
            continue
        x = np.repeat(draw.standard_normal((300, fmt.k)).astype(np.float32), 2, axis=0)
        x[:, 0] = np.repeat(np.float32(6) * (1 + draw.random(300).astype(np.float32)), 2)
        x[1::2, 0] *= np.float32(1 + 2.0**-10)
        scales, codes = quantize_rows(x, fmt, profile, level, ordinary_scale(profile, level))
        same = scales[::2, 0] == scales[1::2, 0]
        assert same.any()
        differ = (codes[::2, 1:] != codes[1::2, 1:])[same].any()
        assert level.needs_maximum or not differ, (profile.id, fmt.name)
        seen |= level.needs_maximum
    assert seen
