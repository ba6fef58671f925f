"""A vendor's device functions, built for the host, against the profiles that were read from their source.

    python -m tests.peers.vendor RECORD... --source NAME=FOLDER... [--write | --json FILE]

A RECORD (tests/peers/vendor/record.py says what one holds) names a shared library that somebody built from a vendor's
source, the regions of that source with their digests, and what in the library is not the vendor's. Nothing is fetched or built
here: the checkouts are read to see that the regions are in them, and the library's functions are asked every block of the
vectors, random ones, and blocks at the thresholds of scales and codes. `--write` writes reports/vendor/device.json.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.crosscheck import Comparison
from mxspec_lab.evidence.status import REPORTS, render_result, write_result
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest

from tests.peers.vendor.asking import ask
from tests.peers.vendor.record import Function, Record, RecordError, read_record, verify_sources

RESULT = REPORTS / "vendor" / "device.json"


def make_row(function: Function, common: Comparison, chosen: Comparison) -> dict[str, Any]:
    """A function's line of the result."""
    return {
        "profile": function.profile, "format": function.format, "dtype": function.dtype, "runs": function.runs,
        "tensor": None if function.tensor is None else function.tensor.value, "blocks": common.blocks, "threshold_blocks": chosen.blocks,
        "different": common.different + chosen.different, "refused": common.refused + chosen.refused,
        "first": common.first or chosen.first,
    }  # fmt: skip


def sum_profiles(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Counts by profile, in the order of the rows."""
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = sums.setdefault(row["profile"], {"profile": row["profile"], "blocks": 0, "different": 0, "refused": 0})
        total["blocks"] += row["blocks"] + row["threshold_blocks"]
        total["different"] += row["different"]
        total["refused"] += row["refused"]
    return list(sums.values())


def make_document(records: Sequence[Record], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The result."""
    return {
        "what": "device functions of vendors, built by another compiler, against the profiles read from their source: every byte",
        "vectors": vector_digest(operations=NUMERIC_OPERATIONS),
        "environment": describe_environment(),
        "compilers": sorted({r.compiler for r in records}),
        "headers": sorted({r.headers for r in records}),
        "sources": [asdict(s) for s in sorted({s for r in records for s in r.sources}, key=lambda s: (s.name, s.commit))],
        "instructions": sorted({i for r in records for i in r.instructions}),
        "replaced": sorted({i for r in records for i in r.replaced}),
        "profiles": sum_profiles(rows),
        "functions": list(rows),
        "regions": [{"source": name} | asdict(region) for r in records for name, region in r.regions],
    }


def _read_folder(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals or not Path(folder).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER with a folder that is there")
    return name, Path(folder)


def _ask_all(record: Record) -> Iterator[dict[str, Any]]:
    """The row of every function of a library, printed as it comes.

    Raises RecordError where the library does not load or lacks a function, and ValueError as `ask` does.
    """
    try:
        library = ctypes.CDLL(str(record.library))
    except OSError as error:
        raise RecordError(f"{record.library} does not load ({error}); build it for this machine") from error
    if missing := [f.symbol for f in record.functions if not hasattr(library, f.symbol)]:
        raise RecordError(f"{record.library} does not export {', '.join(missing)}; name what it exports, without C++ mangling")
    for function in record.functions:
        row = make_row(function, *ask(function, library))
        print(
            f"{function.symbol}: {row['profile']} {row['dtype']}: {row['blocks']} + {row['threshold_blocks']} blocks, {row['different']} different"
        )
        if row["first"]:
            print(f"    first: {row['first']}")
        yield row


def main(arguments: Sequence[str]) -> int:
    """Ask every function, print a line for each, write the result where asked; 1 if any differs, 2 where nothing could be asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vendor", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="what was built, as JSON")
    parser.add_argument("--source", action="append", default=[], type=_read_folder, help="NAME=FOLDER: the checkout of a source")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(REPORTS.parent)}")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args(arguments)
    try:
        records = [read_record(path) for path in options.records]
        for record in records:
            verify_sources(record, dict(options.source))
        rows = [row for record in records for row in _ask_all(record)]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    document = make_document(records, rows)
    if options.json is not None:
        options.json.write_text(render_result(document), "ascii")
    if options.write:
        write_result(RESULT, document)
    return int(any(row["different"] or row["refused"] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
