"""The table of what five documents ask for: whole, and every name in it exists."""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import mxspec
from mxspec import layouts
from mxspec.sparsity import SPARSE_FORMATS
from mxspec_conformance.adapters.registry import known_adapters
from mxspec_conformance.mutants import list_mutants
from mxspec_vectors.topics import TOPICS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "seeds.md").read_text("utf-8")
#: Rows of each document.
COUNTS = {"S0": 40, "S1": 21, "S2": 21, "S3": 67, "S4": 25, "U": 6}
STATES = ("works", "in part", "refused", "refused as a verdict", "open")
ROWS = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TEXT.splitlines() if re.match(r"\| (S\d|U)-\d\d ", line)]


def exists(name: str) -> bool:
    """Whether a command's module, an object, a path, a test, or something that is looked up by name is there."""
    if name.startswith("mxspec "):
        return True  # tests/test_docs.py parses commands
    if name.startswith("python -m "):
        return find_spec(name.split()[2]) is not None
    if "/" in name and (ROOT / name.partition("::")[0]).exists():
        path, _, function = name.partition("::")
        return not function or f"def {function}(" in (ROOT / path).read_text("utf-8")
    if re.fullmatch(r"mxspec(_\w+)?(\.\w+)*", name):
        return find_object(name)
    return name in known_names()


@lru_cache(maxsize=1)
def known_names() -> frozenset[str]:
    """Names of layouts, formats, topics, targets, mutants and profiles."""
    return frozenset({
        *(n for x in layouts.list_layouts() for n in (x.name, *x.aliases)), *mxspec.BLOCKS, *mxspec.ADJACENT, *SPARSE_FORMATS, *TOPICS, *known_adapters(), *(m.id for m in list_mutants()),
        *(p.id for f in mxspec.BLOCKS for p in mxspec.list_profiles(f)),
    })  # fmt: skip


def find_object(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            # A field of a dataclass with slots is an attribute of the class, too.
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_every_row_is_there_once() -> None:
    assert [row[0] for row in ROWS] == [f"{key}-{n:02}" for key, count in COUNTS.items() for n in range(1, count + 1)]
    assert {row[2] for row in ROWS} <= set(STATES)
    assert all(len(row) == 4 and row[1] and row[3] for row in ROWS)


def test_every_name_exists() -> None:
    named = {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[3])}
    assert len(named) >= 120
    assert sorted(name for name in named if not exists(name)) == []


def test_a_name_that_is_not_there_is_found() -> None:
    wrong = (
        "mxspec_gpu.steps.dequantise", "mxspec.no_such_module", "tests/gpu/test_steps.py::test_nothing", "tests/none.py",
        "python -m mxspec_none", "mx-flor",
    )  # fmt: skip
    assert [name for name in wrong if exists(name)] == []
