"""The check of documents by their schemas: it says what jsonschema says, and names the place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from mxspec_conformance.atlas.shapes import SHAPES
from mxspec_conformance.results.report import load_result_schema, read_report
from mxspec_conformance.transports.description import load_protocol_schema
from mxspec_lab.probe import SHAPE as PROBE
from mxspec_vectors.files import OPERATIONS, vectors_root
from mxspec_vectors.schemas import compile_schema, first_violation
from mxspec_vectors.verify import load_schema

ROOT = Path(__file__).resolve().parents[1]


def read(path: Path) -> Any:
    """A committed document."""
    return json.loads(path.read_text("ascii"))


def list_schemas() -> dict[str, Any]:
    """Name -> every schema by which the project reads a document."""
    protocol = load_protocol_schema()
    parts = {f"protocol {part}": {"$defs": protocol["$defs"], "$ref": f"#/$defs/{part}"} for part in protocol["$defs"]}
    return {
        "result": load_result_schema(),
        **SHAPES,
        **parts,
        "probe": PROBE,
        **{name: load_schema(name) for name in (*OPERATIONS, "index")},
    }


SCHEMAS = list_schemas()
REQUEST = {
    "cmd": "run", "id": "0123456789abcdef.1", "function": "quantize",
    "arguments": {"x": {"dtype": "float32", "shape": [1, 32], "hex": "00" * 128}, "format": "mxfp4", "axis": -1},
}  # fmt: skip
DESCRIPTION = {
    "mxspec": 1, "name": "n", "version": "1", "capabilities": {"functions": {"quantize": ["axis"]}, "formats": ["mxfp4"], "dtypes": ["float32"]},
}  # fmt: skip
DOCUMENTS = {
    "result": next(c for c in read(ROOT / "reports/peers/light.json")["checks"] if c["target"]["name"] == "gguf"),
    **{n: read(ROOT / f"reports/atlas/{n}.json") for n in ("explorer", "threads", "model", "transformer")},
    **{operation: read(sorted((vectors_root() / operation).iterdir())[0]) for operation in OPERATIONS},
    "index": read(vectors_root() / "index.json"),
    "protocol request": REQUEST,
    "protocol description": DESCRIPTION,
}
#: Values that one place of a document may get.
OTHERS: tuple[Any, ...] = (None, True, 1, 1.0, -1, 0.5, 1e30, "", "x", "0" * 9, [], {}, [None], [1, 1], [1, True], {"x": 1}, ["x", ["x"]])


def list_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths into a document; of a list or table its first three members."""
    found = [path] if path else []
    inner = list(value.items())[:20] if isinstance(value, dict) else list(enumerate(value[:3])) if isinstance(value, list) else []
    for key, member in inner:
        found += list_places(member, (*path, key))
    return found


def shorten(value: Any) -> Any:
    """A document with the first three members of each list."""
    if isinstance(value, dict):
        return {key: shorten(inner) for key, inner in value.items()}
    return [shorten(inner) for inner in value[:3]] if isinstance(value, list) else value


