"""Where vectors lie, how they are written, and how they are read."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

from mxspec_vectors.compact import Stored, expand, pack
from mxspec_vectors.document import VERSION, Document, VectorError, canonical_json, case_id
from mxspec_vectors.reading import MAX_DOCUMENT, NotJson, UnreadableFile, parse_json, read_regular
from mxspec_vectors.writing import naming, replace_tree, write_file, write_files

#: Operations on numbers, and on places.
NUMERIC_OPERATIONS = ("encode", "decode", "scale", "quantize", "dequantize", "stochastic")
#: Operations whose vectors a result names only where the target has a function of their kind.
FURTHER_OPERATIONS = ("quantize_affine", "dequantize_affine", "layout", "sparse", "dot")
OPERATIONS = (*NUMERIC_OPERATIONS, *FURTHER_OPERATIONS)


def vectors_root() -> Path:
    """The folder of the vectors that this package ships."""
    return Path(str(files("mxspec_vectors"))) / VERSION


def read_vectors(path: Path) -> bytes:
    """The bytes of a vector file; the wheel holds it as `NAME.json.gz`.

    Raises UnreadableFile for what is damaged or too long, FileNotFoundError where there is neither.
    """
    packed = path.with_name(f"{path.name}.gz")
    if path.exists() or not packed.exists():
        return read_regular(path)
    unpacking = zlib.decompressobj(31)  # with the header of gzip
    try:
        data = unpacking.decompress(read_regular(packed), MAX_DOCUMENT)
    except zlib.error as error:
        raise UnreadableFile(f"{packed} is no gzip file ({error}); install mxspec again") from None
    if not unpacking.eof:
        raise UnreadableFile(f"{packed} is cut short, or holds more than {MAX_DOCUMENT} bytes; install mxspec again")
    return data


def file_name(operation: str, fmt: str) -> str:
    """The name of one file below the root."""
    return f"{operation}/{fmt}.json"


def render(document: Document) -> bytes:
    """The canonical bytes of a document's file: one case to a line, keys in a fixed order, LF, ASCII.

    A line begins with the comma that parts it from the one before: what is appended changes no other line.
    Raises VectorError where recipes or tables do not give what the cases hold.
    """
    return render_stored(pack(document))


def render_stored(stored: Stored) -> bytes:
    """The canonical bytes of a file's JSON object."""
    lines = ["{"]
    for key, value in stored.items():
        comma = "" if len(lines) == 1 else ","
        rows = list(_list_rows(key, value))
        if not rows:
            lines.append(f"{comma}{json.dumps(key)}:{_one_line(value)}")
            continue
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        lines += [f"{comma}{json.dumps(key)}:{opening}", *rows, closing]
    return "\n".join([*lines, "}\n"]).encode("ascii")


def _one_line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _list_rows(key: str, value: Any) -> Iterator[str]:
    """The lines of a value that takes one for each of its members; none for others."""
    if key == "groups":
        for i, group in enumerate(value):
            head = _one_line({k: v for k, v in group.items() if k != "cases"})
            yield f'{"," if i else ""}{head[:-1]},"cases":['
            yield from ("," * bool(j) + _one_line(case) for j, case in enumerate(group["cases"]))
            yield "]}"
    elif isinstance(value, dict):
        yield from ("," * bool(i) + f"{json.dumps(k)}:{_one_line(v)}" for i, (k, v) in enumerate(value.items()))
    elif isinstance(value, list) and any(isinstance(v, dict) for v in value):
        yield from ("," * bool(i) + _one_line(v) for i, v in enumerate(value))


def parse(data: bytes, name: str) -> Stored:
    """The JSON object of a vector file or of the index.

    Raises VectorError for something else.
    """
    try:
        document = parse_json(data)
    except NotJson as error:
        raise VectorError(
            f"{name} is not JSON ({error}); it may be truncated: restore it, or rebuild with `mxspec vectors build`"
        ) from error
    if not isinstance(document, dict):
        raise VectorError(f"{name} holds a {type(document).__name__}, a vector file is one JSON object")
    return document


def read_index(root: Path | None = None) -> Document:
    """The index: every file with its SHA-256, size and number of cases, and the digest of all.

    Raises VectorError where it is missing or damaged.
    """
    path = (root or vectors_root()) / "index.json"
    try:
        data = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        raise VectorError(f"{path} does not exist; build the vectors with `mxspec vectors build`") from None
    except UnreadableFile as error:
        raise VectorError(str(error)) from None
    index = parse(data, str(path))
    if not isinstance(index.get("files"), dict):
        raise VectorError(f"{path} has no table of files; rebuild with `mxspec vectors build`")
    return index


