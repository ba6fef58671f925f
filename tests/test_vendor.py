"""Vendors' device functions as witnesses: the profiles that the committed result confirms, and what the page says of the others."""

from __future__ import annotations

import json

import mxspec
from mxspec.profiles.schema import Evidence
from mxspec_lab.evidence.status import REPORTS

RESULT = json.loads((REPORTS / "vendor" / "device.json").read_text("ascii"))


def test_profiles_are_compiled_where_the_committed_result_agrees_and_nowhere_else() -> None:
    agreed = {row["profile"]: row["blocks"] for row in RESULT["profiles"] if not row["different"] and not row["refused"]}
    compiled = {p.id: p for p in mxspec.list_profiles() if p.evidence is Evidence.COMPILED}
    assert agreed.keys() == compiled.keys()
    for name, profile in compiled.items():
        rows = [row for row in RESULT["functions"] if row["profile"] == name]
        assert {(r["format"], r["dtype"]) for r in rows} == {(f, d) for f in profile.formats for d in profile.dtypes}, name
        assert {r["tensor"] is not None for r in rows} == {
            two for two, s in ((False, profile.one_level), (True, profile.two_level)) if s
        }, name
        assert f"{agreed[name]:,} blocks" in profile.witness, name
        assert not profile.provisional


PAGE = (REPORTS.parent / "docs" / "evidence.md").read_text("utf-8")


def test_the_page_says_why_each_other_profile_is_provisional() -> None:
    table = PAGE.partition("The other provisional profiles")[2].partition("\n\n")[2].partition("\n\n")[0]
    named = set()
    for row in table.splitlines()[2:]:
        first, *others = row.split("|")[1].strip().split(", ")
        library = first.partition("/")[0]
        named |= {first} | {name if name.startswith(library) else _beside(first, name) for name in others}
    assert named == {p.id for p in mxspec.list_profiles() if p.provisional}


def _beside(first: str, name: str) -> str:
    """A name that leaves out what it shares with the first of its row."""
    return "/".join([*first.split("/")[: first.count("/") - name.count("/")], name])


def test_the_page_has_the_counts_of_the_committed_result() -> None:
    total = sum(row["blocks"] for row in RESULT["profiles"])
    assert f"{len(RESULT['profiles'])} profiles, {total:,} blocks" in PAGE
