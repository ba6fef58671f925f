"""Committed JSON files as one collection: results of implementations, and what other commands measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mxspec_conformance.atlas.entries import Entry, is_current, make_entry
from mxspec_conformance.atlas.findings import SCHEMA as FINDINGS_SCHEMA, Finding, read_findings
from mxspec_conformance.atlas.shapes import check_shape
from mxspec_conformance.mutants import list_mutants
from mxspec_conformance.results.report import SCHEMA as RESULT_SCHEMA
from mxspec_vectors.digests import content_digest
from mxspec_vectors.files import VectorError, list_result_digests
from mxspec_vectors.reading import read_json

#: Results by the commands that make them, which the site draws if it is given them: schema or key -> name.
PRODUCTS_SCHEMA = "mxspec-products/1"
OTHERS = {
    "mxspec-atlas-interop/1": "interop", "mxspec-atlas-model/1": "model", "mxspec-atlas-attribution/1": "attribution",
    "mxspec-attribution/1": "attribution", "mxspec-explorer/1": "explorer", "mxspec-threads/1": "threads", "mxspec-atlas-transformer/1": "transformer",
}  # fmt: skip


@dataclass(slots=True)
class Collection:
    """All data of a site."""

    entries: list[Entry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    #: By name: other measurements, as their documents are.
    others: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Files that hold nothing for the site, and why.
    left: list[tuple[str, str]] = field(default_factory=list)
    #: Results that a newer one of the same name, version and device replaces.
    older: list[Entry] = field(default_factory=list)


def read_collection(paths: Iterable[Path]) -> Collection:
    """Everything in files, and in all JSON files below folders.

    Raises ValueError, naming the file, for what says that it is a result or a measurement and is not.
    """
    collection = Collection()
    digests = list_result_digests()
    for path in _list_files(paths):
        content = read_json(path)
        for document in content if isinstance(content, list) else [content]:
            if isinstance(document, Mapping):
                _add(collection, document, path, digests)
            else:
                collection.left.append((str(path), f"it holds {type(document).__name__}, not an object"))
    collection.entries, collection.older = _choose(collection.entries)
    known = {(e.name, e.version) for e in collection.entries}
    missing = [f.id for f in collection.findings if f.target and not any(name == f.target for name, _ in known)]
    if missing:
        raise ValueError(f"findings {', '.join(missing)} name targets of which no result was given; add the results")
    mutants = {mutant.id for mutant in list_mutants()} if collection.findings else set()
    unknown = [f"{f.id}: {f.mutant}" for f in collection.findings if f.mutant and f.mutant not in mutants]
    if unknown:
        raise ValueError(
            f"findings name mutants that the catalogue has not: {', '.join(unknown)}; `python -m mxspec_lab mutants --list` lists them"
        )
    return collection


def _list_files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*.json") if p.is_file())
        else:
            yield path


def _add(collection: Collection, document: Mapping[str, Any], path: Path, digests: set[str]) -> None:
    schema = document.get("schema")
    uses = _list_uses(document.get("uses"))
    if schema == RESULT_SCHEMA:
        _add_result(collection, document, path, digests, uses)
    elif schema == PRODUCTS_SCHEMA:
        names = {key: str(document.get(key, "")) for key in ("about", "file")}
        names["variables"] = "".join(f"{name}={value} " for name, value in document.get("variables", {}).items())
        _add_result(collection, document.get("check"), path, digests, uses, **names)
    elif isinstance(document.get("checks"), list):  # what `run_peers.py` writes of a library
        for result in document["checks"]:
            _add_result(collection, result, path, digests, uses)
    elif schema == FINDINGS_SCHEMA:
        collection.findings += read_findings(document, str(path))
    elif isinstance(schema, str) and schema in OTHERS:
        _add_other(collection, OTHERS[schema], document, path)
    elif _is_pairs(document):
        _add_other(collection, "pairs", document, path)
    elif _is_bench(document):
        _add_other(collection, "bench", document, path)
    elif _is_kill_matrix(document):
        _add_other(collection, "kills", document, path)
    else:
        collection.left.append((str(path), f"its schema is {schema!r}, which the site does not draw" if schema else "it names no schema"))


def _add_other(collection: Collection, name: str, document: Mapping[str, Any], path: Path) -> None:
    check_shape(name, document, str(path))
    collection.others[name] = document


def _add_result(collection: Collection, document: object, path: Path, digests: set[str], uses: Sequence[Any] | None, **about: str) -> None:
    if not isinstance(document, Mapping):
        raise ValueError(f"{path}: a result is a JSON object, not {type(document).__name__}; write the file again by its command")
    if document.get("kind") != "check":
        collection.left.append((str(path), f"it is a result of {document.get('kind')}, not of check"))
        return
    try:
        # A committed result names the cases that it used; products are drawn, so theirs names none.
        current = is_current(document, digests) or (uses is not None and all(map(_is_unchanged, uses)))
        collection.entries.append(make_entry(document, source=str(path), current=current, **about))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _list_uses(uses: object) -> Sequence[Any] | None:
    """The cases that a committed result names; None where it names none, or something else."""
    vectors = uses.get("vectors", ()) if isinstance(uses, Mapping) else None
    return vectors if isinstance(vectors, (list, tuple)) else None


def _is_unchanged(use: object) -> bool:
    """Whether the cases that a committed result names, and the answers of its profiles, are still those of the vectors."""
    if not isinstance(use, Mapping) or not all(isinstance(use.get(key), str) for key in ("operation", "format", "digest")):
        return False
    try:
        return bool(content_digest(use["operation"], use["format"], use.get("profiles")) == use["digest"])
    except (VectorError, TypeError):  # a file that there is not, profiles that are no names
        return False


def _choose(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The newest result of each implementation, version and device, and all others."""
    newest: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        held = newest.get(entry.identity)
        if held is None or _time(entry) > _time(held):
            newest[entry.identity] = entry
    chosen = sorted(newest.values(), key=lambda e: (e.name.lower(), e.device, e.version))
    return chosen, [entry for entry in entries if newest[entry.identity] is not entry]


def _time(entry: Entry) -> str:
    return str(entry.report.environment.get("time", ""))


def _is_pairs(document: Mapping[str, Any]) -> bool:
    formats = document.get("formats")
    return isinstance(formats, Mapping) and all(isinstance(f, Mapping) and "pairs" in f for f in formats.values())


def _is_bench(document: Mapping[str, Any]) -> bool:
    return {"device", "rows", "tasks", "mixes"} <= set(document)


def _is_kill_matrix(document: Mapping[str, Any]) -> bool:
    return {"catalogue", "mutants", "levels"} <= set(document)
