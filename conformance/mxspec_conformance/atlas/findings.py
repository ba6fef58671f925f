"""Findings: what a real implementation does otherwise, as data that points into a result.

A finding says in words what is done and why it matters; inputs, bits, counts, versions and the command come from the result
that it names, so none of them can be claimed without a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mxspec_conformance.atlas.entries import Entry, age
from mxspec_conformance.results.report import FormatResult, Requirement, Verdict

SCHEMA = "mxspec-findings/1"
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
_FIELDS = ("id", "title", "target", "requirement", "text", "effect")
#: Verdicts of requirements that a finding may be about.
SHOWN = (Verdict.FAIL, Verdict.DEVIATION, Verdict.OPEN, Verdict.WAIVED, Verdict.ERROR)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, as it is written down."""

    id: str
    title: str
    #: Target and requirement of a result; the input and the bits stand there.
    target: str
    requirement: str
    #: What is done, and what a user sees of it.
    text: str
    effect: str
    #: The version that no longer does so; empty where none is known.
    fixed: str = ""
    #: A public thread about it, or nothing.
    thread: str = ""
    #: The mutant of the catalogue that makes the same mistake, or nothing.
    mutant: str = ""


class Seen(Enum):
    """Whether a release does what a finding says."""

    SAME = "shows it"
    #: The requirement fails, and not as the newest release fails it: for another reason, or not only for this one.
    OTHERWISE = "fails in another way"
    NOT = "not seen"


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding with what its results say."""

    finding: Finding
    #: The newest release that shows it; releases that were tried, and whether each shows it.
    entry: Entry
    requirement: Requirement
    result: FormatResult | None
    versions: tuple[tuple[str, Seen], ...]

    @property
    def command(self) -> str:
        """What reproduces it."""
        return f"{self.entry.variables}mxspec check {self.entry.file or self.finding.target} --only '{self.finding.requirement}'"

    @property
    def profiles(self) -> tuple[str, ...]:
        """Profiles that give the same bits."""
        named = () if self.result is None else tuple(self.result.identical_to)
        return tuple(dict.fromkeys((*(p for p in (self.requirement.explained_by,) if p), *named)))


def read_findings(document: Mapping[str, Any], source: str) -> list[Finding]:
    """The findings of a file.

    Raises ValueError for one that lacks a field, has an unknown one, says nothing, or whose id or link cannot be one of a page.
    """
    rows = document.get("findings")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"{source}: findings is no list of objects; write one object for each finding")
    found = []
    for number, row in enumerate(rows):
        where = f"{source}: finding {row.get('id', number)!r}"
        missing = [name for name in _FIELDS if not str(row.get(name, "")).strip()]
        if missing:
            raise ValueError(f"{where} lacks {', '.join(missing)}")
        unknown = set(row) - set(Finding.__dataclass_fields__)
        if unknown:
            raise ValueError(f"{where} has {', '.join(sorted(unknown))}; allowed are {', '.join(Finding.__dataclass_fields__)}")
        other = [name for name, value in row.items() if not isinstance(value, str)]
        if other:
            raise ValueError(f"{where}: {', '.join(other)} is no text; all fields are texts")
        if not _ID.fullmatch(row["id"]):
            raise ValueError(f"{where}: an id names a page; allowed are up to 80 lower-case letters, digits and hyphens")
        if row.get("thread") and not row["thread"].startswith("https://"):
            raise ValueError(f"{where}: the thread {row['thread']!r} is no address; write one that begins with https://, or none")
        found.append(Finding(**row))
    ids = [f.id for f in found]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{source}: two findings have one id")
    return found


def show_finding(finding: Finding, entries: Iterable[Entry]) -> Shown:
    """A finding with its results.

    Raises ValueError where no result shows it: then it is no longer true, or never was.
    """
    tried: list[tuple[Entry, Requirement]] = []
    for entry in entries:
        if entry.name != finding.target:
            continue
        requirement = next((r for r in entry.report.requirements if r.id == finding.requirement), None)
        if requirement is not None and requirement.verdict is not Verdict.UNSUPPORTED:
            tried.append((entry, requirement))
    showing = [(e, r) for e, r in tried if r.verdict in SHOWN]
    if not showing:
        tried_words = ", ".join(f"{e.version}: {r.verdict}" for e, r in tried) or "no result has it"
        raise ValueError(
            f"finding {finding.id}: no result of {finding.target} shows {finding.requirement} ({tried_words}); "
            "take it out, or add the result of the version that showed it"
        )
    entry, requirement = max(showing, key=lambda pair: age(pair[0]))
    result = next((f for f in entry.report.formats if f.format == requirement.format), None)
    versions = tuple((e.version, _compare(r, requirement)) for e, r in sorted(tried, key=lambda pair: age(pair[0])))
    return Shown(finding=finding, entry=entry, requirement=requirement, result=result, versions=versions)


def _compare(requirement: Requirement, newest: Requirement) -> Seen:
    if requirement.verdict not in SHOWN:
        return Seen.NOT
    return Seen.SAME if (requirement.verdict, requirement.explained_by) == (newest.verdict, newest.explained_by) else Seen.OTHERWISE
