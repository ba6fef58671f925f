"""What the quick level finds of wrong kernels of the calls kind: of those that were looked at when its calls were chosen, and of others.

python -m tests.quick_calls [--only GLOB] [--set GLOB] [--json OUT]

Each kernel is judged in a process of its own, forked from this one, as an object: state and threads are the kernel's own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from queue import Empty
from typing import Any

from mxspec_conformance import check
from mxspec_conformance.results.environment import describe_environment
from mxspec_vectors.files import OPERATIONS, vector_digest, write_file

from tests.independent_calls.entries import ENTRIES
from tests.quick_calls.kernels import HELD_OUT

SCHEMA = "mxspec-quick-calls/1"
#: Seconds after which a kernel is given up.
PATIENCE = 120.0


@dataclass(frozen=True)
class Kernel:
    """A kernel, wrong or right, and the set that it belongs to."""

    key: str
    set: str
    right: bool
    build: Callable[[], Any]


@dataclass(frozen=True)
class Outcome:
    """One kernel, judged: exit code 1 is right for wrong kernels, and 0 for right ones; -1: the judge raised, or did not end."""

    key: str
    set: str
    right: bool
    exit_code: int
    #: Requirements that fail, at most four.
    failing: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether the judge was right."""
        return self.exit_code == (0 if self.right else 1)


def name_set(key: str) -> str:
    """The half of the independent set that an entry belongs to: drawn by its key, so that nobody chose it."""
    return "independent, held out" if hashlib.sha256(key.encode()).digest()[0] & 1 else "independent, looked at"


def list_kernels(glob: str = "*", sets: str = "*") -> Iterator[Kernel]:
    """All of them, set by set."""
    kernels = [Kernel(e.key, name_set(e.key), e.right, e.build) for e in ENTRIES.values()]
    kernels += [Kernel(f"held-out/{w.name}", "written before, held out", False, w.build) for w in HELD_OUT]
    kept = (k for k in kernels if fnmatchcase(k.key, glob) and fnmatchcase(k.set, sets))
    yield from sorted(kept, key=lambda k: (k.set, not k.right), reverse=True)


def _judge(kernel: Kernel, answers: Any) -> None:
    try:
        report = check(kernel.build(), in_process=True, quick=True)
        answers.put((report.exit_code, [r.id for r in report.requirements if r.verdict in ("fail", "error", "timeout")][:4]))
    except Exception as error:  # a crash of the judge is an outcome
        answers.put((-1, [f"{type(error).__name__}: {error}"]))


def judge(kernel: Kernel) -> Outcome:
    """What the quick level says of a kernel."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_judge, args=(kernel, answers))
    child.start()
    try:
        code, failing = answers.get(timeout=PATIENCE)
    except Empty:
        code, failing = -1, ["no end"]
    child.join(1)
    child.kill()
    child.join()
    return Outcome(kernel.key, kernel.set, kernel.right, code, tuple(failing))


def format_table(outcomes: Sequence[Outcome]) -> str:
    """Sets in rows, with shares."""
    lines = [f"{'set':28}{'bugs':>7}{'found':>7}{'share':>9}{'right':>7}{'accused':>9}"]
    for name in dict.fromkeys(o.set for o in outcomes):
        mine = [o for o in outcomes if o.set == name]
        bugs = [o for o in mine if not o.right]
        found, right = sum(o.good for o in bugs), [o for o in mine if o.right]
        share = f"{100 * found / len(bugs):.1f} %" if bugs else ""
        lines.append(f"{name:28}{len(bugs):7}{found:7}{share:>9}{len(right):7}{sum(not o.good for o in right):9}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if no right kernel is accused."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick_calls", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="*", metavar="GLOB", help="kernels whose group/id fits")
    parser.add_argument("--set", default="*", metavar="GLOB", help="sets whose name fits, such as '*held out'")
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the table is written")
    chosen = parser.parse_args(arguments)
    kernels = list(list_kernels(chosen.only, chosen.set))
    if not kernels:
        parser.error(f"--only {chosen.only} --set {chosen.set}: no kernel fits")
    check(HELD_OUT[0].build(), in_process=True, quick=True, formats=["mxfp4"])  # what every child needs is read once
    outcomes = []
    for number, kernel in enumerate(kernels, 1):
        outcomes.append(judge(kernel))
        print(f"{number}/{len(kernels)} {kernel.key}: exit code {outcomes[-1].exit_code}", file=sys.stderr, flush=True)
    print(format_table(outcomes))
    for o in outcomes:
        if not o.good:
            print(f"{'accused' if o.right else 'missed'}: {o.key}{': ' if o.failing else ''}{'; '.join(o.failing)}")
    if chosen.json:
        document = {
            "schema": SCHEMA,
            "vectors": vector_digest(operations=OPERATIONS),
            "environment": describe_environment(),
            "entries": [asdict(o) for o in outcomes],
        }
        write_file(chosen.json, (json.dumps(document, indent=1) + "\n").encode())
    return int(any(o.right and not o.good for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
