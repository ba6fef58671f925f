"""Attention and caches: right kernels pass whatever their contract leaves open, wrong ones are found and, if the mistake is known, named."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec.attention import attend_as, bound_outputs, find_visible, list_sequences, parse_attention, parse_cache
from mxspec.attention.caches import find_swizzled
from mxspec_conformance import check
from mxspec_conformance.judge.attention.cases import list_cases
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.results.report import GOOD, Report, read_report
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.opening import open_target

from tests.judge.attention_kernels import RIGHT, WRONG, Variation
from tests.judge.cache_writers import RIGHT_WRITERS, WRONG_READERS, WRONG_WRITERS, Writer
from tests.transports import build_library

OPTIONS = ("page_table", "causal", "window", "scale", "q_scale", "k_scale", "v_scale")
FORMS = (
    "bfloat16 @ fp8_e4m3", "fp8_e4m3 @ nvfp4", "float16 @ int8-token/ragged", "float32 @ mxfp4/top-left", "fp8_e4m3 @ fp8_e5m2/per-head",
    "bfloat16 @ mxfp8_e4m3 @ nvfp4/v-4x4+heads-first+d-128", "bfloat16 @ bfloat16", "bfloat16 @ fp8_e4m3-token/p-bfloat16+page-16",
)  # fmt: skip


def list_bad(report: Report) -> list[Any]:
    return [
        (r.id, r.verdict, r.note, r.first and r.first.steps) for r in read_report(report.as_dict()).requirements if r.verdict not in GOOD
    ]


@pytest.mark.share(10)
@pytest.mark.all_calls
@pytest.mark.parametrize("variation", RIGHT, ids=lambda v: v.text)
def test_a_right_kernel_is_not_accused(variation: Variation) -> None:
    target = variation.make()
    report = check(target, only="attention/*")
    assert list_bad(report) == []
    assert {r.id for r in report.requirements} == set(list_requirements(open_target(target)))


@pytest.mark.share(10)
@pytest.mark.all_calls
@pytest.mark.parametrize("variation", WRONG, ids=lambda v: v.text)
def test_a_wrong_kernel_is_found(variation: Variation) -> None:
    assert check(variation.make(), only="attention/*").exit_code == 1


#: Wrong kernels -> the topic and what its note says; None: no mistake is known that does this.
NAMED = {
    "the causal mask ends one key late": ("mask", "as if the causal mask ended one key late"),
    "the causal mask ends one key late from 65 queries on": ("mask", "as if the causal mask ended one key late"),
    "groups of eight by modulo": ("position", "as if query heads shared heads of K and V by modulo, not by division"),
    "the window has one key more": ("mask", "as if the window had one key more"),
    "the mask is aligned top left": ("mask", "as if the first query belonged to the first key"),
    "groups by modulo": ("position", "as if query heads shared heads of K and V by modulo, not by division"),
    "the page table of the first sequence": ("position", "as if the page table of the first sequence were that of all"),
    "k_scale and v_scale are left out": ("tensor-scale", "as if the scales of K and V were left out"),
    "the square root of the wrong d": ("interval", "as if logits were scaled by 1 / sqrt(2 d)"),
}


@pytest.mark.parametrize("text", NAMED)
def test_a_mistake_is_named(text: str) -> None:
    topic, note = NAMED[text]
    variation = next(v for v in WRONG if v.text == text)
    (found,) = check(variation.make(), only=f"attention/*/{topic}").requirements
    assert (found.topic, found.note) == (topic, note)


def test_a_wrong_row_names_itself() -> None:
    variation = next(v for v in WRONG if v.text == "the causal mask ends one key late")
    (found,) = check(variation.make(), only="attention/*/mask").requirements
    assert found.first is not None
    assert found.first.steps == ["query 0 of head 0 of sequence 1 read key 1 of head 0 of sequence 1, not key 0 of head 0 of sequence 1"]


def make_cases(form: str) -> Any:
    offered = Capabilities(
        name="", version="", formats=(), functions=("attention",), keywords={"attention": OPTIONS}, elements=(), attention=(form,),
        out_dtypes=("bfloat16", "float32"),
    )  # fmt: skip
    return list_cases(parse_attention(form), offered)


@pytest.mark.parametrize("form", FORMS)
def test_designed_calls_have_one_right_answer(form: str) -> None:
    """All but those that are about weights, and means of keys that are no power of two."""
    for case in list(make_cases(form))[::3]:
        bounds = bound_outputs(case.call)
        assert bounds.accept(attend_as(*case.arguments, **case.options), case.out_dtype).all()
        if "weights" not in case.label and "mean of what is seen" not in case.label:
            assert (bounds.certain | bounds.empty).all(), case.label


def test_the_ends_enclose_attention_in_rationals() -> None:
    """Two keys and weights that are rounded to FP8 either way: exp is 1 and a rational that encloses it."""
    case = next(c for c in make_cases("bfloat16 @ fp8_e4m3") if "weights of neighbours, pages of 16" in c.label)
    bounds, call = bound_outputs(case.call), case.call
    part = next(iter(list_sequences(call)))
    z = Fraction(float(part.logits[0, 0, 1])) - Fraction(float(part.logits[0, 0, 0]))
    small = sum(((-z) ** n / np.prod(range(1, n + 1), dtype=object) for n in range(1, 40)), Fraction(1))  # exp(-z)
    for p in (small * Fraction(15, 16), small * Fraction(17, 16)):
        for total in (1 + small, 1 + p):
            for lane in range(call.spec.d):
                v = [Fraction(float(part.values[j, 0, lane])) for j in (0, 1)]
                output = (v[0] * p + v[1]) / total
                assert Fraction(float(bounds.low[0, 0, lane])) <= output <= Fraction(float(bounds.high[0, 0, lane]))


@pytest.mark.parametrize(("top_left", "window"), [(False, None), (True, None), (False, 2), (True, 1)])
def test_the_mask_is_that_of_its_words(top_left: bool, window: int | None) -> None:
    seen = find_visible(3, 5, causal=True, top_left=top_left, window=window)
    for query in range(3):
        own = query if top_left else query + 2
        assert np.flatnonzero(seen[query]).tolist() == [k for k in range(5) if k <= own and (window is None or k > own - window)]


def test_swizzled_scales_are_a_permutation_within_four_tokens() -> None:
    t, s = find_swizzled(16, 8)
    assert (int(t[5, 7]), int(s[5, 7])) == (7, 5)
    assert len({*zip(t.ravel().tolist(), s.ravel().tolist(), strict=True)}) == 128
    assert (t // 4 == np.arange(16)[:, None] // 4).all()


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (parse_attention, "fp8_e4m3", "is not Q @ K"), (parse_attention, "int8 @ nvfp4", "names 'int8'"), (parse_cache, "nvfp4/top-left", "'top-left'"),
        (parse_cache, "fp8_e4m3/v-4x4", "multiple of 4 blocks"), (parse_cache, "nvfp4/page-0", "'page-0'"), (parse_attention, "bfloat16 @ nvfp4/d-96", "multiple of 64"),
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused(parse: Any, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)
    if parse is parse_attention:
        with pytest.raises(TargetError, match="ATTENTION"):
            open_target(SimpleNamespace(NAME="t", ATTENTION=[text], attention=Variation("").make().attention))


def test_torch_on_the_cpu_is_not_accused() -> None:
    pytest.importorskip("torch")
    assert list_bad(check("torch-attention", only="attention/bfloat16@*")) == []


@pytest.mark.all_calls
def test_a_shared_library_is_judged_alike(tmp_path: Path) -> None:
    library = build_library(Path(__file__).parents[1] / "targets" / "attention.cpp", tmp_path / "libattention.so")
    report = check(str(library))
    assert list_bad(report) == []
    assert {r.id.split("/")[0] for r in report.requirements} == {"append_cache", "read_cache", "attention"}


@pytest.mark.share(10)
@pytest.mark.all_calls
@pytest.mark.parametrize("writer", RIGHT_WRITERS, ids=lambda w: w.text)
def test_a_right_cache_is_not_accused(writer: Writer) -> None:
    target = writer.make()
    report = check(target)
    assert list_bad(report) == []
    assert {r.id for r in report.requirements} == set(list_requirements(open_target(target)))


@pytest.mark.share(10)
@pytest.mark.all_calls
@pytest.mark.parametrize("writer", [*WRONG_WRITERS, *WRONG_READERS], ids=lambda w: w.text)
def test_a_wrong_cache_is_found(writer: Writer) -> None:
    report = check(writer.make())
    assert report.exit_code == 1
    if writer.note:
        assert any(r.note == writer.note for r in report.requirements), list_bad(report)


def test_plain_rows_are_what_ml_dtypes_has() -> None:
    assert parse_cache("bfloat16").k.dtype == ml_dtypes.bfloat16
