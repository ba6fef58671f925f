"""What all kinds of files have in common: cases in groups that share topic and flags, and recipes held to ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from mxspec_vectors.document import Document, VectorError, case_id, identity_of

Case = dict[str, Any]
#: The JSON object of a file.
Stored = dict[str, Any]

#: What the cases of a group have in common.
_SHARED = ("topic", "flags", "tensor_scale")


def group(cases: Iterable[tuple[Case, Case]]) -> list[Stored]:
    """Groups of (what a group shares, the rest of a case): one for each run of cases that share the same."""
    return [{**shared, "cases": [rest for _, rest in members]} for shared, members in groupby(cases, key=lambda c: c[0])]


def shared_of(case: Case) -> Case:
    """What a case has in common with the others of its group."""
    return {key: case[key] for key in _SHARED if key in case}


def rest_of(case: Case, *without: str) -> Case:
    """What is a case's own, without these keys."""
    return {key: value for key, value in case.items() if key not in (*_SHARED, *without)}


def flatten(stored: Stored) -> Iterator[tuple[Case, Case]]:
    """(what its group shares, the case as stored) of every case."""
    for group in stored["groups"]:
        shared = {key: value for key, value in group.items() if key != "cases"}
        yield from ((shared, case) for case in group["cases"])


def join(shared: Case, case: Case, **more: Any) -> Case:
    """A case written out: its id, what its group shares, its own parameters, `more`, and its recipe."""
    recipe = {"recipe": case["recipe"]} if "recipe" in case else {}
    inner = {key: value for key, value in case.items() if key not in ("id", "expect", "recipe")}
    return {"id": case["id"], **shared, **inner, **more, **recipe}


def check_recipe(document: Document, case: Case) -> None:
    """Hold the inputs that a recipe gave to the digest in the case's id; a case without a recipe stores its inputs.

    Raises VectorError where they differ.
    """
    if "recipe" not in case:
        return
    found = case_id(case["id"][:-11], identity_of(document, case))
    if found != case["id"]:
        recipe = " ".join(map(str, case["recipe"]))
        raise VectorError(f"case {case['id']}: recipe `{recipe}` gives inputs of another digest, {found[-10:]}")


def put_recipe(case: Case, rest: Case, made: Mapping[str, Any]) -> Case:
    """The rest of a case with its recipe in place of the inputs that the recipe makes.

    Raises VectorError where the recipe does not give the case's inputs.
    """
    for key, value in made.items():
        if case[key] != value:
            raise VectorError(f"case {case['id']}: recipe {case['recipe']} does not give its {key}")
    return {**{key: value for key, value in rest.items() if key not in made}, "recipe": case["recipe"]}
