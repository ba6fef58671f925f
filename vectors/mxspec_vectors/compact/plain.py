"""Files of encode, decode, stochastic and sparse cases: every case is stored as it is."""

from __future__ import annotations

from mxspec_vectors.compact.groups import Stored, flatten, group, join, rest_of, shared_of
from mxspec_vectors.document import Document


def pack_plain(document: Document) -> Stored:
    """The JSON object of a document of plain cases."""
    stored = {key: value for key, value in document.items() if key != "cases"}
    return {**stored, "groups": group((shared_of(c), rest_of(c)) for c in document["cases"])}


def expand_plain(stored: Stored) -> Document:
    """The document of a file of plain cases."""
    document = {key: value for key, value in stored.items() if key != "groups"}
    return {**document, "cases": [join(shared, case, expect=case["expect"]) for shared, case in flatten(stored)]}
