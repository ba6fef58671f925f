"""Identify known libraries, in the environment at hand, and record what was named and how fast.

    python tests/peers/identify_peers.py [TARGET...]

Without a target: those whose library is here. Results are merged into reports/identify/peers.json; seconds do not count the library's own import.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import mxspec
from mxspec_conformance.adapters.registry import known_adapters
from mxspec_conformance.cli.identify import as_dict
from mxspec_conformance.identification.target import identify_format
from mxspec_conformance.results.environment import describe_environment
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest, write_file

REPORT = Path(__file__).parents[2] / "reports" / "identify" / "peers.json"


def identify_target(spec: str) -> dict[str, Any]:
    """The identity of one target in all its formats."""
    session = open_target(spec, timeout=600)
    try:
        started = time.monotonic()
        found = [
            as_dict(identify_format(session, mxspec.get_block(fmt)))
            for fmt in mxspec.BLOCKS
            if fmt in session.capabilities.formats and session.capabilities.has("quantize")
        ]
        seconds = round(time.monotonic() - started, 1)
        return {
            "version": session.capabilities.version,
            "seconds": seconds,
            "environment": describe_environment() | getattr(session, "environment", {}),
            "formats": found,
        }
    finally:
        session.close()


def main() -> None:
    """All targets named, each written as soon as it is known."""
    here = [a.name for a in known_adapters().values() if a.profiles and a.library.is_here()]
    known: dict[str, Any] = json.loads(REPORT.read_text("ascii"))["targets"] if REPORT.exists() else {}
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    for spec in sys.argv[1:] or here:
        known[spec] = identify_target(spec)
        for identity in known[spec]["formats"]:
            named = ", ".join(identity["identical"]) or f"nearest {identity['nearest'] or 'none'}"
            print(f"{spec:20} {identity['format']:12} {named}")
        print(f"{spec:20} {known[spec]['seconds']} s", flush=True)
        document = {
            "command": "python tests/peers/identify_peers.py " + " ".join(sorted(known)),
            "vectors": vector_digest(operations=NUMERIC_OPERATIONS),
            "targets": {name: known[name] for name in sorted(known)},
        }
        write_file(REPORT, (json.dumps(document, indent=1) + "\n").encode("ascii"))


if __name__ == "__main__":
    main()
