"""Which profile gives which of a case's distinct answers: one line for each profile, one symbol for each case.

Symbols are 0 to 9, a to z, A to Z, for the first to the 62nd distinct answer of a case; `-` stands where the profile says
nothing of the case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mxspec_vectors.document import VectorError

SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NONE = "-"


def make_table(cases: Sequence[Mapping[str, Any]], profiles: Sequence[str]) -> dict[str, str]:
    """Profile -> a symbol for each case, from the `expect` entries of cases.

    Raises VectorError for a case with more answers than there are symbols.
    """
    columns = []
    for case in cases:
        if len(case["expect"]) > len(SYMBOLS):
            raise VectorError(f"{case['id']} has {len(case['expect'])} distinct answers; a table holds {len(SYMBOLS)}")
        pairs = zip(SYMBOLS, case["expect"], strict=False)
        columns.append({name: symbol for symbol, entry in pairs for name in entry["profiles"]})
    return {name: "".join(column.get(name, NONE) for column in columns) for name in profiles}


def list_profiles_of(table: Mapping[str, str], number: int, count: int) -> list[list[str]]:
    """For each of the `count` answers of the case with this number: the profiles that give it.

    Raises VectorError where a symbol has no answer, or an answer no profile.
    """
    found: list[list[str]] = [[] for _ in range(count)]
    for name, symbols in table.items():
        if symbols[number] != NONE:
            answer = SYMBOLS.find(symbols[number])
            if not 0 <= answer < count:
                raise VectorError(f"profile {name}: {symbols[number]!r} stands for no answer of case {number}")
            found[answer].append(name)
    if not all(found):
        raise VectorError(f"case {number}: an answer that no profile gives")
    return found


def check_table(table: Mapping[str, str], count: int) -> None:
    """Raise VectorError where a profile's line has not one symbol for each of `count` cases."""
    for name, symbols in table.items():
        if len(symbols) != count:
            raise VectorError(f"profile {name} has {len(symbols)} symbols for {count} cases")
