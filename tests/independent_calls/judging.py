"""One entry before the judge: as a file of its own, in a process of its own, as anybody's kernel is judged."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from mxspec_conformance import TargetError, check
from mxspec_conformance.results.report import GOOD

from tests.independent_calls.entries import ENTRIES
from tests.independent_calls.kernel import Offer

ROOT = Path(__file__).resolve().parents[2]

#: What the file of a target says: everything else stands in the entry.
FILE = """\
import sys

sys.path.insert(0, {root!r})

from tests.independent_calls.entries import ENTRIES

globals().update(vars(ENTRIES[{key!r}].build()))
"""


class Fate(StrEnum):
    """What the judge made of an entry."""

    #: A bug that fails.
    FOUND = "found"
    #: A bug that passes.
    MISSED = "missed"
    #: A right implementation that passes.
    PASSED = "passed"
    #: A right implementation that fails.
    ACCUSED = "accused"
    #: Nothing could be judged: exit code 2.
    NOT_JUDGED = "not judged"
    #: The judge itself raised.
    CRASH = "crash"


@dataclass(frozen=True)
class Outcome:
    """One entry, judged."""

    key: str
    group: str
    right: bool
    story: str
    #: What the target offers.
    offer: Offer
    fate: Fate
    exit_code: int
    #: `requirement: verdict` of those that do not pass, at most four.
    failing: tuple[str, ...]
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """For the JSON table."""
        return asdict(self)


def write_target(key: str, folder: Path) -> Path:
    """The target file of an entry."""
    path = folder / (key.replace("/", "_").replace("-", "_") + ".py")
    path.write_text(FILE.format(root=str(ROOT), key=key), "utf-8")
    return path


def judge(key: str, quick: bool, timeout: float = 60.0) -> Outcome:
    """What the judge says of an entry."""
    entry, started = ENTRIES[key], time.monotonic()
    bad, good = (Fate.ACCUSED, Fate.PASSED) if entry.right else (Fate.FOUND, Fate.MISSED)
    code, fate = 2, Fate.NOT_JUDGED
    with tempfile.TemporaryDirectory(prefix="mxspec-independent-") as folder:
        try:
            report = check(str(write_target(key, Path(folder))), quick=quick, timeout=timeout)
            code, fate = report.exit_code, {0: good, 1: bad}.get(report.exit_code, Fate.NOT_JUDGED)
            failing = tuple(f"{r.id}: {r.verdict}" for r in report.requirements if r.verdict not in GOOD)
        except TargetError as error:
            failing = (f"TargetError: {error}",)
        except Exception as error:  # a crash of the judge is an outcome, and the other entries go on
            fate, failing = Fate.CRASH, (f"{type(error).__name__}: {error}",)
    seconds = round(time.monotonic() - started, 2)
    return Outcome(key, entry.group, entry.right, entry.story, entry.offer, fate, code, failing[:4], seconds)
