"""Results of implementations, as the atlas shows them: which implementation, where it ran, and one verdict for each format."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxspec.formats import BLOCKS, ELEMENTS, SCALES
from mxspec_conformance.render.clean import clean
from mxspec_conformance.results.conclusion import Stand, conclude
from mxspec_conformance.results.report import FormatResult, Report, Requirement, Verdict, read_report

#: Columns of the matrix in addition to the block formats.
ELEMENTS_COLUMN, LAYOUTS_COLUMN = "elements", "layouts, sparse"
#: What a reader wants to see first.
_WORST_FIRST = (
    Verdict.ERROR, Verdict.TIMEOUT, Verdict.FAIL, Verdict.STALE_WAIVER, Verdict.DEVIATION, Verdict.WAIVED, Verdict.OPEN, Verdict.PASS,
    Verdict.UNSUPPORTED,
)  # fmt: skip
#: Characters of a page's name; file systems take 255 bytes.
MOST_NAME = 120
#: A result of this age, in days, is shown in grey.
OLD_DAYS = 90


@dataclass(frozen=True, slots=True)
class Cell:
    """What one implementation does in one column; the verdict is the worst of its requirements."""

    verdict: Verdict
    #: Supported requirements, and those that neither pass nor are open.
    asked: int
    failing: int
    #: The profile that it is bit-identical to, or nearest to; empty where there is none.
    profile: str
    #: How it stands to that profile, in words.
    words: str
    #: The same for each operation.
    operations: Mapping[str, tuple[Verdict, int, int]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One result: an implementation of one version, on one device."""

    document: Mapping[str, Any]
    report: Report
    #: The file that it came from, as it was given.
    source: str
    #: Whether it was made by the vectors that are installed.
    current: bool
    about: str = ""
    #: Of an example: its file in the repository.
    file: str = ""
    #: What its variables are set to, before a command; empty for none.
    variables: str = ""

    @property
    def name(self) -> str:
        """The target's name."""
        return str(self.report.target["name"])

    @property
    def version(self) -> str:
        """The target's version, without the device that some name behind it."""
        return str(self.report.target["version"]).partition(", ")[0]

    @property
    def device(self) -> str:
        """The GPU that it ran on; CPU where none is named."""
        return str(self.report.environment.get("device") or str(self.report.target["version"]).partition(", ")[2] or "CPU")

    @property
    def date(self) -> str:
        """The day on which it was judged, or nothing."""
        return str(self.report.environment.get("time", ""))[:10]

    @property
    def identity(self) -> tuple[str, str, str]:
        """What no two entries of a site have in common."""
        return self.name, self.version, self.device

    @property
    def release(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"

    @property
    def slug(self) -> str:
        """The name of its page and of its file, which no other identity has, on file systems without case neither."""
        parts = (self.name, self.version, *([] if self.device == "CPU" else [self.device]))
        name = slug(*parts)
        if name == "-".join(parts) == name.lower() and "-" not in self.version and len(name) <= MOST_NAME and self.device == "CPU":
            return name
        return f"{name[:MOST_NAME].rstrip('-')}-{hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:8]}"


def slug(*parts: str) -> str:
    """A file name of some texts."""
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-") for part in parts)


def make_entry(document: Mapping[str, Any], *, source: str, current: bool, **names: str) -> Entry:
    """An entry of a result's JSON; names: its `about`, `file` and `variables`.

    Raises ValueError for what is no result.
    """
    cleaned = clean(dict(document))
    return Entry(document=cleaned, report=read_report(cleaned), source=source, current=current, **names)


def age(entry: Entry) -> tuple[tuple[int, ...], str]:
    """By this, results of one implementation are in the order of its releases, then of their dates."""
    parts = tuple(int(part) if part.isdecimal() else 0 for part in entry.version.replace("-", ".").split("."))
    return parts, str(entry.report.environment.get("time", ""))


def is_current(document: Mapping[str, Any], digests: Collection[str]) -> bool:
    """Whether a document names vectors of these digests; one that names none is no result, which `make_entry` says."""
    suite = document.get("suite")
    return isinstance(suite, Mapping) and suite.get("vectors") in digests


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that a reader wants to see first."""
    found = set(verdicts)
    return next((v for v in _WORST_FIRST if v in found), Verdict.UNSUPPORTED)


def find_column(fmt: str) -> str:
    """The column of the matrix in which a requirement's format is counted."""
    if fmt in BLOCKS:
        return fmt
    if fmt in ELEMENTS or fmt in SCALES:
        return ELEMENTS_COLUMN
    return fmt if is_pair(fmt) else LAYOUTS_COLUMN


def is_pair(fmt: str) -> bool:
    """Whether a requirement's format is that of a product: one of either side."""
    return "@" in fmt


def list_cells(entry: Entry) -> dict[str, Cell]:
    """A cell for each column in which the implementation supports anything."""
    members: dict[str, list[Requirement]] = {}
    for requirement in entry.report.requirements:
        members.setdefault(find_column(requirement.format), []).append(requirement)
    results = {result.format: result for result in entry.report.formats}
    cells = {column: _make_cell(asked, results.get(column)) for column, asked in members.items()}
    return {column: cell for column, cell in cells.items() if cell.asked}


def _make_cell(requirements: Sequence[Requirement], result: FormatResult | None) -> Cell:
    operations: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        operations.setdefault(requirement.operation, []).append(requirement)
    verdict, asked, failing = _count(requirements)
    profile, words = "", ""
    if result is not None:
        conclusion = conclude(result, requirements)
        words = conclusion.text
        compared = conclusion.stand not in (Stand.UNSUPPORTED, Stand.SILENT)
        profile = conclusion.profile if compared else ""
        if compared and conclusion.stand is not Stand.CONFORMS and not conclusion.only_dequantize:
            profile = next(iter(result.identical_to), profile)
    return Cell(
        verdict=verdict, asked=asked, failing=failing, profile=profile, words=words,
        operations={name: _count(members) for name, members in operations.items()},
    )  # fmt: skip


def _count(requirements: Sequence[Requirement]) -> tuple[Verdict, int, int]:
    supported = [r for r in requirements if r.verdict is not Verdict.UNSUPPORTED]
    bad = [r for r in supported if r.verdict not in (Verdict.PASS, Verdict.OPEN, Verdict.WAIVED)]
    return worst(r.verdict for r in requirements), len(supported), len(bad)


@dataclass(frozen=True, slots=True)
class Change:
    """A requirement whose verdict is another in a later version."""

    requirement: str
    earlier: Verdict
    later: Verdict
    #: The smallest failing case of the later result, or of the earlier where the later passes.
    case: str


def list_changes(earlier: Entry, later: Entry) -> list[Change]:
    """What changed between two results of one implementation, requirement by requirement; what is worst now first."""
    before = {r.id: r for r in earlier.report.requirements}
    changes = []
    for requirement in later.report.requirements:
        old = before.get(requirement.id)
        if old is None or old.verdict is requirement.verdict:
            continue
        shown = requirement.first or old.first
        changes.append(Change(requirement.id, old.verdict, requirement.verdict, "" if shown is None else shown.case))
    return sorted(changes, key=lambda change: _WORST_FIRST.index(change.later))


def sum_up(changes: Iterable[Change]) -> str:
    """How many verdicts became which, what is worst now first."""
    counts = Counter((change.earlier.value, change.later.value) for change in changes)
    return ", ".join(f"{count} from {earlier} to {later}" for (earlier, later), count in counts.items())
