"""What the tests of the judge read off a report, and the files that they judge."""

from __future__ import annotations

from pathlib import Path

from mxspec_conformance.results.report import Report, Requirement

from tests.bugs.judging import list_failing

TARGETS = Path(__file__).resolve().parents[1] / "targets"
FIVE = str(TARGETS / "five_lines.py")
AWAY = str(TARGETS / "five_lines_away.py")


def failing(report: Report) -> dict[str, str]:
    """Requirements that are neither passed nor unsupported, with their verdicts."""
    return {id_: r.verdict.value for id_, r in list_failing(report).items()}


def topics_failing(report: Report) -> set[str]:
    """operation/topic of what fails, in whatever format."""
    return {f"{r.operation}/{r.topic}" for r in list_failing(report).values()}


def passed(report: Report) -> set[str]:
    """Requirements that pass."""
    return {r.id for r in report.requirements if r.verdict == "pass"}


def requirement(report: Report, name: str) -> Requirement:
    """One requirement."""
    (found,) = [r for r in report.requirements if r.id == name]
    return found
