"""Lines of Python by package: at commit 273d046, now, the ceiling that `make lint` holds, and the goal.

python -m tests.budget

A ceiling moves down with what is deleted, never up: what escapes the judge is mended by a value on an axis or an entry in a catalogue.
Exit code 1 where a package is above its ceiling.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a folder had, may have and should have, in lines of Python."""

    folder: str
    before: int
    ceiling: int
    goal: int


BUDGETS = (
    Budget("mxspec", 24_702, 25_818, 20_000),
    Budget("vectors", 6_928, 7_206, 5_000),
    Budget("conformance", 80_193, 85_543, 46_000),
    Budget("conformance/mxspec_conformance/judge", 18_164, 23_163, 9_000),
    Budget("conformance/mxspec_conformance/adapters", 4_412, 4_776, 3_800),
    Budget("conformance/mxspec_lab", 18_222, 12_400, 6_000),
    Budget("gpu", 7_888, 8_806, 6_500),
    Budget("tests", 66_954, 76_835, 40_000),
)


def count_lines(folder: str) -> int:
    """Lines of the Python files under a folder of the repository."""
    return sum(len(path.read_bytes().splitlines()) for path in (ROOT / folder).rglob("*.py"))


def main() -> int:
    """Print the table; 1 where a package is above its ceiling."""
    print(f"{'folder':40} {'273d046':>8} {'now':>8} {'ceiling':>8} {'goal':>8}")
    over = []
    for budget in BUDGETS:
        now = count_lines(budget.folder)
        over += [budget.folder] * (now > budget.ceiling)
        print(f"{budget.folder:40} {budget.before:8,} {now:8,} {budget.ceiling:8,} {budget.goal:8,}")
    if over:
        print(f"above the ceiling: {', '.join(over)}; delete as many lines as you add (CONTRIBUTING.md, Rules)", file=sys.stderr)
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
