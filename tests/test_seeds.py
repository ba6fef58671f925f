"""The table of what five documents ask for: whole, and every name in it exists."""

from __future__ import annotations

import importlib
import re
import shlex
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import mxspec
from mxspec import dot, layouts
from mxspec.sparsity import SPARSE_FORMATS
from mxspec_conformance.adapters.registry import known_adapters
from mxspec_conformance.cli.main import main
from mxspec_conformance.mutants import list_mutants
from mxspec_vectors.topics import TOPICS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "seeds.md").read_text("utf-8")
#: Rows of each document.
COUNTS = {"S0": 45, "S1": 21, "S2": 21, "S3": 67, "S4": 25, "U": 8}
STATES = ("works", "in part", "refused", "refused as a verdict", "open")
ROWS = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TEXT.splitlines() if re.match(r"\| (S\d|U)-\d\d ", line)]


NAMED = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[3])})
COMMANDS = [name for name in NAMED if name.startswith("mxspec ")]
#: Commands that take minutes: parsed, and their values converted, but not run.
LONG = ("bundle", "check", "fuzz", "site", "vectors")
FILES = ROOT / "tests" / "containers" / "files"
#: What stands for a reader's own files.
STAND_INS = {
    "TARGET": "mxspec", "CKPT": FILES / "compressed-tensors-mxfp4-pack-quantized" / "model.safetensors", "chip.json": ROOT / "reports" / "gpu" / "probe-h200.json",
    "result.json": ROOT / "reports" / "gpu" / "mxspec_gpu.json", "RESULTS": ROOT / "reports" / "gpu" / "mxspec_gpu.json", "WEIGHTS": FILES / "original.safetensors",
}  # fmt: skip


def exists(name: str) -> bool:
    """Whether a command's module, an object, a path, a test, or something that is looked up by name is there."""
    if name.startswith("mxspec "):
        return name in COMMANDS  # each of which is parsed or run
    if name.startswith("python -m "):
        return find_spec(name.split()[2]) is not None
    if (ROOT / name.partition("::")[0]).exists():
        path, _, function = name.partition("::")
        return not function or f"def {function}(" in (ROOT / path).read_text("utf-8")
    if re.fullmatch(r"mxspec(_\w+)?(\.\w+)*", name):
        return find_object(name)
    return name in known_names()


@lru_cache(maxsize=1)
def known_names() -> frozenset[str]:
    """Names of layouts, formats, topics, targets, mutants, accumulators and profiles."""
    return frozenset({
        *(n for x in layouts.list_layouts() for n in (x.name, *x.aliases)), *mxspec.BLOCKS, *mxspec.ADJACENT, *SPARSE_FORMATS, *TOPICS, *known_adapters(), *(m.id for m in list_mutants()), *dot.ACCUMULATORS,
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
    assert len(NAMED) >= 120
    assert [name for name in NAMED if not exists(name)] == []


def does_it(name: str) -> bool:
    """Whether a name is of code, data or a command, not of a page, a folder, a result or a test."""
    return not name.startswith(("docs/", "reports/", "tests/")) and not (ROOT / name).is_dir()


def test_what_works_names_the_code_that_does_it() -> None:
    works = [row for row in ROWS if row[2] == "works" and not re.match(r"as (S\d|U)-\d\d", row[3])]
    assert [row[0] for row in works if not any(does_it(name) for name in re.findall(r"`([^`]+)`", row[3]))] == []


# Commands


def follow(line: str, folder: Path) -> Result:
    """Run a command; one that takes minutes is parsed and its values are converted as it would do."""
    np.save(folder / "FILE.npy", np.ones((4, 32), np.float32))
    places = STAND_INS | {"FILE": folder / "FILE.npy", "OUT": folder / "OUT", "DIR": folder / "DIR"}
    arguments = [str(places.get(word, word)) for word in shlex.split(line)[1:]]
    if arguments[0] not in LONG:
        return CliRunner().invoke(main, arguments)

    @click.command
    def parse() -> None:
        command: click.Command = main
        context = click.Context(main, **main.context_settings)
        while isinstance(command, click.Group) and arguments and arguments[0] in command.list_commands(context):
            command = command.get_command(context, arguments.pop(0)) or main
        command.make_context("mxspec", arguments, context)

    return CliRunner().invoke(parse)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command: str, tmp_path: Path) -> None:
    done = follow(command, tmp_path)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "command", ["mxspec explain mxfp4 1,2", "mxspec check", "mxspec fuzz TARGET --format fp4", "mxspec lint CKPTS", "mxspec chek TARGET"]
)
def test_a_command_that_does_not_run_is_found(command: str, tmp_path: Path) -> None:
    assert follow(command, tmp_path).exit_code == 2


def test_a_name_that_is_not_there_is_found() -> None:
    wrong = (
        "mxspec_gpu.steps.dequantise", "mxspec.no_such_module", "tests/gpu/test_steps.py::test_nothing", "tests/none.py",
        "python -m mxspec_none", "mx-flor", "mxspec chek",
    )  # fmt: skip
    assert [name for name in wrong if exists(name)] == []
