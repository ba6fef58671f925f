"""Judge the kernels of this set: `python -m tests.outside [--group G] [--only GLOB] [--level quick] [--json FILE]`.

Each is written as a file and judged as anybody's target, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mxspec_conformance import check
from mxspec_conformance.results.report import Verdict

from tests.outside import KERNELS, Kernel

ROOT = Path(__file__).resolve().parents[2]
FILE = """
import sys
sys.path[:0] = {path!r}
from tests.outside import KERNELS
globals().update(vars(KERNELS[{name!r}].build()))
"""
#: Verdicts that accuse nobody.
GOOD = (Verdict.PASS, Verdict.OPEN, Verdict.UNSUPPORTED)


def write_file(kernel: Kernel, folder: Path) -> str:
    """A file of Python that is the kernel."""
    path = folder / f"{kernel.name.replace('-', '_')}.py"
    path.write_text(FILE.format(path=[str(ROOT), *(p for p in sys.path if p)], name=kernel.name), encoding="utf-8")
    return str(path)


def judge(kernel: Kernel, *, quick: bool = False) -> dict[str, Any]:
    """Verdict and cost of one kernel."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        target = kernel.road(kernel, Path(folder)) if kernel.road else write_file(kernel, Path(folder))
        report = check(target, quick=quick, timeout=2.0 if kernel.road else 60.0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    failing = [(r.id, r.verdict.value, r.note[:200]) for r in report.requirements if r.verdict not in GOOD]
    return {
        "name": kernel.name, "group": kernel.group, "story": kernel.story, "wrong": kernel.wrong, "code": report.exit_code,
        "asked": sum(r.cases for r in report.requirements), "failing": failing, "ids": [f[0] for f in failing],
        "seconds": round(time.monotonic() - began, 2), "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
    }  # fmt: skip


def select(group: str, only: str) -> Iterator[Kernel]:
    return (k for k in KERNELS.values() if fnmatchcase(k.group, group) and fnmatchcase(k.name, only))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", default="*")
    parser.add_argument("--only", default="*")
    parser.add_argument("--level", choices=["full", "quick"], default="full")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json")
    given = parser.parse_args()
    wrongly = 0
    for kernel in select(given.group, given.only):
        if given.list:
            print(f"{'wrong' if kernel.wrong else 'right'}  {kernel.group:22} {kernel.name:44} {kernel.story}")
            continue
        try:
            row = judge(kernel, quick=given.level == "quick")
        except Exception as error:
            row = {
                "name": kernel.name,
                "group": kernel.group,
                "wrong": kernel.wrong,
                "code": -1,
                "ids": [f"{type(error).__name__}: {error}"],
                "cpu": 0,
                "asked": 0,
            }
        word = {(True, 0): "MISSED", (True, 1): "found", (False, 0): "passes", (False, 1): "ACCUSED"}.get(
            (kernel.wrong, row["code"]), f"CODE {row['code']}"
        )
        wrongly += word.isupper()
        print(f"{word:8} {kernel.group:20} {kernel.name:42} {row['asked']:7} {row['cpu']:6} {' '.join(row['ids'][:3])[:110]}", flush=True)
        if given.json:
            with Path(given.json).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    return wrongly


if __name__ == "__main__":
    sys.exit(main())
