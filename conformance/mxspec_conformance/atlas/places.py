"""Where a failing case is drawn: on the first page that has it. Half of all cases are those of another version or device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mxspec_conformance.atlas.entries import Entry
from mxspec_conformance.render.view import Deviation
from mxspec_conformance.results.report import Requirement

#: What cases have in common that need to be drawn once -> the page, and the anchor there.
Places = dict[tuple[str, ...], tuple[Entry, str]]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A requirement whose smallest case is drawn at another place: on which page, and there at which anchor."""

    id: str
    anchor: str
    where: Entry
    place: str

    @property
    def slug(self) -> str:
        """The page's name."""
        return self.where.slug


def place_cases(entry: Entry, deviations: Sequence[Deviation], places: Places) -> tuple[set[str], list[Elsewhere]]:
    """Anchors of what an entry's page draws itself, and what is drawn already; `places` holds it, and takes what is new."""
    found = {d.anchor: places.setdefault(_key_of(d.requirement), (entry, d.anchor)) for d in deviations}
    drawn = {anchor for anchor, (where, place) in found.items() if where is entry and place == anchor}
    return drawn, [Elsewhere(d.requirement.id, d.anchor, *found[d.anchor]) for d in deviations if d.anchor not in drawn]


def _key_of(requirement: Requirement) -> tuple[str, ...]:
    """Equal for requirements that are not met in the same way: the same case and the same answer, in any format where no code is shown."""
    first = requirement.first
    if first is None:
        return requirement.id, requirement.note
    fmt = requirement.format if "x" in first.given or "code" in first.given else ""
    return requirement.operation, fmt, requirement.topic, repr((first.given, first.expected, first.returned))
