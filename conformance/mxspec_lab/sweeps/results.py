"""What is known of each swept function: records, and the JSON files that hold them.

One file for each function, with the runs, a BLAKE2b-128 digest of the exact answer's bytes for each 2**24 inputs, and for
each witness the inputs that it was compared on and the differences; `index.json` sums them up.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mxspec
from mxspec.stepfunctions import StepFunction
from mxspec_conformance.campaign.chunks import format_chunks, parse_chunks
from mxspec_conformance.results.environment import describe_machine
from mxspec_lab import cuda_headers
from mxspec_lab.sweeps.functions import CHUNK, CHUNK_BITS, all_functions
from mxspec_lab.sweeps.references import Compared, Exclusion, Witness, count_excluded
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import read_json
from mxspec_vectors.writing import make_folders

SCHEMA = "mxspec-sweep/1"
INDEX_SCHEMA = "mxspec-sweep-index/1"


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """One chunk of one function."""

    function: str
    chunk: int
    digest: str
    compared: dict[str, Compared]


def describe_provenance(*, with_headers: bool) -> dict[str, str]:
    """Who computed: versions, platform, processor, date."""
    packages = {}
    for name in ("numpy", "ml_dtypes", "torch", "torchao"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "mxspec": mxspec.__version__,
        "python": platform.python_version(),
        **packages,
        **(cuda_headers.describe() if with_headers else {}),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": describe_machine()["processor"],
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


@dataclass(slots=True)
class WitnessResult:
    """A witness of a function, summed over the chunks."""

    version: str
    exclusions: tuple[Exclusion, ...] = ()
    #: Chunk -> differences and the first of them in words, of every chunk that it was compared on.
    chunks: dict[int, tuple[int, str]] = field(default_factory=dict)

    @property
    def inputs(self) -> int:
        """Inputs that it was compared on."""
        return sum(CHUNK - count_excluded(self.exclusions, c * CHUNK, (c + 1) * CHUNK) for c in self.chunks)

    @property
    def differences(self) -> int:
        """Inputs on which it differs."""
        return sum(n for n, _ in self.chunks.values())

    @property
    def first(self) -> str:
        """The first difference in words, or ""."""
        return next((text for _, (n, text) in sorted(self.chunks.items()) if n), "")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form; chunks without a difference are left out."""
        return {
            "version": self.version, "chunks": format_chunks(self.chunks), "inputs": self.inputs, "differences": self.differences,
            "differing_chunks": [
                {"chunk": c, "differences": n, "first": text} for c, (n, text) in sorted(self.chunks.items()) if n
            ],
            "excluded": [
                {"from": f"{e.first:08x}", "to": f"{e.last:08x}", "inputs": e.last - e.first + 1, "reason": e.reason} for e in self.exclusions
            ],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> WitnessResult:
        """The inverse of `as_dict`."""
        counts = dict.fromkeys(parse_chunks(d["chunks"]), (0, ""))
        counts |= {int(c["chunk"]): (int(c["differences"]), c["first"]) for c in d["differing_chunks"]}
        excluded = tuple(Exclusion(int(e["from"], 16), int(e["to"], 16), e["reason"]) for e in d["excluded"])
        return cls(d["version"], excluded, counts)


@dataclass(slots=True)
class FunctionResult:
    """What is known of one function."""

    name: str
    definition: dict[str, Any]
    steps: StepFunction
    digests: dict[int, str] = field(default_factory=dict)
    witnesses: dict[str, WitnessResult] = field(default_factory=dict)
    #: One entry for each run that added something: versions, and the chunks it worked on.
    provenance: list[dict[str, str]] = field(default_factory=list)

    @property
    def chunk_count(self) -> int:
        """Chunks that the function has."""
        return self.steps.stop // CHUNK

    @property
    def complete(self) -> bool:
        """Whether the array model was compared on every input."""
        model = self.witnesses.get("array-model")
        return model is not None and len(model.chunks) == self.chunk_count == len(self.digests)

    def add(self, result: ChunkResult, found: dict[str, Witness], provenance: dict[str, str]) -> None:
        """Take in a chunk that a run of this provenance computed."""
        self.digests[result.chunk] = result.digest
        entry = next((p for p in self.provenance if {**p, "chunks": ""} == {**provenance, "chunks": ""}), None)
        if entry is None:
            entry = {**provenance, "chunks": ""}
            self.provenance.append(entry)
        entry["chunks"] = format_chunks({*parse_chunks(entry["chunks"]), result.chunk})
        for name, compared in result.compared.items():
            w = found[name]
            own = self.witnesses.setdefault(name, WitnessResult(w.version, w.exclusions))
            own.chunks[result.chunk] = compared.differences, compared.first

    def take_over(self, other: FunctionResult, found: Mapping[str, Witness]) -> None:
        """Add the chunks that another result of the same steps has and this one lacks."""
        self.digests = other.digests | self.digests
        for name, theirs in other.witnesses.items():
            now = found.get(name)
            if now is not None and (theirs.version, theirs.exclusions) != (now.version, now.exclusions):
                continue  # it is asked again
            mine = self.witnesses.setdefault(name, theirs)
            if (mine.version, mine.exclusions) == (theirs.version, theirs.exclusions):
                mine.chunks = theirs.chunks | mine.chunks
        for entry in other.provenance:
            same = next((p for p in self.provenance if {**p, "chunks": ""} == {**entry, "chunks": ""}), None)
            if same is None:
                self.provenance.append(entry)
            else:
                same["chunks"] = format_chunks({*parse_chunks(same["chunks"]), *parse_chunks(entry["chunks"])})

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "schema": SCHEMA, "function": self.name, "definition": self.definition, "pattern_count": self.steps.stop, "chunk_bits": CHUNK_BITS,
            "runs": self.steps.as_text(), "runs_digest": self.steps.digest,
            "digest": "BLAKE2b-128 of the exact answer, one byte for each pattern of the chunk",
            "chunks": format_chunks(self.digests), "digests": [d for _, d in sorted(self.digests.items())],
            "witnesses": {n: w.as_dict() for n, w in self.witnesses.items()}, "provenance": self.provenance,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> FunctionResult:
        """The inverse of `as_dict`.

        Raises ValueError for another schema.
        """
        if d.get("schema") != SCHEMA or d.get("chunk_bits") != CHUNK_BITS:
            raise ValueError(f"schema {d.get('schema')!r} is not {SCHEMA!r}")
        steps, digests = (
            StepFunction.from_text(d["runs"], int(d["pattern_count"])),
            zip(parse_chunks(d["chunks"]), d["digests"], strict=True),
        )
        witnesses = {n: WitnessResult.from_dict(w) for n, w in d["witnesses"].items()}
        return cls(d["function"], d["definition"], steps, dict(digests), witnesses, d["provenance"])


def result_path(out: Path, name: str) -> Path:
    """The file of a function."""
    return out / f"{name}.json"


def write_json(path: Path, value: Any) -> None:
    """Canonical JSON, written to a temporary file that then takes the name."""
    write_file(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode("utf-8"))


def merge_result(out: Path, result: FunctionResult, found: Mapping[str, Witness]) -> None:
    """Write a function's result, with the chunks that another run has put there meanwhile. found: the witnesses of now."""
    path = result_path(out, result.name)
    made = make_folders(path.parent)
    try:
        with _alone(path.parent):
            there = read_result(out, result.name)
            if there is not None and there.steps.digest == result.steps.digest and there.definition == result.definition:
                result.take_over(there, found)
            write_json(path, result.as_dict())
    except BaseException:
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # somebody else's files are in it
                folder.rmdir()
        raise


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time works in a folder; where folders cannot be locked, as before."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_result(out: Path, name: str) -> FunctionResult | None:
    """A function's result, or None where there is none or its file cannot be read."""
    path = result_path(out, name)
    if not path.is_file():
        return None
    try:
        return FunctionResult.from_dict(read_json(path))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
        return None


def read_results(out: Path) -> dict[str, FunctionResult]:
    """All results below a folder that can be read, by the function's name."""
    names = [path.relative_to(out).with_suffix("").as_posix() for path in sorted(out.glob("*/**/*.json"))]
    return {name: result for name in names if (result := read_result(out, name)) is not None}


def write_index(out: Path) -> dict[str, Any]:
    """Sum up a folder in its index.json, and return that."""
    results = read_results(out)
    rows = {
        name: {
            "chunks": f"{len(r.digests)}/{r.chunk_count}", "complete": r.complete, "runs": len(r.steps.values), "runs_digest": r.steps.digest,
            "witnesses": {n: {"inputs": w.inputs, "differences": w.differences} for n, w in r.witnesses.items()},
        }
        for name, r in results.items()
    }  # fmt: skip
    totals: dict[str, dict[str, int]] = {}
    for r in results.values():
        for n, w in r.witnesses.items():
            total = totals.setdefault(n, {"functions": 0, "inputs": 0, "differences": 0})
            total["functions"] += 1
            total["inputs"] += w.inputs
            total["differences"] += w.differences
    known = set(all_functions())
    index = {
        "schema": INDEX_SCHEMA, "functions": rows, "totals": totals, "complete": sum(bool(r["complete"]) for r in rows.values()),
        "missing": sorted(known - set(rows)), "obsolete": sorted(set(rows) - known),
    }  # fmt: skip
    write_json(out / "index.json", index)
    return index
