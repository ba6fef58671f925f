"""All entries of the set, by key."""

from __future__ import annotations

from tests.corpora.calls import bugs_axes, bugs_layouts, bugs_memory, bugs_numbers, bugs_pairs, bugs_sizes, bugs_state, bugs_values, right
from tests.corpora.calls.catalogue import Entry

MODULES = (bugs_sizes, bugs_numbers, bugs_axes, bugs_memory, bugs_state, bugs_layouts, bugs_values, bugs_pairs)

BUGS: tuple[Entry, ...] = tuple(e for module in MODULES for e in module.BUGS)
RIGHT: tuple[Entry, ...] = right.RIGHT
ENTRIES: dict[str, Entry] = {e.key: e for e in (*BUGS, *RIGHT)}
