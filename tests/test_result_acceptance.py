"""The quick acceptance of documents: it never takes what jsonschema refuses, and takes what is committed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from mxspec_conformance.atlas.shapes import SHAPES
from mxspec_conformance.results.acceptance import compile_schema
from mxspec_conformance.results.report import load_result_schema, read_report

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = {"result": load_result_schema(), **SHAPES}
RESULT = next(c for c in json.loads((ROOT / "reports/peers/light.json").read_text("ascii"))["checks"] if c["target"]["name"] == "gguf")
DOCUMENTS = {
    "result": RESULT,
    **{n: json.loads((ROOT / f"reports/atlas/{n}.json").read_text("ascii")) for n in ("explorer", "threads", "model", "transformer")},
}
#: Values that one place of a document may get.
OTHERS: tuple[Any, ...] = (None, True, 1, 1.0, -1, "", "x", [], {}, [None], {"x": 1})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_committed_documents_are_accepted(name: str) -> None:
    assert compile_schema(SCHEMAS[name])(DOCUMENTS[name])


def list_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths into a document; of a list its first three members."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, member in inner:
        found += list_places(member, (*path, key))
    return found


PLACES = list_places(RESULT)
ACCEPT, JUDGE = compile_schema(load_result_schema()), jsonschema.Draft202012Validator(load_result_schema())


@settings(max_examples=25, deadline=None)
@given(place=st.sampled_from(PLACES), other=st.sampled_from(OTHERS), remove=st.booleans())
def test_what_jsonschema_refuses_is_never_accepted(place: tuple[Any, ...], other: Any, remove: bool) -> None:
    document = {**RESULT, "requirements": RESULT["requirements"][:3]}
    if place[:1] == ("requirements",) or len(place) == 1:
        document = copy.deepcopy(document)
    else:
        document[place[0]] = copy.deepcopy(document[place[0]])
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if remove and isinstance(holder, dict):
        del holder[place[-1]]
    else:
        holder[place[-1]] = other
    if ACCEPT(document):
        assert JUDGE.is_valid(document)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 3}, 3, 4),
        ({"type": ["number", "null"], "minimum": 1}, None, 0.5),
        ({"enum": [1, "a"]}, 1, True),
        ({"const": "x"}, "x", "y"),
        ({"type": "string", "pattern": "^[0-9]+$"}, "12", "1a"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 2}, ["a"], ["a", "b", "c"]),
        (
            {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": False},
            {"a": None},
            {"a": None, "b": 1},
        ),
        ({"type": ["object", "null"], "required": ["a"]}, {"a": 1}, {}),
        ({"type": "boolean"}, False, 0),
    ],
)
def test_each_keyword(schema: dict[str, Any], good: Any, bad: Any) -> None:
    assert compile_schema(schema)(good)
    assert not compile_schema(schema)(bad)


def test_a_keyword_that_it_does_not_know_accepts_nothing() -> None:
    assert not compile_schema({"type": "string", "format": "date"})("2026-01-01")
    assert not compile_schema({"type": "object", "properties": {"a": {"multipleOf": 2}}})({"a": 4})


def test_a_refusal_still_names_the_place() -> None:
    broken = copy.deepcopy(RESULT)
    broken["requirements"][1]["failing"] = -1
    with pytest.raises(ValueError, match=r"\$\.requirements\[1\]\.failing"):
        read_report(broken)
