"""The builder: inputs from `inputs`, answers from the model, files in canonical bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxspec
from mxspec_vectors.files import (
    OPERATIONS,
    VERSION,
    Document,
    VectorError,
    check_replaceable,
    file_name,
    read_vectors,
    render,
    total_digest,
    vectors_root,
    write_file,
    write_tree,
)
from mxspec_vectors.generate import build_document, list_files
from mxspec_vectors.profile_order import extend_order, order_path, read_order, render_order

Progress = Callable[[str], None]


def build_all(progress: Progress = lambda _: None) -> dict[str, bytes]:
    """Every file's canonical bytes, the index included."""
    contents: dict[str, bytes] = {}
    entries: dict[str, dict[str, Any]] = {}
    for operation, fmt in list_files():
        name = file_name(operation, fmt)
        progress(name)
        document = build_document(operation, fmt)
        exhaustive = document.get("exhaustive", [])
        ids = [c["id"] for c in (*document["cases"], *exhaustive)]
        if len(set(ids)) != len(ids):
            raise VectorError(f"{name}: two cases have one id: {sorted({i for i in ids if ids.count(i) > 1})[:3]}")
        data = render(document)
        contents[name] = data
        entries[name] = {
            "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "cases": len(document["cases"]),
            **({"exhaustive": len(exhaustive)} if exhaustive else {}),
        }  # fmt: skip
    index: Document = {
        "schema": f"mxspec-vectors/{VERSION}/index",
        "licence": "CC0-1.0",
        "digest": total_digest(entries),
        "cases": sum(e["cases"] for e in entries.values()),
        "files": entries,
    }
    contents["index.json"] = (json.dumps(index, indent=1) + "\n").encode("ascii")
    return contents


def collect_ids(contents: dict[str, bytes]) -> set[str]:
    """`file id` of every case; of a damaged file, of those cases whose id can still be read."""
    return {
        f"{name} {found.decode('ascii')}"
        for name, data in contents.items()
        if "/" in name
        for found in re.findall(rb'^,?\{"id":"([!#-~]+)"', data, re.MULTILINE)
    }


def read_contents(root: Path) -> dict[str, bytes]:
    """The bytes of every vector file of a built tree, damaged or not; empty where there is no tree."""
    found = {p.with_name(p.name.removesuffix(".gz")) for operation in OPERATIONS for p in (root / operation).glob("*.json*")}
    return {p.relative_to(root).as_posix(): read_vectors(p) for p in sorted(found)}


def read_tombstones(root: Path) -> set[str]:
    """Ids that were removed on purpose, as `file id`: by the list next to a tree and by this package's own."""
    paths = {root.parent / "tombstones.json", vectors_root().parent / "tombstones.json"}
    lists = [json.loads(p.read_text("ascii"))["removed"] for p in paths if p.exists()]
    return {f"{t['file']} {t['id']}" for removed in lists for t in removed}


def build(root: Path | None = None, progress: Progress = lambda _: None) -> Document:
    """Build all vectors into a folder (by default the package's own), replacing it as a whole; returns the index.

    Profiles that are new join `profile_order.json`, where the package's own vectors are built.
    Raises VectorError when an id that exists would disappear without standing in tombstones.json: v1 only grows.
    """
    target = root or vectors_root()
    check_replaceable(target)
    before = read_contents(target)
    contents = build_all(progress)
    lost = collect_ids(before) - collect_ids(contents) - read_tombstones(target)
    if lost:
        raise VectorError(
            f"{len(lost)} ids would disappear, {sorted(lost)[0]!r} among them; v1 only grows: "
            "keep the cases, or list each removed id with its reason in tombstones.json"
        )
    write_tree(target, contents.items())
    order = extend_order([p.id for p in mxspec.list_profiles()])
    if target == vectors_root() and order != read_order():
        write_file(order_path(), render_order(order))
        read_order.cache_clear()
    index: Document = json.loads(contents["index.json"])
    return index


__all__ = ["build", "build_all", "build_document", "list_files"]
