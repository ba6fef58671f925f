"""What every failing requirement must show: its input, what was expected and what came back, which are not the same."""

from __future__ import annotations

from collections.abc import Iterable

from mxspec_conformance.results.report import Requirement, Verdict


def assert_shown(requirements: Iterable[Requirement]) -> None:
    for requirement in requirements:
        if requirement.verdict is Verdict.FAIL:
            failure = requirement.first
            assert failure is not None, requirement.id
            assert failure.given, requirement.id
            assert failure.expected, requirement.id
            assert failure.returned, requirement.id
            assert failure.expected != failure.returned, requirement.id
