"""A baseline: an earlier result; compared with it only new failures make a run fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mxspec_conformance.results.report import GOOD, Baseline, Report, read_report
from mxspec_vectors.reading import read_json


class BaselineError(ValueError):
    """A baseline cannot be read, or is one of another target."""


def read_baseline(path: Path) -> list[Report]:
    """The results of a file that `--json` wrote.

    Raises BaselineError for a file that holds none.
    """
    try:
        document = read_json(path)
        entries: Sequence[Mapping[str, Any]] = document if isinstance(document, list) else [document]
        return [read_report(entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BaselineError(f"{path} is no result of `mxspec check --json`: {str(error)[:200]}") from None


def apply_baseline(report: Report, earlier: Sequence[Report], path: Path) -> None:
    """Note in a report which of its failures its baseline had.

    A failure is known where the requirement failed before, in as many cases or more; over other vectors, or at another level
    (quick, full), where it failed.
    Raises BaselineError where no result is one of this target.
    """
    name = report.target["name"]
    before = next((r for r in earlier if r.target["name"] == name), None)
    if before is None:
        held = ", ".join(str(r.target["name"]) for r in earlier) or "none"
        raise BaselineError(f"{path} holds no result of {name}; it holds {held}: write one with `mxspec check {name} --json FILE`")
    same = (before.vectors, before.level) == (report.vectors, report.level)
    failed = {r.id: r for r in before.requirements if r.verdict not in GOOD}
    bad = [r for r in report.requirements if r.verdict not in GOOD]
    known = [r.id for r in bad if r.id in failed and (not same or r.failing <= failed[r.id].failing)]
    report.baseline = Baseline(
        version=str(before.target["version"]), vectors=before.vectors, known=known,
        new=[r.id for r in bad if r.id not in known], gone=sorted(set(failed) - {r.id for r in bad}),
        level="" if before.level == report.level else before.level,
    )  # fmt: skip
