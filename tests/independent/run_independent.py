"""Judge all bugs of the independent implementation; write reports/mutants/independent.json.

python -m tests.independent.run_independent
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest

from tests.independent import bugs_calls, bugs_output, bugs_paths, bugs_rounding, bugs_scale, bugs_two_levels
from tests.independent.catalogue import Bug, build
from tests.independent.judge import failing, judge
from tests.independent.reasons import explain_survival

SCHEMA = "mxspec-independent/1"
TABLE = Path(__file__).resolve().parents[2] / "reports" / "mutants" / "independent.json"
MODULES = (bugs_rounding, bugs_scale, bugs_two_levels, bugs_output, bugs_calls, bugs_paths)
BUGS: tuple[Bug, ...] = tuple(bug for module in MODULES for bug in module.BUGS)


def key_of(bug: Bug) -> str:
    """operation/format/profile/id."""
    return f"{bug.operation}/{bug.format}/{bug.profile}/{bug.id}"


def judge_bug(bug: Bug) -> dict[str, Any]:
    """The table's entry."""
    found = failing(judge(build(bug), bug.operation, bug.format, bug.profile))
    entry: dict[str, Any] = {
        "id": bug.id, "story": bug.story, "operation": bug.operation, "format": bug.format, "profile": bug.profile,
        "verdict": "killed" if found else "survives",
    }  # fmt: skip
    if found:
        return entry | {"by": found[0]}
    kind, reason = explain_survival(key_of(bug)) or ("unexplained", "")
    return entry | {"kind": str(kind), "reason": reason}


def _judge_number(number: int) -> dict[str, Any]:
    return judge_bug(BUGS[number])


def main() -> int:
    """0 if every survivor is explained."""
    started, entries = time.monotonic(), []
    with ProcessPoolExecutor() as pool:
        for number, entry in enumerate(pool.map(_judge_number, range(len(BUGS)), chunksize=4), 1):
            entries.append(entry)
            if number % 50 == 0:
                print(f"{number} of {len(BUGS)}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    counts = Counter(str(e.get("kind", e["verdict"])) for e in entries)
    document = {
        "schema": SCHEMA, "vectors": vector_digest(operations=NUMERIC_OPERATIONS),
        "counts": {"bugs": len(entries)} | dict(sorted(counts.items())), "bugs": entries,
    }  # fmt: skip
    part = TABLE.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    part.replace(TABLE)
    print(document["counts"])
    for e in entries:
        if e.get("kind") == "unexplained":
            print("unexplained:", e["operation"], e["format"], e["profile"], e["id"])
    return 1 if counts["unexplained"] else 0


if __name__ == "__main__":
    sys.exit(main())
