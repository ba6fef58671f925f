"""Digests of what vectors say, for evidence that ages one by one.

A committed result that names the digest of an operation, a format and the profiles that it compared is current as long as
no input and no answer of those profiles changes. It stays so when another profile or operation joins, when a file is laid
out otherwise, when flags or notes are reworded, and when cases are put in another order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mxspec_vectors.cases import open_document
from mxspec_vectors.document import Document, VectorError, asked, canonical_json

#: Profile -> digest of an answer; the empty name stands for an answer that is of no profile.
_Answers = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _Content:
    """What is digested of one case."""

    id: str
    question: bytes
    answers: _Answers
    #: The number of the profile for whose sake the case stands; -1: everybody's.
    joined: int


@dataclass(frozen=True, slots=True)
class _Digestible:
    """A document's content, digested piece by piece."""

    #: What holds for the whole file.
    head: bytes
    #: What holds for the whole file and is one profile's.
    heads: _Answers
    cases: tuple[_Content, ...]
    #: The profiles in the order in which they joined; none where the answers are of no profile.
    profiles: tuple[str, ...]

    def digest(self, profiles: Iterable[str] | None) -> str:
        """SHA-256 over ids, questions and the answers of the named profiles."""
        wanted = sorted(set(self.profiles if profiles is None else profiles))
        unknown = [name for name in wanted if name not in self.profiles]
        if unknown:
            raise VectorError(f"no answers of {', '.join(unknown)}; there are those of {', '.join(self.profiles) or 'none'}")
        last = max((self.profiles.index(name) for name in wanted), default=-1)
        names = wanted if self.profiles else [""]
        total = hashlib.sha256(self.head)
        for name in names:
            total.update(name.encode() + b"\0" + self.heads.get(name, b"") + b"\n")
        for case in self.cases:
            if case.joined <= last:
                total.update(case.id.encode() + b"\n" + case.question)
                for name in names:
                    total.update(case.answers.get(name, b"-"))
        return total.hexdigest()


def _hash(value: Any) -> bytes:
    return hashlib.sha256(canonical_json(value).encode("ascii")).digest()


def _answers_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
    """The digests of `expect` entries, or of others that name profiles."""
    found: dict[str, bytes] = {}
    plain = []
    for entry in entries:
        answer = {key: value for key, value in entry.items() if key != "profiles"}
        if "profiles" in entry:
            found |= dict.fromkeys(entry["profiles"], _hash(answer))
        else:
            plain.append(canonical_json(answer))
    return found or {"": _hash(sorted(plain))}


def _head_of(document: Document) -> dict[str, Any]:
    """What a whole file says in addition to its cases, and is of no profile."""
    head: dict[str, Any] = {key: document[key] for key in ("operation", "format", "nan", "masks", "padding", "zeros") if key in document}
    if document["operation"] == "encode":
        head |= {key: sorted(map(canonical_json, document[key])) for key in ("steps", "digests")}
    if "parts" in document:
        head["parts"] = [{key: part[key] for key in ("part", "bits", "one_for_columns")} for part in document["parts"]]
    return head


def _digest_pieces(document: Document) -> _Digestible:
    names = tuple(document.get("profiles", ()))
    cases = [
        _Content(case["id"], _hash(asked(case)), _answers_of(case["expect"]), names.index(case["of"]) if "of" in case else -1)
        for case in document["cases"]
    ]
    heads = _answers_of(document["digests"]) if document["operation"] == "dequantize" else {}
    return _Digestible(_hash(_head_of(document)), heads, tuple(sorted(cases, key=lambda c: c.id)), names)


def digest_document(document: Document, profiles: Iterable[str] | None = None) -> str:
    """The content digest of a document; `content_digest` says of what."""
    return _digest_pieces(document).digest(profiles)


@lru_cache(maxsize=256)
def _open_pieces(operation: str, fmt: str) -> _Digestible:
    return _digest_pieces(open_document(operation, fmt))


def content_digest(operation: str, fmt: str, profiles: Iterable[str] | None = None) -> str:
    """SHA-256 over the ids and inputs of an operation's cases and over the answers of the named profiles.

    profiles: None means all of the file; for operations whose answers are of no profile, there are none to name.
    Of scale cases those count that stand for everybody's sake or for that of a profile that joined no later than the last
    of those named: what a profile that joins later adds does not change the digest.
    Raises VectorError for a profile that the file does not know, and where the file is missing or damaged.
    """
    return _open_pieces(operation, fmt).digest(None if profiles is None else tuple(profiles))


def list_answering(operation: str, fmt: str) -> tuple[str, ...]:
    """The profiles whose answers an operation's cases hold, in the order in which they joined; others are computed by the model."""
    return _open_pieces(operation, fmt).profiles


__all__ = ["content_digest", "digest_document", "list_answering"]
