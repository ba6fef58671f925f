"""What a committed result used: vectors by operation, format and profiles, and code; each with a digest of that moment.

A new profile, operation or format changes none of these, so it makes nothing stale.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxspec_vectors.digests import content_digest, list_answering
from mxspec_vectors.files import VectorError

ROOT = Path(__file__).resolve().parents[3]
#: Operations whose answers are profiles'.
BY_PROFILE = ("quantize", "scale", "dequantize")
#: Files with comments that begin with two slashes.
C_SUFFIXES = (".cu", ".cuh", ".c", ".cpp", ".h")


@dataclass(frozen=True, slots=True)
class VectorUse:
    """Cases of one operation and format, and the answers of some profiles."""

    operation: str
    format: str
    #: In order; None for operations whose answers are nobody's own, and where none was named: all answers count.
    profiles: tuple[str, ...] | None
    digest: str

    def find_change(self) -> str | None:
        """What has changed since; None: nothing."""
        try:
            now = content_digest(self.operation, self.format, self.profiles)
        except VectorError as error:
            return str(error)
        return None if now == self.digest else f"cases or answers of {self.operation}/{self.format} have changed"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        document: dict[str, Any] = {"operation": self.operation, "format": self.format, "digest": self.digest}
        return document | ({} if self.profiles is None else {"profiles": list(self.profiles)})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> VectorUse:
        """From JSON."""
        profiles = document.get("profiles")
        return cls(document["operation"], document["format"], None if profiles is None else tuple(profiles), document["digest"])


@dataclass(frozen=True, slots=True)
class CodeUse:
    """Files of the repository, without comments and docstrings where they are Python."""

    #: Paths from the root; in order.
    files: tuple[str, ...]
    digest: str

    def find_change(self) -> str | None:
        """What has changed since; None: nothing."""
        missing = [name for name in self.files if not (ROOT / name).exists()]
        if missing:
            return f"{missing[0]} is gone"
        return None if digest_code(self.files) == self.digest else f"{_shorten(self.files)} changed"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"files": list(self.files), "digest": self.digest}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CodeUse:
        """From JSON."""
        return cls(tuple(document["files"]), document["digest"])


def _shorten(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} or one of {len(names) - 1} more"


def use_vectors(wanted: Iterable[tuple[str, str, Iterable[str]]]) -> list[VectorUse]:
    """(operation, format, profiles) as uses with today's digests; the same operation and format are joined.

    Profiles whose answers the vectors do not hold yet are computed by the model: of them the inputs count.
    """
    joined: dict[tuple[str, str], set[str]] = {}
    for operation, fmt, profiles in wanted:
        joined.setdefault((operation, fmt), set()).update(profiles if operation in BY_PROFILE else ())
    uses = []
    for (operation, fmt), named in sorted(joined.items()):
        names = tuple(sorted(named.intersection(list_answering(operation, fmt)))) if named else None
        uses.append(VectorUse(operation, fmt, names, content_digest(operation, fmt, names)))
    return uses


def use_code(names: Iterable[str]) -> CodeUse:
    """Files, or all code below folders, as a use with today's digest."""
    found: list[str] = []
    for name in names:
        path = ROOT / name
        members = sorted(m for m in path.rglob("*") if m.suffix in (".py", *C_SUFFIXES)) if path.is_dir() else [path]
        found += [m.relative_to(ROOT).as_posix() for m in members]
    return CodeUse(tuple(found), digest_code(found))


def digest_code(names: Iterable[str]) -> str:
    """BLAKE2b-128 of files by name and content."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(names):
        text = (ROOT / name).read_text("utf-8")
        code = strip_python(text) if name.endswith(".py") else strip_c(text) if name.endswith(C_SUFFIXES) else text
        digest.update(f"{name}\0{code}\1".encode())
    return digest.hexdigest()


def strip_python(text: str) -> str:
    """The lines of Python code that are neither docstrings nor comments.

    Lines, not a printed syntax tree: those of two versions of Python differ.
    """
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                left_out.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = (line.rstrip() for number, line in enumerate(text.splitlines(), 1) if number not in left_out)
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def strip_c(text: str) -> str:
    """C or CUDA code without comments of one line, on one line."""
    return " ".join(re.sub(r"//[^\n]*", "", text).split())
