"""The claims of documents: evaluated, shown as evaluated, and different where the evidence is."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.pages import claims
from tests.pages.claims import CLAIMS, Basis, Document, Evidence, Range, Verdict, between, exactly, printed

PAGE = Path(__file__).resolve().parents[1] / "reports" / "claims.md"
BY_ID = {c.id: c for c in CLAIMS}


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence()


def test_the_page_is_what_is_evaluated(evidence: Evidence) -> None:
    text = PAGE.read_text("utf-8")
    assert claims.render_page(text, CLAIMS, evidence) == text, "run `python -m tests.pages.claims --page reports/claims.md`"


def test_every_claim_is_decided_or_says_why_not(evidence: Evidence) -> None:
    assert len(BY_ID) == len(CLAIMS) >= 50
    assert {c.document for c in CLAIMS} == set(Document)
    for claim in CLAIMS:
        found, verdict = claim.judge(evidence)
        assert (found is None) == (verdict is Verdict.UNTESTED) == (claim.basis is Basis.NONE), claim.id
        assert claim.why


@pytest.mark.parametrize(
    ("name", "found", "verdict"),
    [
        ("mxfp4-ratio", Fraction(64, 17), Verdict.HOLDS),
        ("memory", Fraction(32, 9), Verdict.FAILS),
        ("affine-ratio", Fraction(32, 9), Verdict.FAILS),
        ("load-8-bytes", Fraction(1, 50), Verdict.FAILS),
        ("sparse-total", Fraction(3, 4), Verdict.FAILS),
        ("scales-1024x4096", Fraction(262_144), Verdict.FAILS),
        ("occupancy-bounds", Fraction(75), Verdict.FAILS),
        ("grid-864", Fraction(864), Verdict.HOLDS),
        ("gemm-shared", Fraction(18), Verdict.HOLDS),
        ("qwen-bytes", Fraction(781_713_408, 10**6), Verdict.FAILS),
        ("qwen-share", Fraction(4), Verdict.HOLDS),
    ],
)
def test_what_was_counted_by_hand(name: str, found: Fraction, verdict: Verdict, evidence: Evidence) -> None:
    assert BY_ID[name].judge(evidence) == (exactly(found), verdict)


def test_other_evidence_gives_another_answer() -> None:
    other = Evidence()
    vectors = other.steps["measurements"]["vectors"]
    for number, verdict in (("2.7", Verdict.HOLDS), ("3.1", Verdict.FAILS)):
        vectors["times_faster"] = number
        assert BY_ID["speedup"].judge(other)[1] is verdict
    for row in other.rows(None, "mxfp4 product with 1 vectors", "sparse"):
        row["times_faster_than_dense"] = 1.33
    assert BY_ID["sparse-speed"].judge(other) == (exactly("1.33"), Verdict.HOLDS)
    for row in other.transformer["against_q4_k"]:
        row["greedy_token_match"], row["ratio"] = 0.96, 1.02
    assert BY_ID["tokens"].judge(other) == (exactly(96), Verdict.HOLDS)
    assert BY_ID["perplexity"].judge(other)[1] is Verdict.FAILS
    for row in other.transformer["sensitivity"]:
        row["ratio"], row["ratio_standard_error"] = (1.25 if row["matrix"] == "embed" else 1.0), 0.0
    assert BY_ID["sensitive-embedding"].judge(other) == (exactly(25), Verdict.HOLDS)
    assert BY_ID["sensitive-head"].judge(other) == (exactly(0), Verdict.FAILS)
    text = claims.render_page(PAGE.read_text("utf-8"), CLAIMS, other)
    assert text != PAGE.read_text("utf-8")


def test_ranges() -> None:
    assert printed("3.76").covers(exactly(Fraction(64, 17)))
    assert not printed("3.765").covers(exactly("3.76"))
    assert not exactly(4).covers(exactly(Fraction(64, 17)))
    assert between(10, 20).meets(between("2.5", 12))
    assert not between(10, 20).covers(between("2.5", 12))
    assert not between(10, 20).meets(between(21, 30))
    assert claims.show_range(Range(Fraction(1), Fraction(1)), "") == "1"
    assert claims.show_range(between("0.416", 5000), "us") == "0.416 to 5,000 us"


def test_what_is_not_there_is_said(evidence: Evidence) -> None:
    with pytest.raises(ValueError, match="no row of size 7"):
        evidence.spread("microseconds", 7, "mxfp4")
    with pytest.raises(ValueError, match="no place for claims"):
        claims.render_page("# Claims\n", CLAIMS, evidence)
