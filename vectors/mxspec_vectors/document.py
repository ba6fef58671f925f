"""What a vector file's content is in memory, and how its cases get their permanent ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: The version of the vectors. v1 only grows.
VERSION = "v1"

#: A vector file's content with every case written out: `cases` is a flat list of dictionaries, whose `expect` has an entry
#: for each distinct answer, with the names of the `profiles` that give it. `mxspec_vectors.compact` says how it is stored.
Document = dict[str, Any]


class VectorError(ValueError):
    """A vector file is missing, damaged or not what its schema says."""


def canonical_json(value: Any) -> str:
    """One line of JSON with no spaces: what ids and digests are taken of."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, sort_keys=True)


def case_id(slug: str, identity: Mapping[str, Any]) -> str:
    """A permanent id: the slug and the first 10 hex digits of the SHA-256 of what the case asks.

    The identity holds operation, format, parameters and inputs, not the answer: a corrected answer keeps its id.
    """
    digest = hashlib.sha256(canonical_json(identity).encode("ascii")).hexdigest()
    return f"{slug}-{digest[:10]}"


#: Fields of a case that its id does not depend on.
_NOT_ASKED = frozenset({"id", "topic", "flags", "expect", "recipe", "tensor", "of"})


def asked(case: Mapping[str, Any]) -> dict[str, Any]:
    """What a case asks: its parameters and inputs, as they stand in the case."""
    return {key: value for key, value in case.items() if key not in _NOT_ASKED}


def identity_of(document: Document, case: Mapping[str, Any]) -> dict[str, Any]:
    """What a case's id is a digest of."""
    extra = {"nan": document["nan"]} if document["operation"] == "encode" else {}
    return {"operation": document["operation"], "format": document["format"], **extra, **asked(case)}
