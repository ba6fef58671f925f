"""Verification: files against their digests, their schema, and the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from mxspec_vectors.compact import expand
from mxspec_vectors.files import VectorError, file_name, parse, read_index, read_vectors, render, total_digest, vectors_root
from mxspec_vectors.generate import build_document, list_files
from mxspec_vectors.reading import UnreadableFile
from mxspec_vectors.schemas import Check, Violation, compile_schema, first_violation


def load_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one operation, or of the index."""
    schema: dict[str, Any] = json.loads(files("mxspec_vectors").joinpath(f"schema/{name}.schema.json").read_text("ascii"))
    return schema


def verify(root: Path | None = None, *, model: bool = True, progress: Callable[[str], None] = lambda _: None) -> list[str]:
    """Problems found, in words; an empty list means that all is well.

    model: also rebuild every file and compare.
    Raises VectorError where the index itself cannot be read.
    """
    folder = root or vectors_root()
    index = read_index(folder)
    problems: list[str] = []
    problems += [f"index.json: {message}" for message in validate("index", index)]
    if problems:
        return problems
    expected = {file_name(operation, fmt): (operation, fmt) for operation, fmt in list_files()}
    for name in sorted(set(expected) ^ set(index["files"])):
        problems.append(f"{name}: {'missing from' if name in expected else 'unknown, but in'} the index")
    if total_digest(index["files"]) != index.get("digest"):
        problems.append("index.json: digest is not that of the files listed")
    for name, (operation, fmt) in expected.items():
        if name not in index["files"]:
            continue
        progress(name)
        path = folder / name
        try:
            data = read_vectors(path)
        except (FileNotFoundError, NotADirectoryError):
            problems.append(f"{name}: does not exist")
            continue
        except UnreadableFile as error:
            problems.append(str(error))
            continue
        if hashlib.sha256(data).hexdigest() != index["files"][name]["sha256"]:
            problems.append(f"{name}: SHA-256 differs from the index; the file is truncated or edited")
            continue
        try:
            stored = parse(data, name)
        except VectorError as error:
            problems.append(str(error))
            continue
        errors = [f"{name}: {message}" for message in islice(validate(operation, stored), 5)]
        if errors:
            problems += errors
            continue
        try:
            expand(stored)
        except VectorError as error:
            problems.append(str(error))
        unknown = {f for group in stored["groups"] for f in group["flags"]} - set(stored["flags"])
        if unknown:
            problems.append(f"{name}: flags without a note: {', '.join(sorted(unknown))}")
        if model and render(build_document(operation, fmt)) != data:
            problems.append(f"{name}: differs from what the model gives today; run `mxspec vectors build`")
    return problems


def validate(name: str, stored: Any) -> Iterator[str]:
    """What is wrong with the JSON object of an operation's file, or of the index, by its schema."""
    for violation in _checker(name)(stored):
        yield f"{'/'.join(map(str, violation.path))}: {violation.message[:120]}".removeprefix(": ")


@cache
def _checker(name: str) -> Check:
    return compile_schema(load_schema(name))


def find_violation(name: str, stored: Any) -> Violation | None:
    """What is wrong with the JSON object of an operation's file nearest to the whole; None where nothing is."""
    return first_violation(_checker(name), stored)


__all__ = ["find_violation", "load_schema", "validate", "verify"]
