"""What a target fails, in short."""

from __future__ import annotations

from typing import Any

from mxspec_conformance import check
from mxspec_conformance.results.report import GOOD


def list_failing(target: Any) -> set[str]:
    """Topics of the requirements that a target does not meet; the exit code has to say whether there are any."""
    report = check(target)
    failing = {r.topic for r in report.requirements if r.verdict not in GOOD}
    assert report.exit_code == bool(failing)
    return failing