SHORT = {name: shorten(document) for name, document in DOCUMENTS.items()}
PLACES = [(name, place) for name, document in SHORT.items() for place in list_places(document)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_keyword_is_known(name: str) -> None:
    check = compile_schema(SCHEMAS[name])
    judge = jsonschema.Draft202012Validator(SCHEMAS[name])
    for value in OTHERS:
        assert (not check(value)) == judge.is_valid(value), value


@pytest.mark.parametrize("name", DOCUMENTS)
def test_committed_documents_are_accepted(name: str) -> None:
    assert compile_schema(SCHEMAS[name])(DOCUMENTS[name]) in ((), [])


@settings(max_examples=60, deadline=None)
@given(where=st.sampled_from(PLACES), other=st.sampled_from(OTHERS), remove=st.booleans())
def test_a_changed_document_is_refused_where_jsonschema_refuses_it(where: tuple[str, tuple[Any, ...]], other: Any, remove: bool) -> None:
    name, place = where
    document = copy.deepcopy(SHORT[name])
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if remove:
        del holder[place[-1]]
    else:
        holder[place[-1]] = other
    ours = compile_schema(SCHEMAS[name])(document)
    theirs = list(jsonschema.Draft202012Validator(SCHEMAS[name]).iter_errors(document))
    assert (not ours) == (not theirs)
    if ours and not any(error.context for error in theirs):  # forms of which one was meant
        paths = {violation.path for violation in ours}
        assert paths <= {tuple(error.absolute_path) for error in theirs}
        # Where members are of a wrong kind, they alone are named.
        assert paths >= {tuple(error.absolute_path) for error in theirs if error.validator != "uniqueItems"}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "words"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 3}, 3, 4, "$: 4 is greater than 3"),
        ({"type": "integer"}, 1.0, True, "$: True is not of type 'integer'"),
        ({"type": ["number", "null"], "minimum": 1}, None, 0.5, "$: 0.5 is less than 1"),
        ({"enum": [1, "a"]}, 1, True, "$: True is not one of 1, 'a'"),
        ({"enum": ["a"]}, "a", ["a"], "$: ['a'] is not 'a'"),
        ({"const": "x"}, "x", "y", "$: 'y' is not 'x'"),
        ({"type": "string", "pattern": "^[0-9]+$"}, "12", "1a", "$: '1a' does not match '^[0-9]+$'"),
        ({"minLength": 1}, "a", "", "$: '' is shorter than 1"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a"], ["a", "b"], "$: ['a', 'b'] has more members than 1"),
        ({"minItems": 1}, [1], [], "$: [] has fewer members than 1"),
        ({"prefixItems": [{"type": "null"}], "items": {"type": "string"}}, [None, "a"], [None, 1], "$[1]: 1 is not of type 'string'"),
        ({"prefixItems": [{"type": "null"}]}, [None, 1], [1], "$[0]: 1 is not of type 'null'"),
        ({"uniqueItems": True}, [1, True, [1], [True]], [[1, {"a": 0}], [1.0, {"a": 0}]], "$: [[1, {'a': 0}], [1.0, {'a': 0}]] names a member twice"),
        ({"contains": {"type": "integer"}}, ["a", 1], ["a"], "$: ['a'] has no member as it is required"),
        (
            {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": False},
            {"a": None},
            {"a": None, "b": 1},
            "$: 'b' is unknown; known are a",
        ),
        ({"additionalProperties": {"type": "null"}}, {"a b": None}, {"a b": 1}, "$['a b']: 1 is not of type 'null'"),
        ({"type": ["object", "null"], "required": ["a"]}, {"a": 1}, {}, "$: 'a' is missing"),
        ({"maxProperties": 1, "minProperties": 1}, {"a": 1}, {}, "$: {} has fewer members than 1"),
        ({"type": "boolean"}, False, 0, "$: 0 is not of type 'boolean'"),
        ({"properties": {"a": False}}, {}, {"a": 1}, "$.a: 1 is not allowed"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, 1, "x", "$: 'x' is not of type 'null'; or 'x' is not of type 'integer'"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}, {"a": 1, "b": 1}, "$: {'a': 1, 'b': 1} fits 2 of the allowed forms; only one may fit"),
        (
            {"oneOf": [{"properties": {"k": {"const": 1}, "v": {"type": "null"}}}, {"required": ["z"]}]},
            {"k": 1, "v": None},
            {"k": 1, "v": 2},
            "$.v: 2 is not of type 'null'",
        ),
        ({"$defs": {"n": {"type": "null"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}, {"a": None}, {"a": 1}, "$.a: 1 is not of type 'null'"),
    ],
)  # fmt: skip
def test_each_keyword(schema: dict[str, Any], good: Any, bad: Any, words: str) -> None:
    check, judge = compile_schema(schema), jsonschema.Draft202012Validator(schema)
    assert first_violation(check, good) is None
    assert judge.is_valid(good)
    assert str(first_violation(check, bad)) == words
    assert not judge.is_valid(bad)


def test_a_schema_with_another_keyword_is_refused() -> None:
    with pytest.raises(ValueError, match="a schema has the keywords multipleOf; known are type, enum"):
        compile_schema({"type": "object", "properties": {"a": {"multipleOf": 2}}})


def test_what_was_given_is_cut() -> None:
    violation = first_violation(compile_schema({"type": "null"}), "a" * 1000)
    assert violation is not None
    assert violation.message == f"'{'a' * 59} ... is not of type 'null'"


def test_a_refusal_names_the_place() -> None:
    broken = copy.deepcopy(DOCUMENTS["result"])
    broken["requirements"][1]["failing"] = -1
    with pytest.raises(ValueError, match=r"\$\.requirements\[1\]\.failing: -1 is less than 0"):
        read_report(broken)
