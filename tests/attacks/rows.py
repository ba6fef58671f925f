"""All attacks, and that no two have one name."""

from __future__ import annotations

from collections import Counter

from tests.attacks import files, programs, python_targets, streams

ATTACKS = (*python_targets.ATTACKS, *programs.ATTACKS, *files.ATTACKS, *streams.ATTACKS)
_TWICE = [name for name, count in Counter(a.id for a in ATTACKS).items() if count > 1]
assert not _TWICE, _TWICE
