"""Judge sets of wrong and right kernels.

python -m tests.corpora [--set GLOB] [--only GLOB] [--level quick|full] [--jobs N] [--json FILE] [--list]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mxspec_conformance.results.environment import describe_environment
from mxspec_vectors.files import OPERATIONS, vector_digest, write_file

from tests.corpora.judging import Fate, Outcome, judge
from tests.corpora.sets import SETS, Candidate, read_set

SCHEMA = "mxspec-corpora/1"
GOOD_FATES = (Fate.FOUND, Fate.PASSED)
#: A set, one of its kernels, and what became of it.
Row = tuple[str, Candidate, Outcome]


def is_good(candidate: Candidate, fate: Fate) -> bool:
    """Whether the judge was right, or is known to see nothing here."""
    return fate in GOOD_FATES or (fate is Fate.MISSED and bool(candidate.reason))


def format_table(rows: Sequence[Row]) -> str:
    """Sets in rows."""
    lines = [f"{'set':18}{'wrong kernels':>15}{'found':>7}{'share':>9}{'right kernels':>15}{'accused':>9}{'not judged':>12}"]
    for name in dict.fromkeys(name for name, _, _ in rows):
        fates = Counter((c.wrong, o.fate) for n, c, o in rows if n == name)
        wrong, right = (sum(n for (w, _), n in fates.items() if w is kind) for kind in (True, False))
        found, lost = fates[True, Fate.FOUND], sum(n for (_, f), n in fates.items() if f in (Fate.NOT_JUDGED, Fate.CRASH))
        share = f"{100 * found / wrong:.1f} %" if wrong else ""
        lines.append(f"{name:18}{wrong:15}{found:7}{share:>9}{right:15}{fates[False, Fate.ACCUSED]:9}{lost:12}")
    return "\n".join(lines)


def describe(row: Row) -> dict[str, Any]:
    """A row of the JSON table; one of the set `independent` has the names of reports/mutants/independent.json, too."""
    name, candidate, outcome = row
    entry = {"key": candidate.key, "set": name, "right": not candidate.wrong, "story": candidate.story} | dict(candidate.facts)
    entry |= asdict(outcome)
    if name == "independent":
        kind, _, reason = candidate.reason.partition(": ")
        found = outcome.fate is Fate.FOUND
        entry |= (
            {"verdict": "killed", "by": outcome.failing[0]}
            if found
            else {"verdict": "survives", "kind": kind or "unexplained", "reason": reason}
        )
    return entry


def make_document(level: str, rows: Sequence[Row]) -> dict[str, Any]:
    """The table: bugs of the set `independent` under `bugs`, all other kernels under `entries`."""
    bugs = [describe(row) for row in rows if row[0] == "independent" and row[1].wrong]
    others = [describe(row) for row in rows if not (row[0] == "independent" and row[1].wrong)]
    wrong = sum(c.wrong for _, c, _ in rows)
    return {
        "schema": SCHEMA, "level": level, "vectors": vector_digest(operations=OPERATIONS), "environment": describe_environment(),
        "counts": {"bugs": wrong, "right": len(rows) - wrong} | dict(sorted(Counter(str(o.fate) for _, _, o in rows).items())),
        **({"bugs": bugs} if bugs else {}), **({"entries": others} if others else {}),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every wrong kernel is found, or is known to pass, and no right one is accused."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpora", description="Judge sets of wrong and right kernels.")
    parser.add_argument("--set", default="*", metavar="GLOB", help=f"sets whose name fits; there are {', '.join(SETS)}")
    parser.add_argument("--only", default="*", metavar="GLOB", help="kernels whose key fits; --list shows the keys")
    parser.add_argument("--level", choices=("quick", "full"), default="full")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="kernels judged at the same time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the table is written")
    parser.add_argument("--list", action="store_true", help="list the kernels and their stories, and judge none")
    given = parser.parse_args(arguments)
    chosen = [(name, c) for name in SETS if fnmatchcase(name, given.set) for c in read_set(name).values() if fnmatchcase(c.key, given.only)]
    if not chosen:
        parser.error(f"--set {given.set} --only {given.only}: no kernel fits; --list shows all")
    if given.list:
        for name, c in chosen:
            print(f"{name:16}{'wrong' if c.wrong else 'right':7}{c.key:56} {c.story}")
        return 0
    started, done = time.monotonic(), {}
    with ProcessPoolExecutor(given.jobs) as pool:
        waiting = {pool.submit(judge, name, c.key, given.level == "quick"): (name, c.key) for name, c in chosen}
        for number, future in enumerate(as_completed(waiting), 1):
            name, key = waiting[future]
            outcome = done[name, key] = future.result()
            print(f"{number}/{len(chosen)} {time.monotonic() - started:.0f} s  {name}: {key}: {outcome.fate}", file=sys.stderr, flush=True)
    rows = [(name, c, done[name, c.key]) for name, c in chosen]
    print(format_table(rows))
    for name, c, o in rows:
        if o.fate not in GOOD_FATES:
            print(f"{o.fate}: {name}: {c.key}: {c.reason or c.story if o.fate is Fate.MISSED else '; '.join(o.failing)}")
    if given.json:
        write_file(given.json, (json.dumps(make_document(given.level, rows), indent=1) + "\n").encode())
    return 0 if all(is_good(c, o.fate) for _, c, o in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
