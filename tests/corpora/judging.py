"""One kernel before the judge, as anybody's is judged: as a file of its own, in a process of its own with limits of time."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mxspec_conformance import TargetError, check
from mxspec_conformance.results.report import GOOD

from tests.corpora.sets import Candidate, read_set

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that a call may take.
SECONDS = 60.0
#: What the file of a target says: everything else stands in its set.
FILE = """\
import sys

sys.path[:0] = {path!r}

from tests.corpora.sets import read_set

globals().update(vars(read_set({name!r})[{key!r}].build()))
"""


class Fate(StrEnum):
    """What the judge made of a kernel."""

    #: Wrong, and fails.
    FOUND = "found"
    #: Wrong, and passes.
    MISSED = "missed"
    #: Right, and passes.
    PASSED = "passed"
    #: Right, and fails.
    ACCUSED = "accused"
    #: Nothing could be judged: exit code 2.
    NOT_JUDGED = "not judged"
    #: The judge itself raised.
    CRASH = "crash"


@dataclass(frozen=True)
class Outcome:
    """One kernel, judged."""

    fate: Fate
    exit_code: int
    #: `requirement: first failing case, or verdict` of those that do not pass, at most four.
    failing: tuple[str, ...]
    seconds: float


def write_target(name: str, key: str, folder: Path) -> str:
    """The target file of a kernel of a set."""
    path = folder / ("".join(c if c.isalnum() else "_" for c in key) + ".py")
    path.write_text(FILE.format(path=[str(ROOT), *(p for p in sys.path if p)], name=name, key=key), "utf-8")
    return str(path)


def name_fate(candidate: Candidate, exit_code: int) -> Fate:
    """What an exit code says of a kernel."""
    passes, fails = (Fate.MISSED, Fate.FOUND) if candidate.wrong else (Fate.PASSED, Fate.ACCUSED)
    return {0: passes, 1: fails}.get(exit_code, Fate.NOT_JUDGED)


def judge(name: str, key: str, quick: bool) -> Outcome:
    """What the judge says of a kernel of a set."""
    candidate, started = read_set(name)[key], time.monotonic()
    code, fate = 2, Fate.NOT_JUDGED
    with tempfile.TemporaryDirectory(prefix="mxspec-corpora-") as folder:
        try:
            target = write_target(name, key, Path(folder))
            report = check(target, profile=candidate.profile, quick=quick, timeout=SECONDS)
            code, fate = report.exit_code, name_fate(candidate, report.exit_code)
            bad = [r for r in report.requirements if r.verdict not in GOOD]
            failing = tuple(f"{r.id}: {next(iter(r.failing_cases), r.verdict)}" for r in bad)
        except TargetError as error:
            failing = (f"TargetError: {error}",)
        except Exception as error:  # a crash of the judge is an outcome, and the other kernels go on
            fate, failing = Fate.CRASH, (f"{type(error).__name__}: {error}",)
    return Outcome(fate, code, failing[:4], round(time.monotonic() - started, 2))
