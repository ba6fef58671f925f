"""Common acceptance rules on products: what is published is measured, current, and says what the page says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec_conformance.scoring.products.rules import PRODUCT_RULES as RULES, Trial, cosine, relative
from mxspec_lab.evidence.kinds import KINDS
from mxspec_lab.evidence.status import State, judge_result, render_result
from mxspec_lab.products.acceptance import SHOWN, count, count_judge, describe, render_tables
from mxspec_lab.products.right import RIGHT
from mxspec_lab.products.wrong import list_wrong

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "reports" / "mutants" / "acceptance.json"
DOCUMENT: dict[str, Any] = json.loads(REPORT.read_text("ascii"))
RENEW = "run `python -m mxspec_lab.products.acceptance --json reports/mutants/acceptance.json --page reports/acceptance.md`"
RULE = {rule.id: rule for rule in RULES}


def test_it_is_current() -> None:
    kind = next(k for k in KINDS if k.pattern == "mutants/acceptance.json")
    assert judge_result(REPORT, kind).state is State.CURRENT, RENEW
    assert [row["kernel"] for row in DOCUMENT["wrong"]] == [kernel.name for kernel in list_wrong()], RENEW
    assert [row["kernel"] for row in DOCUMENT["right"]] == [kernel.name for kernel in RIGHT], RENEW


def test_the_page_shows_its_numbers() -> None:
    page = (ROOT / "reports" / "acceptance.md").read_text("utf-8")
    assert f"<!-- numbers -->\n{render_tables(DOCUMENT)}<!-- end -->" in page, RENEW
    m, n, k = DOCUMENT["shape"]
    assert f"{m} x {n} outputs, k = {k}" in page
    assert set(SHOWN) <= {row["kernel"] for row in DOCUMENT["wrong"]}


def test_counts_are_those_of_the_rows() -> None:
    assert DOCUMENT["counts"] == count(DOCUMENT["wrong"], DOCUMENT["right"]) | {"judge": count_judge(DOCUMENT["wrong"])}
    assert render_result({key: value for key, value in DOCUMENT.items() if key != "uses"}).startswith('{\n "schema"')


def test_what_the_page_says_in_words() -> None:
    right = {row["product"]: row for row in DOCUMENT["right"] if row["kernel"].endswith("by itself")}
    mxfp4 = right["mxfp4 @ mxfp4"]
    assert f"{mxfp4['cosine_unquantized']:.3f}" == "0.987"
    assert "cosine-unquantized" not in mxfp4["passes"]
    assert mxfp4["cosine_exact"] == 1.0
    broken = {row["kernel"]: row for row in DOCUMENT["wrong"] if not row["same"] and "cosine-exact" in row["passes"]}
    assert {"last block dropped, b", "smallest subnormal flushed, b", "float16 additions, not declared", "no tensor scale"} <= set(broken)
    counts = DOCUMENT["counts"]["rules"]
    assert counts["rtol-5%-alone"]["right_fail"] > 0
    assert sum(row["same"] for row in DOCUMENT["wrong"]) > len(DOCUMENT["wrong"]) / 4
    assert all(found["wrong_pass"] > DOCUMENT["counts"]["judge"]["wrong_pass"] for found in counts.values())


@pytest.mark.parametrize("name", ["last k dropped, a", "no tensor scale"])
def test_a_row_is_measured_again(name: str) -> None:
    row = next(r for r in DOCUMENT["wrong"] if r["kernel"] == name)
    found = describe(next(k for k in list_wrong() if k.name == name))
    assert (found["passes"], found["same"]) == (row["passes"], row["same"])
    for key in ("cosine_unquantized", "cosine_exact", "relative"):  # a BLAS may add in another order
        assert f"{found[key]:.3g}" == f"{row[key]:.3g}"


def test_the_rules_decide_as_they_say() -> None:
    y = np.array([[3.0, -4.0], [0.5, 12.0]])
    assert cosine(y, 4 * y) == cosine(y, y) == 1.0
    assert relative(1.03125 * y, y) == 0.03125
    factor = Trial(2 * y, y, y)
    assert [rule.id for rule in RULES if rule.accepts(factor)] == ["cosine-unquantized", "cosine-exact"]
    assert all(rule.accepts(Trial(y, y, y)) for rule in RULES)
    lost = y.copy()
    lost[0, 1] = np.nan
    assert not any(rule.accepts(Trial(lost, y, y)) for rule in RULES)
    near = Trial(y + np.array([[0.0, 0.0], [0.375, 0.0]]), y, y)
    assert RULE["rtol-5%"].accepts(near)
    assert not RULE["rtol-5%-alone"].accepts(near)
