"""A document's strings made fit for XML, HTML and terminals: a results file may be anybody's."""

from __future__ import annotations

from typing import Any

from mxspec_conformance.targets.texts import clean_text


def clean(value: Any) -> Any:
    """JSON with the forbidden characters of all its strings replaced."""
    if isinstance(value, str):
        # Nothing that is forbidden is printable; most texts are, and results have them by the hundred thousand.
        return value if str.isprintable(value) else clean_text(value, len(value))
    if isinstance(value, dict):
        return {clean(k): clean(v) for k, v in value.items()}
    return [clean(v) for v in value] if isinstance(value, list) else value
