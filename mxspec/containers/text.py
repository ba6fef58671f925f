"""JSON of unknown origin, read within bounds."""

from __future__ import annotations

import json
from typing import Any

from mxspec.containers.problems import Collector, Fault, clip

#: Bytes of JSON that are read: all ASCII, or not (a string of Python may then take four bytes a character).
MAX_ASCII = 40 << 20
MAX_WIDE = 12 << 20
#: Commas and opening brackets: what bounds the number of objects. 70,000 tensors of a header, 600,000 of an index.
MAX_VALUES = 600_000


def parse_object(data: bytes, place: Collector, *, what: str, offset: int = 0) -> dict[str, Any]:
    """The JSON object that the bytes hold.

    Raises ContainerError for what is not UTF-8 or JSON, no object, has a key twice, is nested deeply, or is so large that
    reading it would take more than 256 MB.
    """
    limit, values = MAX_ASCII if data.isascii() else MAX_WIDE, data.count(b",") + data.count(b"{") + data.count(b"[")
    for number, most, unit in ((len(data), limit, "bytes"), (values, MAX_VALUES, "values")):
        if number > most:
            raise place.stop(Fault.HEADER_SIZE, f"{what} has {number} {unit}; at most {most} are read", offset=offset)
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_refuse_twice, parse_constant=_refuse_constant)
    except (RecursionError, ValueError) as error:
        at, text = offset, f"{what}: {error}"
        if isinstance(error, RecursionError):
            text = f"{what} is nested too deeply"
        elif isinstance(error, UnicodeDecodeError):
            at, text = offset + error.start, f"{what} is not UTF-8"
        elif isinstance(error, json.JSONDecodeError):
            at, text = offset + error.pos, f"{what} is not JSON: {error.msg}"
        raise place.stop(Fault.HEADER_TEXT, text, offset=at) from error
    if not isinstance(found, dict):
        raise place.stop(Fault.HEADER_TEXT, f"{what} is a JSON {type(found).__name__}, not an object", offset=offset)
    return found


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {clip(twice)!r} occurs twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


__all__ = ["MAX_ASCII", "MAX_VALUES", "MAX_WIDE", "clip", "parse_object"]
