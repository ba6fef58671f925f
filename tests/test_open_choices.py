"""No false alarm: implementations that differ only in what OCP leaves open pass, whatever they combine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from mxspec.formats import get_block
from mxspec.profiles.normative import MxFormats
from mxspec_conformance.observations.quantize import WHOLE_BLOCK
from mxspec_conformance.observations.selection import CALLS, Selection, use_selection
from mxspec_lab.mutants import reference
from mxspec_lab.mutants.judging import judge_target
from mxspec_lab.mutants.reference import Context, Reference
from mxspec_lab.mutants.scale_mutants import special
from mxspec_vectors.cases import load_quantize_cases

Steps = dict[str, Callable[..., Any]]

RULES = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")
#: Far beyond any element: what infinities are while they are rounded.
INFINITE = 2.0**300


def any_codes(c: Context, codes: Any, stored: Any, x: Any) -> tuple[Any, Any]:
    """Codes under a NaN scale are what comes out of the unit: here a pattern."""
    pattern = np.arange(codes.shape[1]) * 37 & (c.element.code_count - 1)
    return np.where((stored == 255)[:, None], pattern, codes), stored


def lane_of_nan(c: Context, x: Any) -> Any:
    """The maximum passes over NaN."""
    return np.fmax.reduce(np.abs(x), axis=1, initial=0)


def infinity_kept(c: Context, rounded: Any, magnitude: Any) -> Any:
    return np.where(magnitude == INFINITE, INFINITE, reference.saturate(c, rounded, magnitude))


def infinity_code(c: Context, value: Any) -> Any:
    assert c.element.inf_code is not None
    return np.where(value == INFINITE, c.element.inf_code, reference.code_magnitude(c, np.minimum(value, 1e9)))


def lowest_reached(c: Context, codes: Any, negative: Any) -> Any:
    """-128 where a negative quotient is nearest to it."""
    return np.where(negative, -codes & 0xFF, np.minimum(codes, 127))


def choices(fmt: str) -> Iterator[tuple[str, Steps]]:
    """Every combination of open choices for a format: names, steps."""
    element = get_block(fmt).element
    nan: dict[str, Steps] = {"nan: codes 00": {}, "nan: any codes": {"finish": any_codes}}
    if element.nan_code is not None:
        nan["nan: the lane alone"] = {"find_amax": lane_of_nan}
    own: Steps = {"saturate": infinity_kept, "code_magnitude": infinity_code} if element.inf_code is not None else {}
    scales = {"FE": 254, "NaN": 255} | ({"255 - emax": 255 - element.emax} if element.emax else {})
    lanes: dict[str, Steps] = {"inf: largest": {}} | ({"inf: Inf": own} if own else {})
    lowest: dict[str, Steps] = {"": {}}
    if element.twos_complement:
        lowest["lowest 80"] = {"saturate": lambda c, r, m: np.minimum(r, 2.0), "join_sign": lowest_reached}
    for n, (word, inf), lane, zero, low in product(nan, scales.items(), lanes, (0x00, 0x7F, 0xFE), lowest):
        steps = {**nan[n], **lanes[lane], **lowest[low], "store_special": special(zero=zero, inf=inf)}
        yield f"{n}; inf: scale {word}; {lane}; zero: {zero:02X} {low}", steps


@pytest.mark.parametrize("profile", RULES)
@pytest.mark.parametrize("fmt", MxFormats())
def test_every_combination_of_open_choices_passes(fmt: str, profile: str) -> None:
    open_cases = frozenset(c.id for c in load_quantize_cases(fmt) if c.topic in WHOLE_BLOCK or c.topic == "overflow")
    only_those = Selection(
        {("quantize", fmt): open_cases, ("scale", fmt): frozenset(), (CALLS, f"quantize/{fmt}"): frozenset()}
    )
    accused = {}
    with use_selection(only_those):
        for name, steps in choices(fmt):
            found = judge_target(Reference(profile, change=steps), "quantize", fmt, profile)
            assert len(found.asked) >= 20
            if found.kills:
                accused[name] = sorted(found.kills)[:2]
    assert not accused


@pytest.mark.parametrize("fmt", MxFormats())
def test_no_choice_is_open_for_ordinary_blocks(fmt: str) -> None:
    """The most unusual combination passes the full level: what is open does not leak into what is not."""
    *_, (_, steps) = choices(fmt)
    assert not judge_target(Reference("mx-floor", change=steps), "quantize", fmt, "mx-floor").kills


def test_a_choice_that_is_not_open_is_found_out() -> None:
    wrong = Reference("mx-floor", change={"store_special": special(inf=100)})
    assert judge_target(wrong, "quantize", "mxfp4", "mx-floor").kills
