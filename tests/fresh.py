"""Vector files, committed, or computed from the model once a run: the first test process that wants one builds it, the others
wait."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from mxspec_vectors.compact import expand
from mxspec_vectors.files import file_name, render, total_digest, vectors_root
from mxspec_vectors.generate import build_document, list_files

#: Seconds to wait for another process that builds a file.
PATIENCE = 180


class Stored:
    """The committed vector files by operation and format."""

    def __init__(self) -> None:
        self.document = lru_cache(maxsize=8)(self._document)

    def data(self, operation: str, fmt: str) -> bytes:
        """A file's bytes."""
        return (vectors_root() / file_name(operation, fmt)).read_bytes()

    def _document(self, operation: str, fmt: str) -> dict[str, Any]:
        return expand(json.loads(self.data(operation, fmt)))


class Fresh:
    """Vector files computed from the model, by operation and format."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.data = lru_cache(maxsize=None)(self._data)
        self.document = lru_cache(maxsize=8)(self._document)

    def _path(self, operation: str, fmt: str) -> Path:
        return self._folder / f"{operation}-{fmt}.json"

    def _build(self, operation: str, fmt: str) -> bool:
        """Build a file that is neither built nor being built."""
        path = self._path(operation, fmt)
        taken = path.with_suffix(".taken")
        try:
            os.close(os.open(taken, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        try:
            if path.exists():
                return False
            path.with_suffix(".new").write_bytes(render(build_document(operation, fmt)))
            path.with_suffix(".new").replace(path)
        finally:
            taken.unlink()
        return True

    def _data(self, operation: str, fmt: str) -> bytes:
        deadline = time.monotonic() + PATIENCE
        path = self._path(operation, fmt)
        # While another process builds this one, build one that will be needed later.
        while not path.exists():
            assert time.monotonic() < deadline, f"{path.name} was not built within {PATIENCE} s"
            if not self._build(operation, fmt) and not any(
                self._build(*other) for other in list_files() if not self._path(*other).exists()
            ):
                time.sleep(0.02)
        return path.read_bytes()

    def _document(self, operation: str, fmt: str) -> dict[str, Any]:
        return expand(json.loads(self.data(operation, fmt)))


def open_fresh(factory: pytest.TempPathFactory) -> Fresh:
    """The folder that all processes of this run share."""
    base = factory.getbasetemp()
    return Fresh((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fresh-vectors")


def write_index(root: Path, names: Iterable[str]) -> None:
    """An index over vector files below a root."""
    entries = {}
    for name in names:
        data = (root / name).read_bytes()
        cases = len(expand(json.loads(data))["cases"])
        entries[name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "cases": cases}
    index = {
        "schema": "mxspec-vectors/v1/index",
        "licence": "CC0-1.0",
        "digest": total_digest(entries),
        "cases": sum(e["cases"] for e in entries.values()),
        "files": entries,
    }
    (root / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="ascii")


__all__ = ["Fresh", "Stored", "file_name", "open_fresh", "write_index"]
