"""Which tests a run takes: of each test function as many parameter sets as its share of the run pays for.

`tests/seconds.json` holds the CPU seconds of one parameter set of each function. `make test` takes of every function what fits into
`QUICK` seconds. `make test-long` takes the rest, of a function with more than `LONG` seconds of it a share that changes with the seed:
one commit has one selection. `make test-all` leaves out nothing.

python -m tests.seconds    measures all functions again, two sets of each, and writes tests/seconds.json.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Protocol, TypeVar
from zlib import crc32

import pytest

from mxspec_vectors.files import write_file

PATH = Path(__file__).with_suffix(".json")
#: CPU seconds of one test function in `make test`, and in `make test-long`.
QUICK, LONG = 0.3, 0.65
#: Parameter sets of one function that are measured.
MEASURED = 2
#: The environment variable that names the file of what is measured.
FILE = "MXSPEC_SECONDS"
#: The functions that this run collected.
COLLECTED = pytest.StashKey[set[str]]()


class Collected(Protocol):
    """What pytest collects."""

    @property
    def nodeid(self) -> str:
        """The name of a test with its parameter set."""

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """A mark of the test; `share(seconds)`: what its function may take of `make test-long` instead of `LONG`."""


Item = TypeVar("Item", bound=Collected)


def function_of(item: Collected) -> str:
    """The test function of a test."""
    return item.nodeid.partition("[")[0]


def group(items: Sequence[Item]) -> Mapping[str, list[Item]]:
    """Tests by their function, in the order in which they were collected."""
    functions: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        functions[function_of(item)].append(item)
    return functions


def choose_spread(items: Sequence[Item], number: int) -> list[Item]:
    """So many of them, spread evenly."""
    return [items[place * len(items) // number] for place in range(min(number, len(items)))]


@cache
def read_seconds() -> Mapping[str, float]:
    """Function -> CPU seconds of one parameter set; one that is not listed takes no time worth counting."""
    seconds: dict[str, float] = json.loads(PATH.read_text("utf-8"))
    return seconds


def list_quick(items: Sequence[Item], seconds: Mapping[str, float]) -> list[Item]:
    """What `make test` takes: of each function as much as `QUICK` seconds pay for."""
    quick: list[Item] = []
    for name, sets in group(items).items():
        one = seconds.get(name, 0.0)
        quick += sets if one * len(sets) <= QUICK else choose_spread(sets, int(QUICK / one))
    return quick


def draw_long(items: Sequence[Item], seconds: Mapping[str, float], seed: int) -> list[Item]:
    """What `make test-long` takes of the rest: of a function that takes more than its share other sets with every seed, so many
    that it takes that much on average.
    """
    taken: list[Item] = []
    for name, sets in group(items).items():
        share = sets[0].get_closest_marker("share")
        every = max(1, ceil(seconds.get(name, 0.0) * len(sets) / (share.args[0] if share else LONG)))
        taken += sets[(seed + crc32(name.encode())) % every :: every]
    return taken


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Appends a line to the file of what is measured, where this module is a plugin."""
    before = _cpu_seconds()
    yield
    with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([item.nodeid, _cpu_seconds() - before]) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves some sets of each function, where this module is a plugin."""
    items[:] = [item for sets in group(items).values() for item in choose_spread(sets, MEASURED)]


def _cpu_seconds() -> float:
    usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main(arguments: Sequence[str]) -> int:
    """Measures; the exit code is pytest's. Functions of files that were not run keep their seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seconds"
        file.touch()
        command = [sys.executable, "-m", "pytest", "-p", "tests.seconds", "-m", "", "-q", "-n", "2", "--dist", "worksteal", *arguments]
        done = subprocess.run(command, env={**os.environ, FILE: str(file)}, check=False)
        measured: defaultdict[str, list[float]] = defaultdict(list)
        for line in file.read_text("utf-8").splitlines():
            nodeid, seconds = json.loads(line)
            measured[nodeid.partition("[")[0]].append(seconds)
    found = {name: round(fmean(some), 2) for name, some in measured.items()}
    kept = {**(read_seconds() if PATH.exists() else {}), **found}
    write_file(PATH, json.dumps({name: kept[name] for name in sorted(kept) if kept[name]}, indent=1).encode() + b"\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
