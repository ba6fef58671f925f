"""From the name of a subject to the subject, in a process of its own."""

from __future__ import annotations

from mxspec_conformance.scoring import subjects
from mxspec_conformance.scoring.products.subjects import MATMUL, find_product
from mxspec_conformance.scoring.subjects import Subject


def find_subject(name: str) -> Subject:
    """The subject of a name. Raises KeyError."""
    return find_product(name) if name.split("/", 2)[1] == MATMUL else subjects.find_subject(name)
