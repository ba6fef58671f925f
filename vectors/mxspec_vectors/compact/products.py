"""Files of products: a recipe stands for operands, a table says which class of accumulations allows which outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mxspec_vectors.compact.groups import Case, Stored, check_recipe, flatten, group, join, put_recipe, rest_of, shared_of
from mxspec_vectors.document import Document
from mxspec_vectors.profile_table import check_table, list_profiles_of, make_table
from mxspec_vectors.recipes_dot import Side, make_operands


def _make(document: Mapping[str, Any], case: Case) -> dict[str, str]:
    sides = {which: Side.from_dict(document["sides"][which]) for which in "ab"}
    return make_operands(sides, document["recipes"]["sides"], case["shape"], case["recipe"])


def pack_dot(document: Document) -> Stored:
    """The JSON object of a document of products.

    Raises VectorError where a recipe does not give a case's operands.
    """

    def rest(case: Case) -> Case:
        given = rest_of(case, "expect", "recipe")
        if "recipe" in case:
            given = put_recipe(case, given, _make(document, case))
        return {**given, "expect": [_ends(entry) for entry in case["expect"]]}

    return {
        **{key: value for key, value in document.items() if key not in ("profiles", "flags", "cases")},
        "profiles": make_table(document["cases"], document["profiles"]),
        "flags": document["flags"],
        "groups": group((shared_of(c), rest(c)) for c in document["cases"]),
    }


def _ends(entry: Mapping[str, Any]) -> list[str]:
    """[low, high] of all outputs; [low] where both are one."""
    return [entry["low"]] if entry["low"] == entry["high"] else [entry["low"], entry["high"]]


def expand_dot(stored: Stored) -> Document:
    """The document of a file of products.

    Raises VectorError where a recipe gives operands that are not those of the id, or the classes' symbols do not fit.
    """
    table = stored["profiles"]
    check_table(table, sum(len(g["cases"]) for g in stored["groups"]))
    cases = []
    for number, (shared, case) in enumerate(flatten(stored)):
        whole = join(shared, case, **(_make(stored, case) if "recipe" in case else {}))
        names = list_profiles_of(table, number, len(case["expect"]))
        whole["expect"] = [{"profiles": n, "low": ends[0], "high": ends[-1]} for n, ends in zip(names, case["expect"], strict=True)]
        check_recipe(stored, whole)
        cases.append(whole)
    return {
        **{key: value for key, value in stored.items() if key not in ("profiles", "flags", "groups")},
        "profiles": list(table),
        "flags": stored["flags"],
        "cases": cases,
    }
