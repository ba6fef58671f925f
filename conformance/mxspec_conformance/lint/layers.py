"""Which entry of a configuration speaks of a layer, where it has several: `config_groups` of compressed-tensors.

A target is a layer's name, `re:` and a pattern that its name begins with, or the name of a class of modules. Names go before
patterns, patterns before classes. Source: compressed-tensors 0.20, utils/match.py. Patterns come from files of unknown origin: what
is read of them (characters, `.`, `.*`, alternatives of plain words, `$`) takes time in proportion to pattern and name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

_PATTERN = "re:"
_TOKEN = re.compile(r"\\(?P<escaped>[^A-Za-z0-9])|(?P<any>\.\*)|(?P<one>\.)|\((?:\?:)?(?P<words>[\w|-]+)\)|(?P<plain>[\w-])|(?P<end>\$$)")


class Match(IntEnum):
    """How a target names a layer; the largest counts."""

    NONE = 0
    CLASS = 1
    PATTERN = 2
    NAME = 3


def find_entry(groups: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The entry of `config_groups` that speaks of a layer; None where none does, or where that is unknown."""
    best: tuple[Match, Mapping[str, Any] | None] = (Match.NONE, None)
    for entry in groups.values():
        targets = entry.get("targets") if isinstance(entry, Mapping) else None
        if not isinstance(targets, list):
            return None
        found = [match_target(t, name) for t in targets]
        if any(f is None for f in found):
            return None
        most = max((f for f in found if f is not None), default=Match.NONE)
        if most > best[0]:
            best = (most, entry)
    return best[1]


def is_named(targets: object, name: str) -> bool:
    """Whether a list such as `ignore` names a layer, by its name or by a pattern."""
    if not isinstance(targets, Sequence) or isinstance(targets, str):
        return False
    return any((match_target(t, name) or Match.NONE) > Match.CLASS for t in targets)


def match_target(target: object, name: str) -> Match | None:
    """How a target names a layer; None for a pattern that is not read."""
    if not isinstance(target, str):
        return None
    if target == name:
        return Match.NAME
    if not target.startswith(_PATTERN):
        return Match.CLASS if target.isidentifier() and target[:1].isupper() else Match.NONE
    tokens = _read_pattern(target.removeprefix(_PATTERN).removeprefix("^"))
    if tokens is None:
        return None
    return Match.PATTERN if _begins(tokens, name) else Match.NONE


def _read_pattern(text: str) -> list[tuple[str, tuple[str, ...]]] | None:
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        kind = str(found.lastgroup)
        tokens.append((kind, tuple(found[kind].split("|"))))
        at = found.end()
        if text[at : at + 1] in ("*", "+", "?", "{"):  # repeats of anything else than a dot
            return None
    return tokens


def _begins(tokens: Sequence[tuple[str, tuple[str, ...]]], name: str) -> bool:
    """Whether a name begins with what a pattern says: the places that can be reached, token by token."""
    places = {0}
    for kind, words in tokens:
        if kind == "any":
            places = set(range(min(places), len(name) + 1))
        elif kind == "one":
            places = {p + 1 for p in places if p < len(name)}
        elif kind == "end":
            places &= {len(name)}
        else:
            places = {p + len(w) for p in places for w in words if name.startswith(w, p)}
        if not places:
            return False
    return True
