"""No false alarm: implementations that differ only in what OCP leaves open pass, whatever they combine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.profiles.normative import MxFormats
from mxspec_conformance.judge.check import check
from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.mutants.right import open_choices
from mxspec_conformance.mutants.scale_mutants import special
from mxspec_conformance.observations.quantize import WHOLE_BLOCK
from mxspec_conformance.observations.selection import Selection, use_selection
from mxspec_conformance.results.report import GOOD
from mxspec_lab.mutants.judging import judge_target
from mxspec_vectors.cases import load_quantize_cases
from mxspec_vectors.topics import Level

RULES = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")


@pytest.mark.parametrize("profile", RULES)
@pytest.mark.parametrize("fmt", MxFormats())
def test_every_combination_of_open_choices_passes(fmt: str, profile: str) -> None:
    open_cases = frozenset(c.id for c in load_quantize_cases(fmt) if c.topic in WHOLE_BLOCK or c.topic == "overflow")
    only_those = Selection({("quantize", fmt): open_cases, ("scale", fmt): frozenset()})
    accused = {}
    with use_selection(only_those):
        for name, steps in open_choices(fmt):
            found = judge_target(Reference(profile, change=steps), "quantize", fmt, profile)
            assert len(found.asked) >= 20
            if found.kills:
                accused[name] = sorted(found.kills)[:2]
    assert not accused


@pytest.mark.parametrize("fmt", MxFormats())
def test_no_choice_is_open_for_ordinary_blocks(fmt: str) -> None:
    """The most unusual combination passes the full level: what is open does not leak into what is not."""
    *_, (_, steps) = open_choices(fmt)
    assert not judge_target(Reference("mx-floor", change=steps), "quantize", fmt, "mx-floor").kills


def test_a_choice_that_is_not_open_is_found_out() -> None:
    wrong = Reference("mx-floor", change={"store_special": special(inf=100)})
    assert judge_target(wrong, "quantize", "mxfp4", "mx-floor").kills


@pytest.mark.parametrize(("byte", "passes"), [(0x38, True), (0x08, True), (0x7F, False)])
def test_the_scale_of_a_tensor_of_zeros_is_open(byte: int, passes: bool) -> None:
    def quantize(x: Any, fmt: str, tensor_scale: float) -> Any:
        scale = mxspec.TensorScale("amax", int(np.float32(tensor_scale).view(np.uint32)))
        t = mxspec.quantize(x, fmt, profile="nvfp4-te", tensor_scale=scale)
        zeros = (x.reshape(len(x), -1, 16) == 0).all(axis=-1)
        return t.codes, np.where(zeros, np.uint8(byte), t.scales)

    target = SimpleNamespace(NAME="zeros", FORMATS=["nvfp4"], TENSOR_SCALE="amax", quantize=quantize)
    report = check(target, profile="nvfp4-te", only="quantize/nvfp4/tensor-scale")
    assert report.exit_code == (0 if passes else 1)


@pytest.mark.parametrize(("lost", "passes"), [(0, True), (1, False)])
def test_codes_under_a_scale_of_zero_are_open_where_a_nan_makes_it(lost: int, passes: bool) -> None:
    """The definition divides by it: a number becomes the largest one, and zero may stay zero. Whether a NaN is seen depends on no lane."""

    def quantize(x: Any, fmt: str, tensor_scale: float) -> Any:
        scale = mxspec.TensorScale("decode", int(np.float32(tensor_scale).view(np.uint32)))
        t = mxspec.quantize(np.where(np.isnan(x), np.float32(0), x), fmt, profile="nvfp4-decode", tensor_scale=scale)
        blocks = x.reshape(len(x), -1, 16)
        broken = np.isnan(blocks[..., lost:]).any(axis=-1)
        divided = np.where(blocks == 0, 0, 7) | np.signbit(blocks) * 8
        codes = np.where(broken[..., None], divided, t.codes.reshape(blocks.shape))
        return codes.reshape(x.shape).astype(np.uint8), np.where(broken, np.uint8(0), t.scales)

    target = SimpleNamespace(NAME="zero scales", FORMATS=["nvfp4"], quantize=quantize)
    report = check(target, profile="nvfp4-decode", only="quantize/nvfp4/*", quick=True)
    failing = {r.id for r in report.requirements if r.verdict not in GOOD and r.level is not Level.OPEN}
    assert failing == (set() if passes else {"quantize/nvfp4/choice", "quantize/nvfp4/position"})
