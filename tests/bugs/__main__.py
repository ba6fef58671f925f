"""List every bug that the tests know: `python -m tests.bugs [--ids]`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mxspec_conformance.mutants import list_mutants

from tests.bugs import MODULES
from tests.corpora.independent.entries import BUGS, key_of


def list_all() -> Iterator[tuple[str, str, str]]:
    """(catalogue, id, what) of each."""
    for module in MODULES:
        for entry in module.ENTRIES:
            yield module.__name__, entry.id, entry.what
    for mutant in list_mutants():
        yield "mxspec_conformance.mutants", mutant.id, mutant.what
    for bug in BUGS:
        yield "tests.corpora.independent", key_of(bug), bug.story


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", action="store_true", help="each one with its id and what it is")
    listed = list(list_all())
    if parser.parse_args().ids:
        print(*(f"{catalogue}\t{name}\t{what}" for catalogue, name, what in listed), sep="\n")
    for catalogue in dict.fromkeys(c for c, _, _ in listed):
        print(f"{sum(c == catalogue for c, _, _ in listed):6} {catalogue}")
    print(f"{len(listed):6} in all")


if __name__ == "__main__":
    main()
