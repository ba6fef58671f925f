"""Why changes of the model's source survive the vectors."""

from __future__ import annotations

from mxspec_conformance.mutants.source import Change

EQUIVALENT = "equivalent"
BEYOND = "beyond the interface"
UNCLASSIFIED = "unclassified"


def reason_for(change: Change) -> tuple[str, str]:
    """The kind of a survivor, and the reason."""
    return UNCLASSIFIED, ""
