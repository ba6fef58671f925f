"""Run the comparisons of one library and write what they showed, as one JSON object on standard output.

python -m tests.peers.layouts.record NAME
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mxspec import layouts

from tests.peers.layouts.compare import Comparison, digest_layout

ROOT = Path(__file__).resolve().parents[3]


def tally(comparisons: Iterable[Comparison]) -> list[dict[str, Any]]:
    """One row for each layout and direction: arrays and bytes compared, how many differ, and the first difference."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for c in comparisons:
        row = rows.setdefault(
            (c.layout, c.direction),
            {"layout": c.layout, "direction": c.direction, "digest": digest_layout(layouts.get_layout(c.layout)),
             "shapes": [], "arrays": 0, "compared": 0, "different": 0, "first": ""},
        )  # fmt: skip
        shape = "x".join(map(str, c.shape))
        if shape not in row["shapes"]:
            row["shapes"].append(shape)
        different = c.different
        if different and not row["first"]:
            row["first"] = f"{shape} {c.first}"
        row["arrays"] += 1
        row["compared"] += c.size
        row["different"] += different
    return [rows[key] for key in sorted(rows)]


def record(name: str) -> dict[str, Any]:
    """Everything about one library."""
    module = importlib.import_module(f"tests.peers.layouts.{name}")
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    document: dict[str, Any] = {
        "library": name,
        "packages": {p: version(p) for p in (*module.PACKAGES, "numpy", "ml_dtypes")},
        "sources": {},
        "time": started,
    }
    document["rows"] = tally(module.compare())
    return document


def main() -> int:
    """Print the record of the library that is named."""
    np.seterr(all="ignore")
    document = record(sys.argv[1])
    sys.stdout.write("\n@@" + json.dumps(document) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
