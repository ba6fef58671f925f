"""A profile that a target claims is checked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import mxspec
from mxspec_conformance import TargetError, Verdict, check


def make_target(follows: str, claims: Any, formats: tuple[str, ...] = ("mxfp4",)) -> SimpleNamespace:
    def quantize(x: Any, fmt: str) -> tuple[Any, Any]:
        t = mxspec.quantize(x, fmt, profile=follows)
        return t.codes, t.scales

    return SimpleNamespace(NAME="claimant", VERSION="1", FORMATS=formats, PROFILE=claims, quantize=quantize)


def test_a_claim_that_holds_passes() -> None:
    report = check(make_target("mx-rceil", "mx-rceil"), quick=True)
    assert report.exit_code == 0
    assert [(f.judged_against, f.chosen) for f in report.formats] == [("mx-rceil", "claimed")]


def test_a_floor_kernel_that_claims_rceil_does_not_pass() -> None:
    report = check(make_target("mx-floor", "mx-rceil"), quick=True)
    assert report.exit_code == 1
    assert report.formats[0].judged_against == "mx-rceil"
    wrong = [r for r in report.requirements if r.verdict is Verdict.DEVIATION]
    assert {r.explained_by for r in wrong} == {"mx-floor"}


def test_a_requested_profile_goes_before_a_claimed_one() -> None:
    report = check(make_target("mx-floor", "mx-rceil"), profile="mx-floor", quick=True)
    assert report.exit_code == 0
    assert report.formats[0].chosen == "asked"


def test_a_format_that_no_claim_covers_is_judged_by_the_nearest() -> None:
    report = check(make_target("mx-ceil", "torchao-0.18/mxfp4/rceil/eager", ("mxfp4", "mxfp6_e2m3")), quick=True)
    assert [(f.format, f.chosen) for f in report.formats] == [("mxfp4", "claimed"), ("mxfp6_e2m3", "nearest")]
    assert report.formats[1].judged_against == "mx-ceil"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ("mx-rceill", "PROFILE names 'mx-rceill', which is no profile; close are mx-rceil"),
        ("nvfp4-te", "PROFILE names nvfp4-te, which covers nvfp4; FORMATS lists mxfp4"),
        (["mx-floor", "mx-ceil"], "PROFILE names mx-floor and mx-ceil, both for mxfp4; claim one"),
        (7, "PROFILE is an int; write a name or a list of names"),
    ],
)
def test_a_claim_that_cannot_be_is_an_error(claims: Any, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        check(make_target("mx-floor", claims), quick=True)
