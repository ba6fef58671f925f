"""How a result is written: one row to a line, so that a change of one row is a change of one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mxspec_lab.evidence.status import REPORTS, stamp
from mxspec_vectors.files import write_file


def render_result(document: Mapping[str, Any]) -> str:
    """The JSON text of a result; of a list of objects each object has a line of its own."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and all(isinstance(row, Mapping) for row in value):
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            lines.append(f' "{key}": [\n{rows}\n ]')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_result(path: Path, document: Mapping[str, Any]) -> None:
    """Write a result; below reports/ with the digests of what it used.

    Raises ValueError below reports/ for a name that is no committed result's.
    """
    write_file(path, render_result(document).encode("ascii"))
    if path.resolve().is_relative_to(REPORTS):
        stamp(path)
