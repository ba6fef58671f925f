"""The page of errata: what it says shows a mistake is there, and shows it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mxspec
import mxspec.containers.dtypes
from mxspec.dot import ACCUMULATORS
from mxspec_conformance.mutants import list_mutants

PAGE = (Path(__file__).parents[1] / "docs/errata.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| it is said")
]
EXPRESSIONS = re.findall(r"`([^`]+)` = `([^`]+)`", PAGE)
NAMES = {
    "mutant": {mutant.id for mutant in list_mutants()},
    "profile": {profile.id for profile in mxspec.list_profiles()},
    "class": set(ACCUMULATORS),
}


def test_every_row_has_a_witness() -> None:
    assert len(ROWS) > 25
    for row in ROWS:
        assert len(row) == 3, row
        assert re.search(r"`|\]\(", row[2]), row


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS)
def test_expressions_have_the_stated_value(expression: str, value: str) -> None:
    assert eval(expression, {"mxspec": mxspec, "np": np}) == eval(value)


def test_what_is_named_exists() -> None:
    found = [
        (kind, name)
        for kind, names in re.findall(r"(mutant|profile|class)s? (`[^`]+`(?:, `[^`]+`)*)", PAGE)
        for name in re.findall("`([^`]+)`", names)
    ]
    assert len(found) > 25
    assert [(kind, name) for kind, name in found if name not in NAMES[kind]] == []
