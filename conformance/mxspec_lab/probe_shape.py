"""What gpu/probe/mxprobe.cu writes: a file with parts that are missing, of another type or cut short is refused by the place."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import jsonschema

from mxspec_lab.probe_names import read_name
from mxspec_lab.probe_questions import list_questions

#: Conversions that change with almost every pattern: the probe compares them itself, and counts.
CASTS = ("cvt.rn.f16.f32", "cvt.rn.bf16.f32")
#: Changes of a conversion's answer that the probe lists; of more it says how many.
MOST_RUNS = 1 << 13
_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 1 << 32}
_PATTERN = {"type": "string", "pattern": "^([0-9a-f]{4}|[0-9a-f]{8})$"}
#: Bits that a unit kept of a product, by its place. -1: nothing was asked there, or not one bit was kept.
_KEPT = {"type": "array", "items": {"type": "integer", "minimum": -1}, "minItems": 1}
#: For each of nine numbers the codes of four elements under each of 32 words.
_CODES = {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-f]{4}( [0-9a-f]{4}){31}$"}, "minItems": 9, "maxItems": 9}


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
    schema=_TEXT, device=_TEXT, vendor={"enum": ["nvidia", "amd"]}, compute_capability={"type": "string", "pattern": "^[0-9]{1,3}\\.[0-9]{1,3}$"},
    driver={"type": "integer"}, runtime={"type": "integer"}, conversions=_named(_CONVERSION),
    reciprocal=_object(
        instruction=_TEXT, table_crc32={"type": "string", "pattern": "^[0-9a-f]{8}$"}, least={"type": "integer"}, largest={"type": "integer"},
        below=_COUNT, above=_COUNT, inputs={"const": 1 << 32}, different_from_table=_COUNT,
    ),
    subnormals=_object(("bf16x2", "f16x2"), mul=_PATTERN, mul_up=_PATTERN, sub=_PATTERN, fma=_PATTERN, bf16x2=_PATTERN, f16x2=_PATTERN),
    stochastic=_named(_CODES),
    bits_kept=_named(
        _object(("asked_up_to",), minus_last=_KEPT, minus_second=_KEPT, accumulator=_KEPT, asked_up_to=_KEPT | {"minItems": 2, "maxItems": 2})
    ),
    unanswered=_named(_TEXT),
)  # fmt: skip


def check_probe(document: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the place, where a document is not whole or says what the probe cannot."""
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(SHAPE).iter_errors(document))
    if error is not None:
        raise ValueError(f"{error.json_path}: {_cut(error.message)}")
    for name, seen in document["conversions"].items():
        _check_conversion(name, seen)
    _check_reciprocal(document["reciprocal"])
    for name, kept in document["bits_kept"].items():
        _check_bits(name, kept)


def _cut(message: str) -> str:
    """The message of a schema: what was given comes first in it, however long, and what is wrong with it last."""
    return message if len(message) <= 200 else f"{message[:80]} ... {message[-100:]}"


def _check_conversion(name: str, seen: Mapping[str, Any]) -> None:
    if (name in CASTS) != ("different_from_nearest_even" in seen):
        fields = "different_from_nearest_even" if name in CASTS else "runs or too_many_runs"
        raise ValueError(f"{name}: the probe writes its {fields}, not {', '.join(sorted(seen.keys() - {'inputs'}))}")
    if seen.get("too_many_runs", MOST_RUNS + 1) <= MOST_RUNS:
        raise ValueError(f"{name}: {seen['too_many_runs']} runs are not too many; the probe lists up to {MOST_RUNS}")
    runs = seen.get("runs", "").split()
    if any(a[9:] == b[9:] for a, b in pairwise(runs)):
        raise ValueError(f"{name}: its runs hold the same answer twice in a row; the probe lists changes")
    starts = [int(run[:8], 16) for run in runs]
    if any(a >= b for a, b in pairwise([*starts, seen["inputs"]])):
        raise ValueError(f"{name}: its runs do not ascend to {seen['inputs']} inputs")


def _check_reciprocal(seen: Mapping[str, Any]) -> None:
    """The table's numbers hold together, whoever's it is."""
    least, largest, below, above = (int(seen[key]) for key in ("least", "largest", "below", "above"))
    whole = -127 <= least <= 0 <= largest <= 127 and (least < 0) == (below > 0) and (largest > 0) == (above > 0)
    if not whole or below + above > 1 << 23:
        raise ValueError(
            f"reciprocal: no table of 2^23 differences has {below} below and {above} above zero, from {least} to {largest}"
        )


def _check_bits(name: str, kept: Mapping[str, Any]) -> None:
    instruction = read_name(name)
    within, across = instruction.asked_up_to
    if list(kept.get("asked_up_to", (within, across))) != [within, across]:
        raise ValueError(f"{name}: asked_up_to is {kept['asked_up_to']}; the probe asks up to {[within, across]}")
    counts = {len(kept[q.key]) for q in list_questions(instruction.k)}
    if counts != {instruction.k}:
        raise ValueError(f"{name}: it adds {instruction.k} products, and there are {' and '.join(map(str, sorted(counts)))} answers")
    for question in list_questions(instruction.k):
        most = across if question.minus_at is None else within
        for place, bits in enumerate(kept[question.key]):
            if bits != -1 and not question.asks(place):
                raise ValueError(f"{name}: {question.key} has {bits} at place {place}, where nothing is asked and the probe writes -1")
            if bits > most:
                raise ValueError(f"{name}: {question.key} has {bits} bits at place {place}; the probe asks up to {most}")
