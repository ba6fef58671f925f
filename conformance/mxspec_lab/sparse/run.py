"""Judge every sparse mutant and every right implementation, and publish the counts.

python -m mxspec_lab.sparse.run [--json reports/mutants/sparse.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxspec_conformance.judge.sparse import judge_sparse
from mxspec_conformance.results.report import GOOD, Requirement, Verdict
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.evidence.status import write_result
from mxspec_lab.sparse.mutants import MUTANTS
from mxspec_lab.sparse.plain import SparseVariant
from mxspec_lab.sparse.right import RIGHT

SCHEMA = "mxspec-sparse-mutants/1"


@dataclass(frozen=True, slots=True)
class Instance:
    """A mutant in one format."""

    mutant: SparseVariant
    format: str

    @property
    def name(self) -> str:
        """mutant/function/format."""
        return f"{self.mutant.id}/{self.mutant.function}/{self.format}"

    def judge(self) -> list[Requirement]:
        """The requirements of its function."""
        session = InProcessSession(self.mutant.build((self.format,)), self.mutant.id)
        return judge_sparse(session, self.mutant.function, self.format)


def list_instances() -> Iterator[Instance]:
    """Every mutant in every format that it is judged in."""
    for mutant in MUTANTS:
        yield from (Instance(mutant, fmt) for fmt in mutant.formats)


def list_accused(requirements: list[Requirement]) -> list[Requirement]:
    """Requirements that do not pass, and are not open."""
    return [r for r in requirements if r.verdict not in GOOD]


def judge_right(right: SparseVariant) -> list[Requirement]:
    """The requirements of a right implementation."""
    session = InProcessSession(right.build(right.formats), right.id)
    return [r for function in ("prune", "compress", "decompress") for fmt in right.formats for r in judge_sparse(session, function, fmt)]


def make_document() -> dict[str, Any]:
    """What is published."""
    started = time.process_time()
    instances = []
    for instance in list_instances():
        accused = list_accused(instance.judge())
        mutant = instance.mutant
        instances.append({
            "mutant": mutant.id, "operation": mutant.function, "format": instance.format, "source": mutant.source,
            "what": mutant.what, "topics": {r.topic: r.failing for r in accused},
            "named": sorted({r.note for r in accused if r.note}),
        })  # fmt: skip
    rights = []
    for right in RIGHT:
        requirements = judge_right(right)
        rights.append({
            "id": right.id, "what": right.what, "formats": list(right.formats), "requirements": len(requirements),
            "passed": sum(r.verdict is Verdict.PASS for r in requirements),
            "accused": [r.id for r in list_accused(requirements)],
        })  # fmt: skip
    return {
        "schema": SCHEMA,
        "counts": {
            "mutants": len(MUTANTS), "instances": len(instances), "killed": sum(bool(i["topics"]) for i in instances),
            "right": len(rights), "accused": sum(bool(r["accused"]) for r in rights),
        },
        "seconds": round(time.process_time() - started, 1),
        "instances": instances,
        "right": rights,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Print the counts, and write them; returns 1 where a mutant survives or a right implementation is accused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    document = make_document()
    for row in document["instances"]:
        if not row["topics"]:
            print(f"survives: {row['mutant']}/{row['operation']}/{row['format']}: {row['what']}")
    for row in document["right"]:
        if row["accused"]:
            print(f"accused: {row['id']}: {', '.join(row['accused'][:6])}")
    print(json.dumps(document["counts"]))
    if given.json:
        write_result(given.json, document)
    counts = document["counts"]
    return int(counts["killed"] < counts["instances"] or counts["accused"] > 0)


if __name__ == "__main__":
    sys.exit(main())
