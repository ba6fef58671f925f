"""What the site reads of other commands' documents: one that lacks it is refused by name, before any page is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mxspec_vectors.schemas import compile_schema, first_violation

_TEXT, _COUNT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["number", "null"]}
_REAL = {"type": "number"}


def _rows(optional: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "array", "items": _object(optional, **fields)}


def _object(optional: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [name for name in fields if name not in optional]}


_BITS = {"type": "string", "pattern": "^[0-9a-f]{1,8}$"}
_REFERENCE = {"type": "string", "pattern": "^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[0-9]+$"}
_PAIR = _object(
    ("lanes", "tensor_amax", "why"),
    lanes={"type": "array", "items": _BITS, "maxItems": 256},
    tensor_amax=_BITS | {"type": ["string", "null"]},
    why=_TEXT,
)

#: Measurement -> JSON schema. What tables are drawn of may hold anything: they leave out what is no row.
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "explorer": _object(
        ("case_set",), node=_TEXT, case_set=_TEXT, conforms={"type": "boolean"},
        judged=_rows(profile=_TEXT, format=_TEXT, conclusion=_TEXT, cases=_COUNT), compared=_rows(blocks=_COUNT),
    ),
    "pairs": _object(formats={"type": "object", "additionalProperties": _object(pairs={"type": "object", "additionalProperties": _PAIR})}),
    "bench": _object(
        device=_TEXT, rows=_rows(("percent_of_mix",), name=_TEXT, size={"type": ["integer", "string", "array"]}, percent_of_mix=_NUMBER) | {"contains": _object(size={"type": "integer"})},
    ),
    "threads": _object(
        counts={"type": "object", "additionalProperties": _COUNT}, command=_TEXT, environment={"type": "object", "required": ["mxspec"]},
        threads=_rows(
            id={"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,80}$"}, reference=_REFERENCE, title=_TEXT, wrong=_TEXT, family=_TEXT,
            also={"type": "array", "items": _REFERENCE}, formats={"type": "array", "items": _TEXT}, operations={"type": "array", "items": _TEXT},
            broken={"type": "object", "required": ["verdict", "requirements"]}, fixed={"type": "object", "required": ["accused", "passed"]},
            smallest={"type": ["object", "null"], "required": ["id", "verdict", "first"]}, cause={"type": ["object", "null"], "required": ["text", "by"]},
        ),
        refused=_rows(reference=_REFERENCE, what=_TEXT, reason=_TEXT),
    ),
    "model": _object(rows=_rows(format=_TEXT, rule=_TEXT, block=_COUNT, distribution=_TEXT, sqnr_db=_REAL, sqnr_db_standard_error=_REAL, bits_per_element=_REAL)),
    "transformer": _object(
        rows=_rows(format=_TEXT, rule=_TEXT, ratio=_REAL, ratio_standard_error=_REAL, bits_per_number=_REAL, greedy_token_match=_REAL, top_token_match=_REAL),
        layers=_rows(format=_TEXT, layer=_TEXT, predicted=_REAL, predicted_with_gains=_REAL, measured=_REAL, standard_error=_REAL),
    ),
    "kills": _object(mutants=_rows(id=_TEXT, what=_TEXT, instances=_rows(operation=_TEXT, topics={"type": ["object", "array"], "items": _TEXT}))),
}  # fmt: skip


def check_shape(name: str, document: Mapping[str, Any], source: str) -> None:
    """Raise ValueError, naming the file and the place, where a measurement is not what its command writes."""
    violation = first_violation(compile_schema(SHAPES.get(name, True)), document)
    if violation is not None:
        raise ValueError(f"{source}: {str(violation)[:200]}; write the file again by its command, or leave it out")