def read_document(operation: str, fmt: str, root: Path | None = None) -> Document:
    """One vector file with every case written out, checked against the digest in the index.

    Raises VectorError, saying what to do, where the file is missing or differs, or a recipe does not give what it should.
    """
    return _read_checked(operation, fmt, root or vectors_root())


@lru_cache(maxsize=64)
def _read_checked(operation: str, fmt: str, root: Path) -> Document:
    name = file_name(operation, fmt)
    entry = read_index(root)["files"].get(name)
    if entry is None:
        known = ", ".join(sorted(read_index(root)["files"]))
        raise VectorError(f"there is no vector file {name}; known are {known}")
    try:
        data = read_vectors(root / name)
    except FileNotFoundError:
        raise VectorError(f"{root / name} does not exist; rebuild with `mxspec vectors build`") from None
    except UnreadableFile as error:
        raise VectorError(str(error)) from None
    found = hashlib.sha256(data).hexdigest()
    if found != entry["sha256"]:
        raise VectorError(
            f"{root / name} has SHA-256 {found[:16]}..., the index says {entry['sha256'][:16]}...; "
            "the file is truncated or edited: restore it, or rebuild with `mxspec vectors build`"
        )
    return expand(parse(data, str(root / name)))


def vector_digest(root: Path | None = None, *, operations: Iterable[str] = OPERATIONS) -> str:
    """The digest of all vectors, or of those of some operations: what a report names to say what it was judged by.

    Raises VectorError where the index cannot be read, or its own digest is not that of its files.
    """
    index, wanted = read_index(root), set(operations)
    if index.get("digest") != total_digest(index["files"]):
        raise VectorError("the digest of the index is not that of its files; rebuild with `mxspec vectors build`")
    return total_digest({n: e for n, e in index["files"].items() if n.partition("/")[0] in wanted})


def list_result_digests() -> set[str]:
    """The digests that results of today's vectors may name.

    Raises VectorError where the index cannot be read.
    """
    chosen = (c for n in range(len(FURTHER_OPERATIONS) + 1) for c in combinations(FURTHER_OPERATIONS, n))
    return {vector_digest(operations=(*NUMERIC_OPERATIONS, *further)) for further in chosen}


def total_digest(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """SHA-256 over `name sha256` lines in name order."""
    lines = "".join(f"{name} {entries[name]['sha256']}\n" for name in sorted(entries))
    return hashlib.sha256(lines.encode("ascii")).hexdigest()


def check_replaceable(root: Path) -> None:
    """Raise VectorError where a folder holds anything but vectors: replacing it would destroy other files."""
    if root.exists() and not root.is_dir():
        raise VectorError(f"{root} is a file; name a new folder, an empty one, or one that holds vectors")
    if not root.exists() or not any(root.iterdir()):
        return
    known = _list_known(root)
    names = (p.relative_to(root).as_posix().removesuffix(".gz") for p in root.rglob("*") if not p.is_dir() or p.is_symlink())
    strangers = sorted(name for name in names if not (_is_vector_name(name) and (known is None or name in known)))
    if strangers or not (root / "index.json").exists():
        what = f"files that are no vectors, {strangers[0]} among them" if strangers else "no index.json"
        raise VectorError(f"{root} is not empty and holds {what}; name a new folder, an empty one, or one that holds vectors")


def _list_known(root: Path) -> set[str] | None:
    """The files that the folder's index lists, with the index itself; None where it cannot be read."""
    try:
        return {"index.json", *read_index(root)["files"]}
    except (VectorError, OSError):
        return None


def _is_vector_name(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return name == "index.json" or (folder in OPERATIONS and file.endswith(".json"))


def write_tree(root: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Replace a folder of files as a whole: everything is written to a temporary folder next to it, then renamed.

    On any error (a full disk, Ctrl-C) the folder is as it was and the temporary one is gone.
    Raises VectorError where the folder holds anything but vectors.
    """
    check_replaceable(root)
    replace_tree(root, contents)


__all__ = [
    "FURTHER_OPERATIONS",
    "NUMERIC_OPERATIONS",
    "OPERATIONS",
    "VERSION",
    "Document",
    "Stored",
    "VectorError",
    "canonical_json",
    "case_id",
    "check_replaceable",
    "file_name",
    "list_result_digests",
    "naming",
    "parse",
    "read_document",
    "read_index",
    "read_vectors",
    "render",
    "render_stored",
    "total_digest",
    "vector_digest",
    "vectors_root",
    "write_file",
    "write_files",
    "write_tree",
]
