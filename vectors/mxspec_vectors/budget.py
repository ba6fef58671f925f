"""What each byte of the vectors buys: size, cases and mutants found, by file and by topic.

    python -m mxspec_vectors.budget [--matrix reports/mutants/matrix.json] [--files] [--markdown]

A mutant is found by a topic if at least one of the topic's cases tells it from the profile; found by it alone if no case of
another topic of the operation does. Kills come from a committed matrix, which counts quantize and scale cases of one format
together: so does the table.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mxspec_vectors.files import OPERATIONS, VectorError, read_index, vectors_root

#: What the matrix calls an operation -> the operations of the files that judge it.
_JUDGED = {
    "encode_stochastic": ("stochastic",),
    "pack": ("layout",), "unpack": ("layout",), "swizzle": ("layout",), "unswizzle": ("layout",),
    "pack_blocks": ("layout",), "unpack_blocks": ("layout",),
    "quantize": ("quantize", "scale"),
}  # fmt: skip
_CASE = re.compile(rb',?\{"id":"([^"]+)"')
_GROUP = re.compile(rb',?\{"topic":"([^"]+)"')
#: The lines of a file that hold no case.
HEAD = "(head)"


@dataclass(slots=True)
class Row:
    """What a file, or a topic of an operation, costs and finds."""

    bytes: int = 0
    cases: int = 0
    kills: int = 0
    #: Mutants, by id, operation and format.
    found: set[str] = field(default_factory=set)
    #: Those that no other topic of the operation finds.
    alone: set[str] = field(default_factory=set)

    def cells(self) -> list[str]:
        """Bytes, cases, kills, mutants found, found alone, kills and mutants per KB."""
        numbers = [f"{n:,}" for n in (self.bytes, self.cases, self.kills, len(self.found), len(self.alone))]
        rates = [f"{n * 1000 / self.bytes:.2f}" if self.bytes else "-" for n in (self.kills, len(self.found))]
        return [*numbers, *rates]


def measure_topics(data: bytes) -> dict[str, tuple[int, int]]:
    """Topic -> (bytes, cases) of a vector file; HEAD for the lines without cases."""
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    topic = HEAD
    for line in data.splitlines(keepends=True):
        group = _GROUP.match(line)
        if group:
            topic = group[1].decode("ascii")
        is_case = _CASE.match(line) is not None and topic != HEAD
        sizes[topic if group or is_case or line.startswith(b"]}") else HEAD][0] += len(line)
        sizes[topic][1] += is_case
    return {name: (size, cases) for name, (size, cases) in sizes.items()}


def _instances(matrix: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, int]]]:
    """(mutant, operation of the vectors, format, kills by topic) of every judged mutant."""
    for mutant in matrix["mutants"]:
        for instance in mutant["instances"]:
            for operation in _JUDGED.get(instance["operation"], (instance["operation"],))[:1]:
                name = f"{mutant['id']}/{instance['operation']}/{instance['format']}"
                yield name, operation, instance["format"], instance["topics"]


def _together(operation: str) -> str:
    """The row of an operation: files whose kills the matrix counts together share one."""
    return "quantize + scale" if operation in ("quantize", "scale") else operation


def measure(root: Path, matrix: Mapping[str, Any]) -> tuple[dict[str, Row], dict[tuple[str, str], Row]]:
    """Rows by file, and rows by (operation, topic).

    Raises VectorError where the vectors cannot be read.
    """
    files: dict[str, Row] = {}
    topics: dict[tuple[str, str], Row] = defaultdict(Row)
    for name in read_index(root)["files"]:
        operation, _, _ = name.partition("/")
        data = (root / name).read_bytes()
        files[name] = row = Row(bytes=len(data))
        for topic, (size, cases) in measure_topics(data).items():
            row.cases += cases
            total = topics[_together(operation), topic]
            total.bytes += size
            total.cases += cases
    for name, operation, fmt, kills in _instances(matrix):
        file = files.get(f"{operation}/{fmt}.json")
        if file is not None:
            file.kills += sum(kills.values())
            file.found.add(name)
        for topic, count in kills.items():
            row = topics[_together(operation), topic]
            row.kills += count
            row.found.add(name)
            if len(kills) == 1:
                row.alone.add(name)
    return files, dict(topics)


def sum_rows(rows: Iterable[Row]) -> Row:
    """One row of many."""
    total = Row()
    for row in rows:
        total.bytes += row.bytes
        total.cases += row.cases
        total.kills += row.kills
        total.found |= row.found
        total.alone |= row.alone
    return total


_COLUMNS = ("bytes", "cases", "kills", "mutants", "alone", "kills/KB", "mutants/KB")


def list_tables(
    files: Mapping[str, Row], topics: Mapping[tuple[str, str], Row], *, every_file: bool
) -> Iterator[tuple[str, list[list[str]]]]:
    """(title, rows of cells) of each table."""
    names = dict.fromkeys(map(_together, OPERATIONS))
    by_operation = [(name, sum_rows(r for (o, _), r in topics.items() if o == name)) for name in names]
    total = sum_rows(topics.values())
    yield "operation", [[name, *row.cells()] for name, row in (*by_operation, ("all", total))]
    if every_file:
        yield "file", [[name.removesuffix(".json"), *row.cells()] for name, row in files.items()]
    order = sorted(topics.items(), key=lambda item: (item[0][0], -item[1].bytes))
    yield "operation: topic", [[f"{o}: {t}", *row.cells()] for (o, t), row in order]


def render_markdown(tables: Iterable[tuple[str, list[list[str]]]]) -> str:
    """The tables as Markdown."""
    parts = []
    for title, rows in tables:
        lines = [f"| {title} | {' | '.join(_COLUMNS)} |", "|---|" + "---:|" * len(_COLUMNS)]
        parts.append("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]))
    return "\n\n".join(parts) + "\n"


def render_text(tables: Iterable[tuple[str, list[list[str]]]]) -> str:
    """The tables in columns."""
    parts = []
    for title, rows in tables:
        cells = [[title, *_COLUMNS], *rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = ([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in cells)
        parts.append("\n".join(map("  ".join, lines)))
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mxspec_vectors.budget", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--matrix", type=Path, default=Path("reports/mutants/matrix.json"), help="committed kill matrix")
    parser.add_argument("--root", type=Path, default=None, help="folder of the vectors; by default the package's own")
    parser.add_argument("--files", action="store_true", help="also a line for each file")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    given = parser.parse_args(arguments)
    try:
        matrix = json.loads(given.matrix.read_bytes())
        files, topics = measure(given.root or vectors_root(), matrix)
    except (OSError, json.JSONDecodeError, VectorError) as error:
        parser.exit(2, f"{given.matrix}: {error}\n")
    tables = list_tables(files, topics, every_file=given.files)
    print((render_markdown if given.markdown else render_text)(tables), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
