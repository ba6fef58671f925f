"""Measurements of other commands as tables: every list of rows with named fields becomes one, in the order of the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Rows of one table that are drawn; the rest is counted.
MOST_ROWS = 120
#: The text of a document in addition to its tables, by key.
_FACTS = ("what", "about", "note", "command", "time", "seconds", "cpu_seconds", "python", "numpy", "mxspec", "vectors", "commit")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its title, the columns, and the rows as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: Columns that hold numbers alone.
    numeric: frozenset[str]
    #: Rows that are left out.
    more: int


def list_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a document says of itself: how it was made, and when."""
    environment = document.get("environment")
    given = {**(environment if isinstance(environment, Mapping) else {}), **document}
    return [(key, _as_text(given[key])) for key in _FACTS if isinstance(given.get(key), (str, int, float))]


def list_tables(document: Mapping[str, Any]) -> Iterator[Table]:
    """The tables of a document, those of inner documents included."""
    yield from _walk(document, ())


def _walk(value: Mapping[str, Any], path: Sequence[str]) -> Iterator[Table]:
    for key, inner in value.items():
        if key == "uses":  # digests
            continue
        if isinstance(inner, list) and inner and all(isinstance(row, Mapping) for row in inner):
            table = _make_table(" ".join((*path, key)).replace("_", " "), inner)
            if table.columns:
                yield table
        elif isinstance(inner, Mapping):
            yield from _walk(inner, (*path, key))


def _make_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    flat = [dict(_flatten(row)) for row in rows]
    columns = tuple(dict.fromkeys(name for row in flat for name in row))
    numeric = frozenset(c for c in columns if all(isinstance(row.get(c), (int, float, type(None))) for row in flat))
    texts = tuple(tuple(_as_text(row.get(c)) for c in columns) for row in flat[:MOST_ROWS])
    return Table(title, columns, texts, numeric, max(0, len(rows) - MOST_ROWS))


def _flatten(row: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        name = f"{head}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}, ")
        elif isinstance(value, list):
            if all(isinstance(x, (str, int, float)) for x in value):
                yield name, ", ".join(map(_as_text, value))
        else:
            yield name, value


def _as_text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
