"""The list of findings in reports/findings.md, made from docs/findings.json and the results that it points into.

python -m tests.pages.findings [--page reports/findings.md]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mxspec_conformance.atlas.findings import Seen, Shown, show_finding
from mxspec_conformance.atlas.reading import read_collection
from mxspec_conformance.results.report import Failure
from mxspec_lab.evidence.status import REPORTS
from mxspec_vectors.files import write_file

BEGIN, END = "<!-- findings -->\n", "<!-- end -->\n"


def list_findings() -> list[Shown]:
    """Every finding with the result that shows it."""
    collection = read_collection([REPORTS, REPORTS.parent / "docs"])
    return [show_finding(finding, collection.entries) for finding in collection.findings]


def list_lines(findings: Sequence[Shown]) -> Iterator[str]:
    """A paragraph for each finding: what, in which versions, how to reproduce it."""
    for shown in findings:
        finding, requirement = shown.finding, shown.requirement
        versions = ", ".join(version for version, seen in shown.versions if seen is Seen.SAME)
        yield (
            f"- **{finding.title}.** {finding.text} {finding.effect} {finding.target} {versions}: {requirement.failing:,} of "
            f"{requirement.cases:,} cases; `{shown.command}`."
        )
        if requirement.first is not None and (words := describe_smallest(requirement.first)):
            yield f"  Smallest input: {words}."


#: Of an operand, or of codes, as many different parts are listed.
_MOST_PARTS = 6


def describe_smallest(first: Failure) -> str:
    """What was given, expected and returned, in one line; empty where a call has too many parts for that."""
    given, expected, returned = (", ".join(_list_parts(side)) for side in (first.given, first.expected, first.returned))
    return " ".join(f"{given}; expected {expected}; returned {returned}".split()) if given and expected and returned else ""


def _list_parts(side: Mapping[str, Any]) -> Iterator[str]:
    """The members of a description, equal lanes together. Nothing from the first one on that has too many parts."""
    for key, value in side.items():
        if key in ("shape", "dtype", "lane"):
            continue
        lanes: dict[str, list[str]] = {}
        for name, part in value.items() if isinstance(value, Mapping) else [("", value)]:
            lanes.setdefault(str(part), []).append(name)
        if len(lanes) > _MOST_PARTS:
            return
        yield from (
            f"{names[0] if isinstance(value, Mapping) else key}{f' and {len(names) - 1} more' * (len(names) > 1)} {part}".strip()
            for part, names in lanes.items()
        )


def render_page(text: str, findings: Sequence[Shown]) -> str:
    """The page with the list between its marks."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no place for findings: a line {BEGIN.strip()} and a line {END.strip()}")
    return pattern.sub(lambda _: BEGIN + "\n".join(list_lines(findings)) + "\n" + END, text)


def main(arguments: Sequence[str]) -> None:
    """Print the list, or write it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", type=Path)
    page = parser.parse_args(arguments).page
    findings = list_findings()
    if page is None:
        print("\n".join(list_lines(findings)))
        return
    write_file(page, render_page(page.read_text("utf-8"), findings).encode("utf-8"))
    print(f"{page}: {len(findings)} findings")


if __name__ == "__main__":
    main(sys.argv[1:])
