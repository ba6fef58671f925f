"""Files of scale cases: each profile's scale rule is a table of steps, which gives the answers and most of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mxspec_vectors.compact.groups import Case, Stored, check_recipe, flatten, group, join, put_recipe, rest_of
from mxspec_vectors.document import Document, VectorError
from mxspec_vectors.recipes import STEP_CASE, neighbours_of
from mxspec_vectors.scale_table import REFUSED, ScaleTable

_LARGEST_FINITE = 0x7F7FFFFF


def read_scale_tables(document: Mapping[str, Any]) -> list[ScaleTable]:
    """The scale tables of a scale document.

    Raises VectorError where one does not have the digest that the file says.
    """
    return [ScaleTable.from_dict(entry, f"table {i}") for i, entry in enumerate(document["tables"])]


def make_step_maxima(document: Mapping[str, Any], tables: Sequence[ScaleTable], tensor: int, recipe: Sequence[Any]) -> str:
    """The maxima of a case of steps as hex."""
    name, table, start, count, part = recipe
    if name != "steps":
        raise VectorError(f"unknown recipe {name!r}; known is steps")
    entry = document["tensor_scales"][tensor]
    limit = _LARGEST_FINITE if entry is None else min(int(entry["amax"], 16), _LARGEST_FINITE)
    points = neighbours_of(tables[table].first[start : start + count].tolist(), limit)
    return "".join(f"{b:08x}" for b in points[part * STEP_CASE : (part + 1) * STEP_CASE])


def look_up_scales(document: Mapping[str, Any], tables: Sequence[ScaleTable], tensor: int, amax: str) -> list[Case]:
    """The `expect` entries of maxima under a tensor scale: each distinct answer with the profiles that give it."""
    words = np.frombuffer(bytes.fromhex(amax), ">u4")
    found: dict[str, list[str]] = {}
    texts: dict[int, str | None] = {}
    for name in document["profiles"]:
        number = document["tables_of"][name][tensor]
        if number is None:
            continue
        if number not in texts:
            answers = tables[number].at(words)
            texts[number] = None if (answers == REFUSED).any() else answers.astype(np.uint8).tobytes().hex()
        text = texts[number]
        if text is not None:
            found.setdefault(text, []).append(name)
    return [{"profiles": names, "scale": text} for text, names in found.items()]


def _by_profile(expect: Sequence[Case]) -> dict[str, str]:
    """Profile -> scale bytes."""
    return {name: entry["scale"] for entry in expect for name in entry["profiles"]}


def pack_scale(document: Document) -> Stored:
    """The JSON object of a scale document.

    Raises VectorError where the tables do not give a case's answers, or a recipe not its maxima.
    """
    tables, settings = read_scale_tables(document), document["tensor_scales"]

    def split(case: Case) -> tuple[Case, Case]:
        tensor = settings.index(case.get("tensor_scale"))
        given = rest_of(case, "expect", "recipe")
        if _by_profile(case["expect"]) != _by_profile(look_up_scales(document, tables, tensor, case["amax"])):
            raise VectorError(f"case {case['id']}: the tables do not give its answers")
        if "recipe" in case:
            given = put_recipe(case, given, {"amax": make_step_maxima(document, tables, tensor, case["recipe"])})
        given.pop("of", None)
        of = {"of": case["of"]} if "of" in case else {}
        return {"topic": case["topic"], "flags": case["flags"], "tensor": tensor, **of}, given

    keys = ("schema", "operation", "format", "licence", "tensor_scales")
    return {
        **{key: document[key] for key in keys},
        "profiles": {name: document["tables_of"][name] for name in document["profiles"]},
        "tables": document["tables"],
        "flags": document["flags"],
        "exhaustive": document["exhaustive"],
        "groups": group(split(c) for c in document["cases"]),
    }


def expand_scale(stored: Stored) -> Document:
    """The document of a scale file.

    Raises VectorError where a table has another digest, or a recipe gives maxima that are not those of the id.
    """
    keys = ("schema", "operation", "format", "licence", "tensor_scales")
    document: Document = {
        **{key: stored[key] for key in keys}, "profiles": list(stored["profiles"]), "tables_of": stored["profiles"],
        "tables": stored["tables"], "flags": stored["flags"], "exhaustive": stored["exhaustive"],
    }  # fmt: skip
    tables, cases = read_scale_tables(document), []
    for shared, case in flatten(stored):
        tensor = shared["tensor"]
        setting = stored["tensor_scales"][tensor]
        given: Case = {key: shared[key] for key in ("topic", "flags", "of") if key in shared}
        if setting is not None:
            given["tensor_scale"] = setting
        amax = make_step_maxima(document, tables, tensor, case["recipe"]) if "recipe" in case else case["amax"]
        whole = join(given, case, amax=amax, expect=look_up_scales(document, tables, tensor, amax))
        check_recipe(stored, whole)
        cases.append(whole)
    return {**document, "cases": cases}
