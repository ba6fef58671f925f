"""Step functions: the table, the search, and the functions of profiles against the models on single patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.formats import E2M1, FLOAT32, BlockFormat
from mxspec.profiles import Profile, get_profile
from mxspec.reals import decode_real, encode_real
from mxspec.rounding import NanPolicy, Rounding
from mxspec.stepfunctions import (
    GRID,
    INF_BITS,
    LAST_FINITE,
    NANS,
    NotMonotoneError,
    StepFunction,
    check_float32_steps,
    element_steps,
    find_float32_steps,
    find_steps,
    one_by_one,
    scale_steps,
)
from mxspec.tensorscale import TensorScale, derive_tensor_scale

from tests.support import SIGN, Codes, float_bits, rng


def step_function(changes: dict[int, int], special: int = 0xF0) -> Callable[[int], int]:
    """Code 0, then at each pattern the given code; Inf has the code `special`, NaN one more."""
    ordered = sorted(changes.items())

    def answer(bits: int) -> int:
        if bits & (SIGN - 1) > INF_BITS:
            return special + 1
        if bits & (SIGN - 1) == INF_BITS:
            return special
        return next((code for start, code in reversed(ordered) if start <= bits), 0)

    return answer


def e2m1_toward_zero(bits: int) -> int:
    return encode_real(decode_real(bits, FLOAT32), E2M1, rounding=Rounding.RTZ, nan=NanPolicy.ZERO)


def test_bisection_finds_the_changes_of_a_known_function() -> None:
    draw = rng("bisection")
    for _ in range(3):
        starts = sorted({*draw.sample(range(1, FLOAT32.max_code), 100), *draw.sample(GRID[1:], 20), 1, FLOAT32.max_code})
        changes = {start: code for code, start in enumerate(starts, 1)}
        changes |= {SIGN: 0} | {SIGN + start: 255 - code for start, code in list(changes.items())}
        answer = one_by_one(step_function(changes))
        steps = find_float32_steps(answer, 1 << 32)
        expected = {0: 0, **changes, INF_BITS: 0xF0, INF_BITS + 1: 0xF1}
        expected |= {SIGN + INF_BITS: 0xF0, SIGN + INF_BITS + 1: 0xF1}
        found = dict(zip(steps.starts.tolist(), steps.values.tolist(), strict=True))
        assert found == {s: c for s, c in sorted(expected.items()) if s in found}
        assert set(changes) - set(found) <= {SIGN}
        assert check_float32_steps(answer, steps) == []


def test_several_functions_are_searched_at_once_with_few_calls() -> None:
    draw = np.random.default_rng(rng("several").randrange(1 << 32))
    tops = [0, 1, 1000, LAST_FINITE]
    changes = [np.unique(np.append(0, draw.integers(0, top + 1, 40))) for top in tops]
    calls = []

    def compute(number: Any, bits: Any) -> Any:
        calls.append(len(bits))
        found = np.empty(len(bits), np.uint8)
        for i, starts in enumerate(changes):
            found[number == i] = np.searchsorted(starts, bits[number == i], side="right")
        return found

    steps = find_steps(compute, [[0, top] for top in tops])
    for found, starts, top in zip(steps, changes, tops, strict=True):
        assert found.starts.tolist() == starts.tolist()
        assert found.values.tolist() == list(range(1, len(starts) + 1))
        assert (found.stop, found.ends[-1]) == (top + 1, top)
    assert len(calls) <= 34
    assert sum(calls) < 40 * 31 * 4


def test_two_changes_of_one_binade_that_cancel_are_heard() -> None:
    start = float_bits(1)
    hidden = one_by_one(step_function({start + (1 << 20): 1, start + (1 << 22): 0}))
    with pytest.raises(NotMonotoneError, match=r"3f[0-9a-f]{6}: the function gives 01, the steps 00"):
        find_float32_steps(hidden)
    edges = [0, *(start + (i << 20) for i in (1, 4))]
    steps = find_float32_steps(hidden, grid=sorted({*GRID, *edges}))
    assert steps.starts.tolist()[:3] == edges


def test_nan_patterns_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"NaN patterns give the values \[0, 1\]"):
        find_float32_steps(one_by_one(lambda bits: int(bits == NANS[2])))


def test_steps_expand_to_the_answers_of_single_patterns() -> None:
    steps = find_float32_steps(one_by_one(e2m1_toward_zero), 1 << 32)
    again = StepFunction.from_text(steps.as_text(), 1 << 32)
    assert again.digest == steps.digest
    assert again.count_differences(steps) == 0
    draw = rng("expand")
    for start in [0, float_bits(0.5) - 100, INF_BITS - 100, SIGN - 100, (1 << 32) - 300, draw.randrange((1 << 32) - 300)]:
        codes = steps.expand(start, start + 300)
        assert codes.tolist() == [e2m1_toward_zero(b) for b in range(start, start + 300)]
        assert codes.tolist() == steps.at(np.arange(start, start + 300)).tolist()
    assert steps.constant(0, 1000) == 0
    assert steps.constant(float_bits(0.5) - 1, float_bits(0.5) + 1) is None


def test_parts_rises_and_differences() -> None:
    steps = StepFunction.from_pairs([(0, 0), (10, 0), (20, 3), (30, 1), (40, 3), (50, 4)], 100)
    assert steps.starts.tolist() == [0, 20, 30, 40, 50]
    assert steps.ends.tolist() == [19, 29, 39, 49, 99]
    assert steps.rises.tolist() == [20, 50]
    assert steps.below(30).as_text() == "00000000:00 00000014:03"
    assert steps.below(30).ends.tolist() == [19, 29]
    assert steps.below(1000).stop == 100
    assert steps.count_differences(StepFunction.from_pairs([(0, 0), (25, 3)], 100)) == 5 + 10 + 50


def test_check_names_what_contradicts() -> None:
    answer = one_by_one(e2m1_toward_zero)
    steps = find_float32_steps(answer, 1 << 32)
    moved = steps.starts.copy()
    moved[3] += 1
    wrong = StepFunction(moved, steps.values, steps.stop)
    assert check_float32_steps(answer, wrong) == [f"{moved[3] - 1:08x}: the function gives 03, the steps 02"]


def tensor_scale_of(profile: Profile) -> TensorScale | None:
    """None for profiles that have a one-level form, else the scale of a tensor whose maximum is pi."""
    return None if profile.one_level is not None else derive_tensor_scale(0x40490FDB, profile)


#: Profiles whose scales are unusual functions: wrapping bytes, a float32 log2, constants, flushed inputs, NaN passed over.
SCALES = (
    ("mx-even", "mxint8"), ("gguf-0.19/mxfp4", "mxfp4"), ("mlx-0.32/mxfp4/cpu/float16", "mxfp4"),
    ("compressed-tensors-0.20/mxfp4/eager/float16", "mxfp4"), ("compressed-tensors-0.20/nvfp4/eager", "nvfp4"),
    ("vllm-0.33/mxfp4/experts", "mxfp4"), ("microxcaling-7bc4195/mxint8/even/bfloat16", "mxint8"),
    ("ggml-0.21/nvfp4", "nvfp4"), ("te-2.14/nvfp4/kernel-rht-fastmath", "nvfp4"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "fmt"), SCALES)
def test_scale_steps_of_both_models_are_what_blocks_get(name: str, fmt: str) -> None:
    block, profile = mxspec.BLOCKS[fmt], get_profile(name, fmt)
    scale = tensor_scale_of(profile)
    steps = scale_steps(profile, block, scale)
    assert steps.stop == SIGN
    assert scale_steps(profile, block, scale, exact_model=True).as_text() == steps.as_text()
    draw = np.random.default_rng(rng("scales", name).randrange(1 << 32))
    near = (steps.starts[:, None] + np.arange(-2, 3)).ravel()
    bits = np.unique(np.clip(np.concatenate([near, draw.integers(0, SIGN, 3000)]), 0, SIGN - 1))
    x = np.zeros((len(bits), block.k), np.uint32)
    x[:, 5] = bits
    result = mxspec.quantize(x.view(np.float32), fmt, profile=profile, tensor_scale=scale)
    assert result.scales[:, 0].tolist() == steps.at(bits).tolist()


def test_a_profile_that_normalizes_first_has_no_scale_steps() -> None:
    profile = get_profile("fouroversix-0.1/nvfp4/always-6", "nvfp4")
    with pytest.raises(ValueError, match="always-6 normalizes each element first"):
        scale_steps(profile, mxspec.BLOCKS["nvfp4"], tensor_scale_of(profile))


def codes_beside(profile: Profile, fmt: BlockFormat, scale: TensorScale | None, top: int, bits: Any) -> Codes:
    x = np.zeros((len(bits), fmt.k), np.uint32)
    x[:, 0], x[:, 7] = top, bits
    with np.errstate(all="ignore"):
        return mxspec.quantize(x.view(np.float32), fmt, profile=profile, tensor_scale=scale).codes[:, 7]


#: Ordinary profiles, then those whose codes fall: at ties, at ties of a bfloat16 quotient, below powers of two.
ELEMENTS = (
    ("mx-floor", "mxfp6_e3m2"), ("nvfp4-te", "nvfp4"), ("gguf-0.19/mxfp4", "mxfp4"), ("te-2.14/nvfp4/kernel-fastmath", "nvfp4"),
    ("auto-round-0.16/mx/fake", "mxfp4"), ("auto-round-0.16/mxfp4/export", "mxfp4"), ("auto-round-0.16/mx/fake", "mxint8"),
    ("microxcaling-7bc4195/mxfp/even/bfloat16", "mxfp6_e2m3"), ("microxcaling-7bc4195/mxfp/floor", "mxfp8_e5m2"),
    ("microxcaling-7bc4195/mxfp/floor", "mxfp4"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "fmt"), ELEMENTS)
def test_element_steps_are_what_blocks_get(name: str, fmt: str) -> None:
    block, profile = mxspec.BLOCKS[fmt], get_profile(name, fmt)
    scale = tensor_scale_of(profile)
    draw = np.random.default_rng(rng("elements", name, fmt).randrange(1 << 32))
    ends = scale_steps(profile, block, scale).below(INF_BITS).ends
    tops = [*draw.choice(ends, 6), int(ends[-1]), 1, float_bits(1), float_bits(1.75)]
    for sign in (0, 1):
        for top, steps in zip(tops, element_steps(profile, block, scale, tops, sign), strict=True):
            assert steps.stop == top + 1
            near = (steps.starts[:, None] + np.arange(-3, 4)).ravel()
            binades = draw.integers(max(0, top - (9 << 23)), top + 1, 1500)
            bits = np.unique(np.clip(np.concatenate([near, binades, draw.integers(0, top + 1, 300)]), 0, top))
            codes = codes_beside(profile, block, scale, top, bits | (SIGN if sign else 0))
            assert codes.tolist() == steps.at(bits).tolist(), f"maximum {top:08x}"


@pytest.mark.parametrize("path", ["", "/float16"])
def test_a_float_search_far_beyond_its_scale_is_no_step_function(path: str) -> None:
    """Under the largest scale of a tensor with the maximum pi, FLT_MAX is so large that all errors round alike."""
    profile, block = get_profile(f"mlx-0.32/nvfp4/cpu{path}", "nvfp4"), mxspec.BLOCKS["nvfp4"]
    scale = tensor_scale_of(replace(profile, one_level=None))
    assert len(element_steps(profile, block, scale, [float_bits(3)], 0)[0].starts) == 8
    with pytest.raises(NotMonotoneError):
        element_steps(profile, block, scale, [LAST_FINITE], 0)
