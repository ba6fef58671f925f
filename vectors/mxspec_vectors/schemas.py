"""The JSON schemas of this project as functions that say what is wrong in a document, and where.

They know the keywords that our schemas use, and refuse to compile any other. jsonschema, with which the tests compare them,
says the same of a document, but looks at each of its values many times slower, and would be a dependency of every user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

#: Characters of what was given that a message shows.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Violation:
    """One place of a document that its schema does not allow."""

    #: Keys and numbers of members, from the whole document down.
    path: tuple[str | int, ...]
    message: str

    @property
    def place(self) -> str:
        """The path in the notation of JSONPath; `$` is the whole document."""
        return "$" + "".join(f".{p}" if isinstance(p, str) and p.isidentifier() else f"[{p!r}]" for p in self.path)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


#: All that is wrong in a value; empty where nothing is.
Check = Callable[[Any], Sequence[Violation]]
_FINE: tuple[Violation, ...] = ()
#: As in JSON: a bool is no number, and 1.0 is an integer.
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer()),
}
#: Keywords that allow everything.
_SILENT = frozenset({"$schema", "$defs", "title", "description", "format"})


def compile_schema(schema: Mapping[str, Any] | bool, root: Mapping[str, Any] | None = None) -> Check:
    """The function of a schema of JSON Schema 2020-12; root: the document in whose `$defs` its references are found.

    Raises ValueError for a keyword that is not known.
    """
    if isinstance(schema, bool):
        return lambda value: _FINE if schema else _wrong(value, "is not allowed")
    whole = schema if root is None else root
    if unknown := schema.keys() - _KEYWORDS.keys() - _SILENT:
        raise ValueError(f"a schema has the keywords {', '.join(sorted(unknown))}; known are {', '.join(_KEYWORDS)}")
    # Two keywords of one maker are one check.
    makers = {_KEYWORDS[key]: schema[key] for key in schema if key not in _SILENT}
    checks = [make(value, schema, whole) for make, value in makers.items()]
    if len(checks) == 1:
        return checks[0]
    return lambda value: [violation for check in checks for violation in check(value)]


def first_violation(check: Check, value: Any) -> Violation | None:
    """What is wrong nearest to the whole document; None where nothing is."""
    return min(check(value), key=lambda violation: len(violation.path), default=None)


def _wrong(value: Any, words: str) -> tuple[Violation, ...]:
    shown = repr(value)
    return (Violation((), f"{shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]} ...'} {words}"),)


def _below(key: str | int, found: Sequence[Violation]) -> Iterator[Violation]:
    return (replace(violation, path=(key, *violation.path)) for violation in found)


def _identity(value: Any) -> Any:
    """Equal for values that are one in JSON, and hashable: in Python True == 1."""
    if isinstance(value, dict):
        return frozenset((key, _identity(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return tuple(map(_identity, value))
    return (bool, value) if isinstance(value, bool) else value


def _has_type(names: str | Sequence[str], _schema: Any, _root: Any) -> Check:
    several = [names] if isinstance(names, str) else names
    tests, words = [_TYPES[name] for name in several], f"is not of type {' or '.join(map(repr, several))}"
    only = tests[0]
    if len(tests) == 1:
        return lambda value: _FINE if only(value) else _wrong(value, words)
    return lambda value: _FINE if any(test(value) for test in tests) else _wrong(value, words)


def _is_one(allowed: Sequence[str | int], _schema: Any, _root: Any) -> Check:
    words = (
        f"is not one of {', '.join(map(repr, allowed))}" if len(allowed) > 1 else f"is not {allowed[0]!r}" if allowed else "is not allowed"
    )
    known = frozenset(map(_identity, allowed))
    return lambda value: _FINE if not isinstance(value, dict | list) and _identity(value) in known else _wrong(value, words)


def _holds(kinds: type | tuple[type, ...], test: Callable[[Any], bool], words: str) -> Check:
    """A test of values of some types; a bool is a number in Python alone."""
    return lambda value: _FINE if not isinstance(value, kinds) or isinstance(value, bool) or test(value) else _wrong(value, words)


def _matches(pattern: str, _schema: Any, _root: Any) -> Check:
    search = re.compile(pattern).search
    return _holds(str, lambda value: search(value) is not None, f"does not match {pattern!r}")


def _requires(names: Sequence[str], _schema: Any, _root: Any) -> Check:
    def check(value: Any) -> Sequence[Violation]:
        if not isinstance(value, dict):
            return _FINE
        return [Violation((), f"{name!r} is missing") for name in names if name not in value]

    return check


def _has_properties(_given: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Check:
    named = {name: compile_schema(inner, root) for name, inner in schema.get("properties", {}).items()}
    other = schema.get("additionalProperties", True)
    others = None if other is True else compile_schema(other, root)

    def check(value: Any) -> Sequence[Violation]:
        if not isinstance(value, dict):
            return _FINE
        found: list[Violation] = []
        for key, inner in value.items():
            if key in named:
                if wrong := named[key](inner):
                    found += _below(key, wrong)
            elif other is False:
                found += _wrong(key, f"is unknown; known are {', '.join(named)}" if named else "is unknown; none is known")
            elif others is not None and (wrong := others(inner)):
                found += _below(key, wrong)
        return found

    return check


def _has_items(_given: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Check:
    first = [compile_schema(inner, root) for inner in schema.get("prefixItems", ())]
    rest = compile_schema(schema.get("items", True), root)

    def check(value: Any) -> Sequence[Violation]:
        if not isinstance(value, list):
            return _FINE
        found: list[Violation] = []
        for i, inner in enumerate(value):
            if wrong := (first[i] if i < len(first) else rest)(inner):
                found += _below(i, wrong)
        return found

    return check


def _contains(inner: Mapping[str, Any], _schema: Any, root: Mapping[str, Any]) -> Check:
    check = compile_schema(inner, root)
    return _holds(list, lambda value: not all(map(check, value)), "has no member as it is required")


def _is_unique(_given: bool, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Check:
    # Members of another kind than is allowed may be of any depth.
    items = _has_items(None, schema, root)
    return _holds(list, lambda value: bool(items(value)) or len(set(map(_identity, value))) == len(value), "names a member twice")


def _is_exactly_one(given: Sequence[Mapping[str, Any]], _schema: Any, root: Mapping[str, Any]) -> Check:
    checks = [compile_schema(inner, root) for inner in given]

    def check(value: Any) -> Sequence[Violation]:
        found = [check(value) for check in checks]
        fitting = sum(not wrong for wrong in found)
        if fitting == 1:
            return _FINE
        if fitting:
            return _wrong(value, f"fits {fitting} of the allowed forms; only one may fit")
        # The form that was meant is the one of which most is right.
        meant = max(found, key=lambda wrong: (min(len(violation.path) for violation in wrong), -len(wrong)))
        if any(violation.path for violation in meant):
            return meant
        return [Violation((), "; or ".join(dict.fromkeys(violation.message for wrong in found for violation in wrong)))]

    return check


def _refers(name: str, _schema: Any, root: Mapping[str, Any]) -> Check:
    return compile_schema(root["$defs"][name.removeprefix("#/$defs/")], root)


def _limited(kinds: type | tuple[type, ...], test: Callable[[Any, Any], bool], words: str) -> Callable[[Any, Any, Any], Check]:
    return lambda bound, _schema, _root: _holds(kinds, lambda value: test(value, bound), f"{words} {bound}")


#: Keyword -> the check that its value, the schema in which it stands, and the whole schema make.
_KEYWORDS: Mapping[str, Callable[[Any, Any, Any], Check]] = {
    "type": _has_type,
    "enum": _is_one,
    "const": lambda value, schema, root: _is_one([value], schema, root),
    "pattern": _matches,
    "minimum": _limited((int, float), lambda value, bound: value >= bound, "is less than"),
    "maximum": _limited((int, float), lambda value, bound: value <= bound, "is greater than"),
    "minLength": _limited(str, lambda value, bound: len(value) >= bound, "is shorter than"),
    "minItems": _limited(list, lambda value, bound: len(value) >= bound, "has fewer members than"),
    "maxItems": _limited(list, lambda value, bound: len(value) <= bound, "has more members than"),
    "minProperties": _limited(dict, lambda value, bound: len(value) >= bound, "has fewer members than"),
    "maxProperties": _limited(dict, lambda value, bound: len(value) <= bound, "has more members than"),
    "required": _requires,
    "properties": _has_properties,
    "additionalProperties": _has_properties,
    "items": _has_items,
    "prefixItems": _has_items,
    "contains": _contains,
    "uniqueItems": _is_unique,
    "oneOf": _is_exactly_one,
    "$ref": _refers,
}
