"""A JSON schema as a function that says yes: what it takes is valid, what it does not take is for jsonschema to judge, and to describe.

Committed results are megabytes, and all of them are valid; a validator that can say what is wrong, and where, looks at each
of their numbers many times slower than this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Check = Callable[[Any], bool]
#: Types of values, exactly: a bool is no integer here, and 1.0 is left to jsonschema, as is every subclass.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
_SILENT = frozenset({"$schema", "title", "description"})


def compile_schema(schema: Mapping[str, Any]) -> Check:
    """A function of a value; True only if the value is valid under a schema of JSON Schema 2020-12.

    It is never True under a schema with a keyword that this module does not know.
    """
    checks: list[Check] = []
    rest = dict(schema)
    for key in _SILENT:
        rest.pop(key, None)
    types = tuple(t for name in _as_list(rest.pop("type", list(_TYPES))) for t in _TYPES[name])
    checks.append(_is_object(rest, types) if types == (dict,) else _has_type(types, rest))
    for key, make in _KEYWORDS.items():
        if key in rest:
            checks.append(make(rest.pop(key)))
    if rest:
        return lambda value: False
    return checks[0] if len(checks) == 1 else lambda value: all(check(value) for check in checks)


def _as_list(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _has_type(types: tuple[type, ...], rest: dict[str, Any]) -> Check:
    """By type; keywords of objects count only for an object."""
    inner = _is_object(rest, types) if {"properties", "required", "additionalProperties"} & set(rest) else None
    if inner is None:
        return lambda value: type(value) in types
    return lambda value: type(value) in types and (type(value) is not dict or inner(value))


def _is_object(rest: dict[str, Any], types: tuple[type, ...]) -> Check:
    """Takes what it knows out of `rest`."""
    properties = {name: compile_schema(inner) for name, inner in rest.pop("properties", {}).items()}
    required = frozenset(rest.pop("required", ()))
    other = rest.pop("additionalProperties", True)
    others: Check = compile_schema(other) if isinstance(other, Mapping) else lambda value: bool(other)

    def check(value: Any) -> bool:
        return type(value) is dict and required <= value.keys() and all(properties.get(key, others)(inner) for key, inner in value.items())

    return check


def _list_of(schema: Mapping[str, Any]) -> Check:
    inner = compile_schema(schema)
    return lambda value: type(value) is not list or all(map(inner, value))


def _is_one(allowed: Sequence[Any]) -> Check:
    # In Python 1 == True == 1.0.
    return lambda value: any(type(value) is type(one) and value == one for one in allowed)


def _matches(pattern: str) -> Check:
    search = re.compile(pattern).search
    return lambda value: type(value) is not str or search(value) is not None


def _at_least(bound: float) -> Check:
    return lambda value: type(value) not in (int, float) or value >= bound


def _at_most(bound: float) -> Check:
    return lambda value: type(value) not in (int, float) or value <= bound


def _no_longer(most: int) -> Check:
    return lambda value: type(value) is not list or len(value) <= most


_KEYWORDS: Mapping[str, Callable[[Any], Check]] = {
    "items": _list_of, "enum": _is_one, "const": lambda value: _is_one([value]), "pattern": _matches, "minimum": _at_least, "maximum": _at_most,
    "maxItems": _no_longer,
}  # fmt: skip
