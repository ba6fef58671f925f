"""Files of layout cases: items are numbered by a recipe, runs of equal bytes are written short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from mxspec_vectors.compact.groups import Case, Stored, check_recipe, flatten, group, join, put_recipe, rest_of, shared_of
from mxspec_vectors.document import Document, VectorError
from mxspec_vectors.hex_runs import shorten_runs, write_out_runs
from mxspec_vectors.recipes import number_items


def _make_items(document: Mapping[str, Any], shape: Sequence[int], recipe: Sequence[Any]) -> dict[str, str]:
    """The items of every part, numbered."""
    name, plane = recipe
    if name != "digits":
        raise VectorError(f"unknown recipe {name!r}; known is digits")
    made = {}
    for part in document["parts"]:
        count = prod(shape[:-1]) * (shape[-1] // part["one_for_columns"])
        items = number_items(count, document["recipes"]["digits"][part["part"]], None if plane == "scrambled" else plane)
        made[part["part"]] = "".join(f"{i:x}" for i in items.tolist()) if part["bits"] <= 4 else items.tobytes().hex()
    return made


def pack_layout(document: Document) -> Stored:
    """The JSON object of a layout document.

    Raises VectorError where a recipe does not give a case's items.
    """

    def rest(case: Case) -> Case:
        given = rest_of(case, "expect", "recipe")
        if "recipe" in case:
            given = put_recipe(case, given, _make_items(document, case["shape"], case["recipe"]))
        return {**given, "data": shorten_runs(case["expect"][0]["data"])}

    return {
        **{key: value for key, value in document.items() if key not in ("masks", "flags", "cases")},
        "masks": {shape: shorten_runs(mask) for shape, mask in document["masks"].items()},
        "flags": document["flags"],
        "groups": group((shared_of(c), rest(c)) for c in document["cases"]),
    }


def expand_layout(stored: Stored) -> Document:
    """The document of a layout file.

    Raises VectorError where a recipe gives items that are not those of the id.
    """
    cases = []
    for shared, case in flatten(stored):
        made = _make_items(stored, case["shape"], case["recipe"]) if "recipe" in case else {}
        given = {key: value for key, value in case.items() if key != "data"}
        whole = join(shared, given, **made, expect=[{"data": write_out_runs(case["data"])}])
        check_recipe(stored, whole)
        cases.append(whole)
    return {
        **{key: value for key, value in stored.items() if key not in ("masks", "flags", "groups")},
        "masks": {shape: write_out_runs(mask) for shape, mask in stored["masks"].items()},
        "flags": stored["flags"],
        "cases": cases,
    }
