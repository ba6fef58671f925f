"""What the atlas shows of a requirement: every implementation's verdict, and what the requirement finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxspec_conformance.atlas.entries import Entry, find_column
from mxspec_conformance.results.report import Requirement, Verdict
from mxspec_vectors.topics import TOPICS, topic_text

#: Implementations with the same verdicts, and these by format.
Row = tuple[tuple[Entry, ...], tuple[Requirement, ...]]


@dataclass(frozen=True, slots=True)
class RequirementPage:
    """An operation's topic."""

    operation: str
    topic: str
    text: str
    #: Each entry that does not meet it in some format, with its verdicts, and those that do, where they do so in the same formats together.
    unmet: tuple[Row, ...]
    met: tuple[Row, ...]
    #: (id, what) of mutants that cases of this topic kill.
    mutants: tuple[tuple[str, str], ...]

    @property
    def slug(self) -> str:
        """The name of its page."""
        return f"{self.operation}-{self.topic}"

    @property
    def failing(self) -> int:
        """Implementations that fail it or deviate in some format."""
        bad = (Verdict.FAIL, Verdict.DEVIATION, Verdict.ERROR, Verdict.TIMEOUT)
        return sum(any(r.verdict in bad for r in cells) for _, cells in self.unmet)

    @property
    def entries(self) -> int:
        """Implementations that were judged by it."""
        return sum(len(entries) for entries, _ in (*self.unmet, *self.met))


def list_requirements(entries: Sequence[Entry], kills: Mapping[str, Any] | None) -> list[RequirementPage]:
    """A page for each operation and topic that some implementation was judged by."""
    found: dict[tuple[str, str], dict[str, dict[str, Requirement]]] = defaultdict(lambda: defaultdict(dict))
    for entry in entries:
        for requirement in entry.report.requirements:
            if requirement.verdict is not Verdict.UNSUPPORTED:
                found[requirement.operation, requirement.topic][entry.slug][requirement.format] = requirement
    by_slug = {entry.slug: entry for entry in entries}
    killed = _list_killed(kills)
    order = {topic: place for place, topic in enumerate(TOPICS)}
    pages = []
    for (operation, topic), members in sorted(found.items(), key=lambda item: (item[0][0], order.get(item[0][1], 99))):
        unmet: list[Row] = []
        met: dict[tuple[str, ...], Row] = {}
        for slug, row in members.items():
            formats = tuple(sorted(row, key=lambda f: (find_column(f) != f, f)))
            cells = tuple(row[fmt] for fmt in formats)
            if all(r.verdict is Verdict.PASS for r in cells):
                entries = met[formats][0] if formats in met else ()
                met[formats] = (*entries, by_slug[slug]), cells
            else:
                unmet.append(((by_slug[slug],), cells))
        text = topic_text(topic, operation)
        pages.append(RequirementPage(operation, topic, text, tuple(unmet), tuple(met.values()), killed.get((operation, topic), ())))
    return pages


def _list_killed(kills: Mapping[str, Any] | None) -> dict[tuple[str, str], tuple[tuple[str, str], ...]]:
    killed: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for mutant in () if kills is None else kills["mutants"]:
        for instance in mutant["instances"]:
            for topic in instance["topics"]:
                killed[instance["operation"], topic][mutant["id"]] = mutant["what"]
    return {key: tuple(sorted(found.items())) for key, found in killed.items()}
