"""Files of quantize cases: one block has no shape, a recipe stands for inputs, a table says which profile gives which answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mxspec.formats import get_block
from mxspec_vectors.compact.groups import Case, Stored, check_recipe, flatten, group, join, put_recipe, rest_of, shared_of
from mxspec_vectors.document import Document, VectorError
from mxspec_vectors.profile_table import check_table, list_profiles_of, make_table
from mxspec_vectors.recipes import BLOCK_RECIPES


def pack_quantize(document: Document) -> Stored:
    """The JSON object of a quantize document.

    Raises VectorError where a recipe does not give a case's x, or a case has more answers than a table holds.
    """
    usual, make = [1, get_block(document["format"]).k], _open_recipes(document)

    def rest(case: Case) -> Case:
        given = rest_of(case, "expect", "recipe", *(["shape"] if case["shape"] == usual else []))
        if "recipe" in case:
            given = put_recipe(case, given, make(case["recipe"], usual[1]))
        return {**given, "expect": [entry["any"] for entry in case["expect"]]}

    return {
        **{key: value for key, value in document.items() if key not in ("profiles", "flags", "cases")},
        "k": usual[1],
        "profiles": make_table(document["cases"], document["profiles"]),
        "flags": document["flags"],
        "groups": group((shared_of(c), rest(c)) for c in document["cases"]),
    }


def expand_quantize(stored: Stored) -> Document:
    """The document of a quantize file.

    Raises VectorError where a recipe gives inputs that are not those of the id, or the profiles' symbols do not fit.
    """
    usual, table = [1, stored["k"]], stored["profiles"]
    check_table(table, sum(len(g["cases"]) for g in stored["groups"]))
    document: Document = {
        **{key: value for key, value in stored.items() if key not in ("k", "profiles", "flags", "groups")},
        "profiles": list(table),
        "flags": stored["flags"],
    }
    cases, make = [], _open_recipes(stored)
    for number, (shared, case) in enumerate(flatten(stored)):
        inputs = make(case["recipe"], usual[1]) if "recipe" in case else {}
        whole = join({**shared, "shape": usual}, case, **inputs)
        names = list_profiles_of(table, number, len(case["expect"]))
        whole["expect"] = [{"profiles": n, "any": rows} for n, rows in zip(names, case["expect"], strict=True)]
        check_recipe(stored, whole)
        cases.append(whole)
    return {**document, "cases": cases}


def _open_recipes(document: Mapping[str, Any]) -> Callable[[Sequence[Any], int], dict[str, str]]:
    """(recipe of a case, lanes) -> the inputs that it gives."""
    makers = {name: BLOCK_RECIPES[name].from_dict(entry) for name, entry in document.get("recipes", {}).items()}

    def make(recipe: Sequence[Any], k: int) -> dict[str, str]:
        name, number = recipe
        if name not in makers:
            raise VectorError(f"unknown recipe {name!r}; the file has {', '.join(makers) or 'none'}")
        return {"x": "".join(f"{b:08x}" for b in makers[name].block(number, k))}

    return make
