"""Judge the second independent set, of calls.

python -m tests.independent_calls [--level quick|full] [--only GLOB] [--json OUT] [-j N]
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
from pathlib import Path
from typing import Any

from mxspec_conformance.results.environment import describe_environment
from mxspec_vectors.files import OPERATIONS, vector_digest, write_file

from tests.independent_calls.entries import select
from tests.independent_calls.judging import Fate, Outcome, judge

SCHEMA = "mxspec-independent-calls/1"
GOOD_FATES = (Fate.FOUND, Fate.PASSED)


def format_row(name: str, outcomes: Sequence[Outcome]) -> str:
    """How many bugs and right implementations there are, and what became of them."""
    fates = Counter(o.fate for o in outcomes)
    right = sum(o.right for o in outcomes)
    numbers = (len(outcomes) - right, fates[Fate.FOUND], fates[Fate.MISSED], right, fates[Fate.PASSED], fates[Fate.ACCUSED])
    others = (fates[Fate.NOT_JUDGED], fates[Fate.CRASH])
    return f"{name:14}" + "".join(f"{n:9}" for n in numbers) + "".join(f"{n:12}" for n in others)


def format_table(outcomes: Sequence[Outcome]) -> str:
    """Groups in rows, fates in columns."""
    groups: dict[str, list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault(o.group, []).append(o)
    head = f"{'class':14}" + "".join(f"{n:>9}" for n in ("bugs", "found", "missed", "right", "passed", "accused"))
    lines = [head + "".join(f"{n:>12}" for n in ("not judged", "crashes"))]
    return "\n".join([*lines, *(format_row(n, g) for n, g in groups.items()), format_row("all", outcomes)])


def write(path: Path, level: str, outcomes: list[Outcome]) -> None:
    """The table as JSON, under a temporary name first."""
    totals = Counter(str(o.fate) for o in outcomes)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "level": level,
        "vectors": vector_digest(operations=OPERATIONS),
        "environment": describe_environment(),
        "counts": {"bugs": sum(not o.right for o in outcomes), "right": sum(o.right for o in outcomes)} | dict(sorted(totals.items())),
        "entries": [o.as_dict() for o in outcomes],
    }
    write_file(path, (json.dumps(document, indent=1) + "\n").encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every bug is found and no right implementation is accused."""
    parser = argparse.ArgumentParser(prog="python -m tests.independent_calls", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--level", choices=("quick", "full"), default="full")
    parser.add_argument("--only", default="*", metavar="GLOB", help="entries whose group/id fits")
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the table is written")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="list the entries and their stories")
    chosen = parser.parse_args(arguments)
    entries = select(chosen.only)
    if not entries:
        parser.error(f"--only {chosen.only}: no entry fits; --list shows all")
    if chosen.list:
        for e in entries:
            print(f"{e.key:44}{'right: ' if e.right else ''}{e.story}")
        return 0
    started, done = time.monotonic(), {}
    with ProcessPoolExecutor(chosen.jobs) as pool:
        waiting = {pool.submit(judge, e.key, chosen.level == "quick"): e.key for e in entries}
        for number, future in enumerate(as_completed(waiting), 1):
            outcome = done[waiting[future]] = future.result()
            print(f"{number}/{len(entries)} {time.monotonic() - started:.0f} s  {outcome.key}: {outcome.fate}", file=sys.stderr, flush=True)
    outcomes = [done[e.key] for e in entries]
    print(format_table(outcomes))
    for o in outcomes:
        if o.fate not in GOOD_FATES:
            print(f"{o.fate}: {o.key}: {o.story if o.fate is Fate.MISSED else '; '.join(o.failing)}")
    if chosen.json:
        write(chosen.json, chosen.level, outcomes)
    return 0 if all(o.fate in GOOD_FATES for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
