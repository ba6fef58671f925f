"""What gpu/probe/mxprobe.cu writes: a file with parts that are missing, of another type or cut short is refused by the place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import jsonschema

_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 1 << 32}
_PATTERN = {"type": "string", "pattern": "^([0-9a-f]{4}|[0-9a-f]{8})$"}
#: Bits that a unit kept of a product, by its place; -1: nothing was asked there.
_KEPT = {"type": "array", "items": {"type": "integer", "minimum": -1, "maximum": 64}, "minItems": 1}


def _object(optional: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _named(inner: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": inner}


#: "pattern:answer" where the answer changes, from the first pattern on.
_RUNS = {"type": "string", "pattern": "^00000000:[0-9a-f]{2}( [0-9a-f]{8}:[0-9a-f]{2})*$"}
_CONVERSION = _object(
    ("runs", "different_from_nearest_even", "too_many_runs"),
    inputs={"enum": [1 << 16, 1 << 32]}, runs=_RUNS, different_from_nearest_even=_COUNT, too_many_runs=_COUNT,
) | {"minProperties": 2, "maxProperties": 2}  # fmt: skip

SHAPE: Mapping[str, Any] = _object(
    ("unanswered",),
    schema=_TEXT, device=_TEXT, vendor={"enum": ["nvidia", "amd"]}, compute_capability={"type": "string", "pattern": "^[0-9]+\\.[0-9]+$"},
    driver={"type": "integer"}, runtime={"type": "integer"}, conversions=_named(_CONVERSION),
    reciprocal=_object(
        instruction=_TEXT, table_crc32={"type": "string", "pattern": "^[0-9a-f]{8}$"}, least={"type": "integer"}, largest={"type": "integer"},
        below=_COUNT, above=_COUNT, inputs={"const": 1 << 32}, different_from_table=_COUNT,
    ),
    subnormals=_object(("bf16x2", "f16x2"), mul=_PATTERN, mul_up=_PATTERN, sub=_PATTERN, fma=_PATTERN, bf16x2=_PATTERN, f16x2=_PATTERN),
    stochastic=_named({"type": "array", "items": _TEXT}),
    bits_kept=_named(
        _object(("asked_up_to",), minus_last=_KEPT, minus_second=_KEPT, accumulator=_KEPT, asked_up_to=_KEPT | {"minItems": 2, "maxItems": 2})
    ),
    unanswered=_named(_TEXT),
)  # fmt: skip


def check_probe(document: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the place, where a document is not whole."""
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(SHAPE).iter_errors(document))
    if error is not None:
        raise ValueError(f"{error.json_path}: {error.message[:200]}")
    for name, seen in document["conversions"].items():
        starts = [int(run[:8], 16) for run in seen.get("runs", "").split()]
        if any(a >= b for a, b in pairwise([*starts, seen["inputs"]])):
            raise ValueError(f"{name}: its runs do not ascend to {seen['inputs']} inputs")
    for name, kept in document.get("bits_kept", {}).items():
        length = re.search(r"k(\d+)\.", name)
        counts = {len(kept[key]) for key in ("minus_last", "minus_second", "accumulator")}
        if length is not None and counts != {int(length[1])}:
            raise ValueError(f"{name}: it adds {length[1]} products, and there are {' and '.join(map(str, sorted(counts)))} answers")
