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
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.uses import use_code
from mxspec_vectors.files import OPERATIONS, vector_digest, write_file

from tests.independent_calls.entries import ENTRIES, select
from tests.independent_calls.judging import Fate, Outcome, judge

SCHEMA = "mxspec-independent-calls/1"
#: What the outcomes depend on, beside the vectors.
SET = ("tests/independent_calls",)
JUDGE = ("conformance/mxspec_conformance",)


def count(outcomes: Iterable[Outcome]) -> dict[str, Counter[str]]:
    """How many of each group had which fate."""
    groups: dict[str, Counter[str]] = {}
    for o in outcomes:
        groups.setdefault(o.group, Counter())[o.fate] += 1
    return groups


def format_table(groups: dict[str, Counter[str]]) -> str:
    """Groups in rows, fates in columns."""
    lines = [
        f"{'class':14}{'bugs':>6}{'found':>7}{'missed':>8}{'right':>7}{'passed':>8}{'accused':>9}{'not judged':>12}"
    ]
    total: Counter[str] = Counter()
    for fates in groups.values():
        total.update(fates)
    for name, fates in [*groups.items(), ("all", total)]:
        lone = fates[Fate.NOT_JUDGED]
        is_right = name == "all" or any(e.right for e in ENTRIES.values() if e.group == name)
        bugs = fates[Fate.FOUND] + fates[Fate.MISSED] + (0 if is_right else lone)
        right = fates[Fate.PASSED] + fates[Fate.ACCUSED] + (lone if is_right and name != "all" else 0)
        lines.append(
            f"{name:14}{bugs:6}{fates[Fate.FOUND]:7}{fates[Fate.MISSED]:8}{right:7}{fates[Fate.PASSED]:8}{fates[Fate.ACCUSED]:9}{lone:12}"
        )
    return "\n".join(lines)


def write(path: Path, level: str, outcomes: list[Outcome]) -> None:
    """The table as JSON, under a temporary name first."""
    totals = Counter(str(o.fate) for o in outcomes)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "level": level,
        "vectors": vector_digest(operations=OPERATIONS),
        "set": use_code(SET).digest,
        "judge": use_code(JUDGE).digest,
        "environment": describe_environment(),
        "counts": {"bugs": sum(not o.right for o in outcomes), "right": sum(o.right for o in outcomes)}
        | dict(sorted(totals.items())),
        "entries": [o.as_dict() for o in outcomes],
    }
    write_file(path, (json.dumps(document, indent=1) + "\n").encode())


def main() -> int:
    """0 if every bug is found and no right implementation is accused."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.independent_calls", description=__doc__.split("\n")[0] if __doc__ else None
    )
    parser.add_argument("--level", choices=("quick", "full"), default="full")
    parser.add_argument("--only", default="*", metavar="GLOB", help="entries whose group/id fits")
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the table is written")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="list the entries and their stories")
    chosen = parser.parse_args()
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
            print(
                f"{number}/{len(entries)} {time.monotonic() - started:.0f} s  {outcome.key}: {outcome.fate}",
                file=sys.stderr,
                flush=True,
            )
    outcomes = [done[e.key] for e in entries]
    print(format_table(count(outcomes)))
    for o in outcomes:
        if o.fate in (Fate.MISSED, Fate.ACCUSED, Fate.NOT_JUDGED):
            print(f"{o.fate}: {o.key}: {'; '.join(o.failing) if o.right else o.story}")
    if chosen.json:
        write(chosen.json, chosen.level, outcomes)
    return 0 if all(o.fate in (Fate.FOUND, Fate.PASSED) for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
