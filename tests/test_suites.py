"""The published table of what acceptance tests see is what its data says, and is of today's rules."""

from __future__ import annotations

import json
from pathlib import Path

from mxspec_conformance.scoring.rules import RULES
from mxspec_conformance.scoring.subjects import list_mutant_subjects, list_right, rules_of

from tests.pages.suites import FOLDER, FORMATS, OUTSIDE, OUTSIDE_REASONS, entry_of, render

DATA = json.loads((FOLDER / "rules.json").read_text("ascii"))
REAL = json.loads((FOLDER / "real.json").read_text("ascii"))["suites"]


def test_the_table_is_rendered_from_its_data() -> None:
    assert (FOLDER / "README.md").read_text("utf-8") == render(DATA | {"real": REAL})


def test_every_rule_is_in_it_and_accepts_something_right() -> None:
    assert {(r["rule"], r["format"]) for r in DATA["suites"]} == {(n, f) for n, r in RULES.items() for f in FORMATS if f in r.checks}
    for row in (*DATA["suites"], *REAL):
        assert row["status"] == "scored"
        assert row["rules"]
        assert 0 < row["plain"]["seen"] < row["plain"]["mutants"]
        if row["rules"] == list(rules_of(row["format"])):
            assert row["quantize"]["mutants"] == sum(s.operation == "quantize" for s in list_mutant_subjects(row["format"]))
            assert row["right"]["asked"] == len(rules_of(row["format"])) + len(list(list_right(row["format"])))


def test_a_share_far_from_others_has_a_reason_and_no_other_has() -> None:
    page = (FOLDER / "README.md").read_text("utf-8").partition("## Beside others' measurement")[2]
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith(("| mx", "| nv"))]
    assert len(cells) == len(OUTSIDE)
    assert {(rule, fmt) for fmt, rule, _, _, apart, _ in cells if abs(float(apart)) > 5} == set(OUTSIDE_REASONS)
    assert all(bool(why) == ((rule, fmt) in OUTSIDE_REASONS) for fmt, rule, *_, why in cells)


def test_no_word_says_that_a_test_is_wrong() -> None:
    text = Path(FOLDER / "README.md").read_text("utf-8")
    assert "is wrong" not in text
    assert "does not see a mutant is not wrong" in text


def test_a_row_counts_quantize_alone() -> None:
    def mutant(operation: str, name: str, verdict: str) -> dict[str, str]:
        return {"operation": operation, "id": name, "verdict": verdict}

    score = {
        "format": "mxfp4", "status": "scored", "rules": ["mx-floor"], "families": {}, "controls": [{}], "independent": [mutant("quantize", "i", "rejects")],
        "mutants": [mutant("quantize", "a", "rejects"), mutant("quantize", "b", "accepts"), mutant("dequantize", "c", "rejects")],
        "counts": {"right": 3, "right_rejected": 1},
    }  # fmt: skip
    row = entry_of("name", score, {"a"})
    assert row["quantize"] == {"mutants": 2, "seen": 1}
    assert row["plain"] == {"mutants": 1, "seen": 1}
    assert row["independent"] == {"bugs": 1, "seen": 1}
    assert row["right"] == {"asked": 4, "rejected": 1}
    assert row["does_not_see"] == ["b"]
