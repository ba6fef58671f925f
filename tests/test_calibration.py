"""Calibration: any cut and order of the numbers gives the bits of all numbers at once."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mxspec
from mxspec import RunningAmax
from mxspec.profiles import AmaxNan, list_profiles
from mxspec.tensorscale import find_tensor_amax

SPECIAL = [0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x00000001, 0x807FFFFF]
WORDS = st.lists(st.one_of(st.sampled_from(SPECIAL), st.integers(0, 0xFFFFFFFF)), min_size=1, max_size=12)
WITH_SCALE = [p for p in list_profiles("nvfp4") if p.tensor is not None]


def seen_of(words: list[int]) -> RunningAmax:
    return RunningAmax().update(np.array(words, np.uint32).view(np.float32))


@given(WORDS, st.randoms(use_true_random=False))
def test_order_and_cuts_do_not_matter(words: list[int], random: object) -> None:
    whole = seen_of(words)
    shuffled = list(words)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    middle = len(words) // 2
    assert seen_of(shuffled) == whole
    assert seen_of(words[:middle]).merge(seen_of(words[middle:])) == whole
    assert reduce(RunningAmax.merge, map(seen_of, ([w] for w in reversed(shuffled))), RunningAmax()) == whole
    x = np.array(words, np.uint32).view(np.float32)
    for nan in (AmaxNan.PROPAGATE, AmaxNan.SKIP):
        assert whole.amax_bits(nan) == find_tensor_amax(x, nan=nan)


@pytest.mark.parametrize("profile", WITH_SCALE, ids=lambda p: p.id)
@pytest.mark.parametrize("last", [0x3F800000, 0x7FC00000, 0x7F800000, 0xFF800001])
def test_the_scale_is_that_of_one_array(profile: mxspec.Profile, last: int) -> None:
    x = np.array([0xC0490FDB, 0x3DCCCCCD, 0x00000003, last], np.uint32).view(np.float32)
    seen = RunningAmax().update(x[2:]).update(x[:2])
    assert seen.tensor_scale("nvfp4", profile) == mxspec.tensor_scale(x, "nvfp4", profile)


def test_it_takes_what_quantize_takes() -> None:
    half = np.array([[1.5, -2.5]], np.float16)
    assert RunningAmax().update(half).update(np.zeros((0, 3), np.float32)) == RunningAmax(0x40200000, False, 2)
    with pytest.raises(ValueError, match="not exactly a float32"):
        RunningAmax().update(np.array([0.1]))
    with pytest.raises(TypeError, match="int64"):
        RunningAmax().update(np.array([1]))
    with pytest.raises(TypeError, match="float"):
        RunningAmax().merge(1.0)  # type: ignore[arg-type]


def test_what_has_no_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="no numbers were seen"):
        RunningAmax().tensor_scale()
    with pytest.raises(ValueError, match="no tensor scale"):
        RunningAmax(1, False, 1).tensor_scale("mxfp4")
    for bad in ({"bits": -1}, {"bits": 0x7F800001, "count": 1}, {"bits": 1}, {"has_nan": True}, {"count": -1}):
        with pytest.raises(ValueError, match="pass"):
            RunningAmax(**bad)  # type: ignore[arg-type]
