"""Which profile a target is judged against, and what is said of those that it equals."""

from __future__ import annotations

import pytest

from mxspec.profiles import list_profiles
from mxspec_conformance.judge.check import check
from mxspec_conformance.results.conclusion import conclude

from tests.bugs import find, scales
from tests.bugs.building import make, model, on_blocks
from tests.bugs.judging import judge
from tests.judge.reading import failing, requirement, topics_failing


@pytest.mark.parametrize("profile", ["mx-rceil", "mx-even", "mx-ceil"])
def test_another_scale_rule_is_found_and_deviates_from_the_one_asked_for(profile: str) -> None:
    """The scale rule is only recommended: the nearest normative profile is found; asked for floor, it deviates."""
    entry = find(f"scales by {profile}")
    report = judge(entry)
    assert {f.judged_against for f in report.formats} == {profile}
    asked = check(entry.target(), profile="mx-floor", formats=["mxfp4"])
    assert asked.formats[0].chosen == "asked"
    assert asked.exit_code == 1
    about_scales = {"quantize/scale-boundary", "quantize/scale-clamp", "scale/scale-boundary"}
    assert topics_failing(asked) <= about_scales | {"quantize/position", "quantize/axis"}
    found = requirement(asked, "scale/mxfp4/scale-boundary")
    assert (found.verdict, found.note, found.explained_by) == ("deviation", f"as {profile}", profile)


@pytest.mark.parametrize("name", scales.FLOAT_LOG2)
def test_scales_by_a_float_log2_are_named(name: str) -> None:
    """Wrong scales only next to powers of two, where no profile has them: the profile stays, the cause is named."""
    _, (rule, *_), cause = scales.FLOAT_LOG2[name]
    report = judge(find(name))
    assert [f.judged_against for f in report.formats] == [rule, rule]
    for result in report.formats:
        found = [d for d in result.deviations if "float log2" in d]
        assert len(found) == (cause is not None)
        assert all(d.startswith(f"scale: {cause} of a float log2: one too ") for d in found)
        assert result.identical_to == []
    assert not any(r.explained_by for r in report.requirements), "another rule explains it by chance alone"


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3"])
def test_scales_by_the_float_log2_of_a_library_are_named(fmt: str) -> None:
    (result,) = check(find("P22 float log2").target(), formats=[fmt], only="*/mx*/scale-*").formats
    assert result.judged_against == "mx-floor"
    assert result.deviations == ["scale: floor of a float32 log2: one too high just below some powers of two"]


@pytest.mark.parametrize("fmt", ["mxfp6_e2m3", "mxfp8_e5m2", "mxint8"])
def test_a_float_log2_is_no_other_rule_for_the_quick_level(fmt: str) -> None:
    """Few maxima are tried, next to thresholds; a float just below a power of two stands for no binade."""
    pytest.importorskip("gfloat")
    (result,) = check("gfloat", formats=[fmt], quick=True, only="*/mx*/scale-*").formats
    assert result.judged_against == "mx-floor"


def test_provisional_profiles_never_conform() -> None:
    provisional = [p for p in list_profiles("mxfp4") if p.provisional and p.one_level and "float32" in p.dtypes]
    provisional += [p for p in list_profiles("mxfp8_e4m3") if p.provisional and p.one_level and "float32" in p.dtypes]
    assert provisional
    profile = provisional[0]
    fmt = profile.formats[0]
    target = make([fmt], quantize=on_blocks(lambda x, fmt: model(x, fmt, profile)))
    report = check(target, profile=profile.id)
    assert (failing(report), report.exit_code) == ({}, 0)
    (result,) = report.formats
    assert result.provisional
    assert conclude(result, report.requirements).text == f"matches (provisional) {profile.id}"


def test_without_a_profile_only_normative_ones_are_judged_against() -> None:
    """A target that equals a descriptive profile is told so; it is judged against the nearest normative one."""
    report = check(make(["mxfp4"], quantize=on_blocks(lambda x, fmt: model(x, fmt, "gguf-0.19/mxfp4"))))
    (result,) = report.formats
    assert result.judged_against == "mx-floor"
    assert result.identical_to == ["gguf-0.19/mxfp4"]
    assert "nearest, ties toward zero" in result.deviations
    assert set(failing(report).values()) == {"deviation"}
    assert {r.explained_by for r in report.requirements if r.verdict == "deviation"} == {"gguf-0.19/mxfp4"}


@pytest.mark.parametrize("profile", ["mx-even", "mx-rceil"])
def test_in_float16_blocks_that_are_made_tell_profiles_apart(profile: str) -> None:
    """The few vectors that are numbers of float16 are those of both profiles: a right kernel conforms to its own."""
    target = make(["mxfp4"], quantize=on_blocks(lambda x, fmt: model(x, fmt, profile)), DTYPES=("float16",))
    report = check(target, quick=True)
    assert (failing(report), report.formats[0].judged_against) == ({}, profile)
