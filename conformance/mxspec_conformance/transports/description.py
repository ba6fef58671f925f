"""The description of a target: the one JSON object in which targets on every transport say what they can do."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from mxspec.adjacent import register_named
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, get_block
from mxspec.layouts import list_layouts
from mxspec.sparsity import SPARSE_FORMATS
from mxspec_conformance.targets.capabilities import PRODUCTS, Capabilities, SrRule
from mxspec_conformance.targets.checks import (
    check_affine,
    check_caches,
    check_claims,
    check_fused,
    check_names,
    check_rule,
    check_scales,
    check_sparse_layout,
    fit_layouts,
    read_layouts,
    read_products,
)
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.interface import ARGUMENTS, OPERATIONS, SPARSE_FUNCTIONS, Kind
from mxspec_conformance.targets.texts import clean_name
from mxspec_vectors.schemas import Check, compile_schema, first_violation

#: The version of protocol and description.
PROTOCOL = 1


#: Kind of argument -> its schema.
_KINDS: dict[Kind, dict[str, Any]] = {
    Kind.ARRAY: {"$ref": "#/$defs/array"},
    Kind.FLOAT: {"$ref": "#/$defs/float32"},
    Kind.FLOATS: {"oneOf": [{"$ref": "#/$defs/float32"}, {"$ref": "#/$defs/array"}]},
    Kind.TEXT: {"type": "string"},
    Kind.FLAG: {"type": "boolean"},
    Kind.WHOLE: {"type": "integer"},
    Kind.COUNT: {"type": "integer", "minimum": 0},
    Kind.SIZES: {"type": "array", "items": {"type": "integer", "minimum": 0}},
    Kind.GROUPS: {"type": "array", "items": {"type": "integer", "minimum": -1}},
    Kind.PAIR: {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
}


@lru_cache(maxsize=1)
def load_protocol_schema() -> dict[str, Any]:
    """The JSON Schema of descriptions, requests and replies; its `$defs` name the parts. Functions are those of the interface."""
    path = files("mxspec_conformance").joinpath("schema/protocol.schema.json")
    schema: dict[str, Any] = json.loads(path.read_text("utf-8"))
    parts = schema["$defs"]
    parts["capabilities"]["properties"]["functions"]["properties"] = {
        name: {"type": "array", "uniqueItems": True, "items": {"enum": list(o.options)} if o.options else False}
        for name, o in OPERATIONS.items()
    }
    parts["arguments"]["properties"] = {name: _KINDS[kind] for name, kind in ARGUMENTS.items()}
    parts["run"]["properties"]["function"]["enum"] = list(OPERATIONS)
    return schema


@lru_cache(maxsize=16)
def _checker(part: str) -> Check:
    schema = load_protocol_schema()
    return compile_schema(schema["$defs"][part], schema)


def find_violation(document: Any, part: str) -> str | None:
    """How a document breaks the part of the schema; None if it does not."""
    violation = first_violation(_checker(part), document)
    if violation is None:
        return None
    message = violation.message if len(violation.message) <= 200 else f"{violation.message[:200]}..."
    return f"{violation.place.replace('$.', '').replace('$', 'the object')}: {message}"


def read_description(document: Any, spec: str) -> Capabilities:
    """The capabilities that a description states.

    Raises TargetError naming what is wrong in it.
    """
    violation = find_violation(document, "description")
    if violation is not None:
        raise TargetError(f"{spec} describes itself wrongly: {violation}")
    given = document["capabilities"]
    functions = given["functions"]
    formats = tuple(given.get("formats", ()))
    if not formats and {"quantize", "dequantize"} & set(functions):
        raise TargetError(f"{spec} lists no formats; name the block formats it supports: {', '.join(BLOCKS)}")
    register_named((*formats, *given.get("elements", ())))
    check_names(spec, "formats", formats, BLOCKS)
    elements = tuple(given.get("elements", ())) or tuple(dict.fromkeys(get_block(f).element.name for f in formats))
    check_names(spec, "elements", elements, {**ELEMENTS, **SCALES})
    layouts = tuple(given.get("layouts", ()))
    check_names(spec, "layouts", layouts, [n for x in list_layouts() for n in (x.name, *x.aliases)])
    sparse = tuple(given.get("sparse_formats", ()))
    if not sparse and set(SPARSE_FUNCTIONS) & set(functions):
        raise TargetError(f"{spec} lists no sparse_formats; name those that it supports: {', '.join(SPARSE_FORMATS)}")
    check_names(spec, "sparse_formats", sparse, SPARSE_FORMATS)
    codes, scales = read_layouts(spec, "layout", given.get("layout", ()), formats, dense=True)
    claimed, shapes = given.get("profile"), given.get("shapes", {})
    products: dict[str, Any] = {}
    if declared := {f: given.get(key, ()) for f, (_, key, _) in PRODUCTS.items() if f in functions}:
        products = read_products(
            spec, declared, given.get("out_dtypes", ()), given.get("accumulator", ""), given.get("contract", ""),
            given.get("product_shapes", {}),
        )  # fmt: skip
    affine = tuple(given.get("affine", ()))
    affine_profile, affine_contract = given.get("affine_profile"), given.get("affine_contract")
    check_affine(spec, functions, affine, affine_profile, affine_contract)
    caches, attention = tuple(given.get("caches", ())), tuple(given.get("attention", ()))
    check_caches(spec, functions, caches, attention, given.get("out_dtypes", ()))
    if attention and not products:
        products = {"out_dtypes": tuple(given.get("out_dtypes", ())) or ("float32",)}
    return Capabilities(
        name=clean_name(document["name"]),
        version=clean_name(document["version"]),
        formats=formats,
        functions=tuple(functions),
        keywords={f: tuple(options) for f, options in functions.items()},
        elements=elements,
        dtypes=tuple(given.get("dtypes", ("float32",))),
        code_layout=codes,
        scale_layout=scales,
        layouts=layouts,
        **products,
        affine=affine,
        affine_profile=affine_profile,
        affine_contract=affine_contract,
        sparse_formats=sparse,
        caches=caches,
        attention=attention,
        sparse_layout=check_sparse_layout(spec, "sparse_layout", tuple(given.get("sparse_layout", ()))),
        prune_rule=check_rule(spec, "prune_rule", given.get("prune_rule", "")),
        **check_fused(spec, functions, given.get("fused", ()), given.get("fused_contract", "")),
        tensor_scale=given.get("tensor_scale", "decode"),
        scales=check_scales(spec, "scales", given.get("scales", ""), scales),
        shapes=fit_layouts((shapes.get("k", 1), shapes.get("rows", 1), shapes.get("min_rows", 1)), codes, scales, formats),
        one_level=given.get("one_level", True),
        sr_bits=given.get("sr_bits", 32),
        sr_rule=SrRule(given.get("sr_rule", SrRule.CARRY.value)),
        stochastic=given.get("stochastic", False),
        claimed_profiles=check_claims(spec, formats, [claimed] if isinstance(claimed, str) else claimed or ()),
    )


def describe_surroundings(document: dict[str, Any]) -> dict[str, Any]:
    """What a description says for a report's provenance: device, libraries, language."""
    return {key: document[key] for key in ("device", "libraries", "language") if key in document}


def find_reply_violation(reply: Any) -> str | None:
    """Why a reply to a `run` request is not valid; None if it is."""
    if not isinstance(reply, dict):
        return f"a reply is a JSON object; this is {json.dumps(reply)[:60]}"
    part = next((part for key, part in _REPLIES.items() if key in reply), None)
    if part is None:
        return f"a reply holds one of {', '.join(_REPLIES)}; this holds {', '.join(map(str, reply)) or 'nothing'}"
    return find_violation(reply, part)


#: A reply's key -> its part of the schema.
_REPLIES = {"outputs": "answer", "skipped": "skipped", "error": "error"}
