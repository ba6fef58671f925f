"""The catalogue of hand-written targets: bugs, right implementations that look odd, and open choices."""

from __future__ import annotations

from functools import cache

from tests.bugs import calls, elements, layouts, no_answer, open_choices, planted, rare, restated, scales, tensor_scales, unusual, values
from tests.bugs.entry import Entry, Fuzzed, Kind

__all__ = ["Entry", "Fuzzed", "Kind", "find", "list_entries"]

MODULES = (
    restated, elements, scales, values, calls, layouts, tensor_scales, no_answer, planted, rare, unusual, open_choices,
)  # fmt: skip


@cache
def _by_id() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for module in MODULES:
        for entry in module.ENTRIES:
            if entry.id in found:
                raise ValueError(f"two entries are named {entry.id!r}")
            found[entry.id] = entry
    return found


def list_entries(kind: Kind | None = None) -> list[Entry]:
    """All entries, or those of a kind."""
    return [entry for entry in _by_id().values() if kind in (None, entry.kind)]


def find(name: str) -> Entry:
    """One entry; raises KeyError where there is none of that name."""
    return _by_id()[name]
