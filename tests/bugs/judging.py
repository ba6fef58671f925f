"""Judging an entry, and comparing the report with what the entry says."""

from __future__ import annotations

import mxspec
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.tally import REFUSABLE
from mxspec_conformance.results.conclusion import Stand, conclude
from mxspec_conformance.results.report import Report, Requirement, Verdict
from mxspec_vectors.topics import Level

from tests.bugs.entry import OF_CALLS, Entry, Kind

#: Verdicts that accuse nobody.
GOOD = (Verdict.PASS, Verdict.OPEN, Verdict.UNSUPPORTED)


def judge(entry: Entry) -> Report:
    """The judge's report on a new target of an entry."""
    return check(entry.target(), in_process=True, profile=entry.profile or None)


def list_failing(report: Report) -> dict[str, Requirement]:
    """Requirements that are neither passed, nor open, nor unsupported, by id."""
    return {r.id: r for r in report.requirements if r.verdict not in GOOD}


def list_departures(entry: Entry, report: Report) -> list[str]:
    """In which ways a report is not what the entry says; none if it is."""
    failing = list_failing(report)
    departing = failing | {r.id: r for r in report.requirements if r.verdict is Verdict.OPEN}
    found = [f"{i} must fail" for i in sorted(entry.musts - set(departing))]
    # A bug that hangs on more than a block shows in some calls; right implementations fail in none.
    of_calls = {i for i in failing if entry.kind is Kind.BUG and i.rsplit("/", 1)[1] in OF_CALLS}
    found += [f"{i} must not fail" for i in sorted(set(failing) - entry.musts - entry.mays - of_calls)]
    for requirement in departing.values():
        if requirement.verdict is Verdict.OPEN:
            if requirement.level != Level.OPEN and requirement.topic not in REFUSABLE:
                found.append(f"{requirement.id} is open")
        elif requirement.verdict not in entry.verdicts:
            found.append(f"{requirement.id} is {requirement.verdict.value}")
        if entry.note not in requirement.note:
            found.append(f"{requirement.id} says {requirement.note!r}")
    if report.exit_code != (1 if failing else 0):
        found.append(f"exit code {report.exit_code}")
    if not sum(r.cases for r in report.requirements if r.verdict is not Verdict.UNSUPPORTED):
        found.append("nothing was asked")
    for result in report.formats:
        own = [r for r in report.requirements if r.format == result.format and r.verdict is not Verdict.UNSUPPORTED]
        conclusion = conclude(result, report.requirements)
        if (conclusion.stand in (Stand.NEAREST, Stand.DIFFERS, Stand.SILENT)) != any(r.id in failing for r in own):
            found.append(f"{result.format}: {conclusion.text}")
        if entry.kind is not Kind.BUG:
            nearest = entry.profile or entry.nearest or mxspec.default_profile(result.format).id
            if (result.judged_against, result.failing) != (nearest, 0):
                found.append(f"{result.format}: {result.failing} off {result.judged_against}")
    return found
