"""Coverage of lines and branches of the packages: `pytest -p tests.measured`, which adds to the file of an earlier run.

slipcover takes a probe out of the code once it was passed, so a whole run costs a tenth more; a tracer costs a third.
Option -p loads this before any package is imported. Processes that tests start are not measured: the figure is a
lower bound.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import slipcover
from slipcover.importer import SlipcoverLoader

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".coverage.json"
PACKAGES = {
    "mxspec": "mxspec", "mxspec_vectors": "vectors/mxspec_vectors",
    "mxspec_conformance": "conformance/mxspec_conformance", "mxspec_lab": "conformance/mxspec_lab",
}  # fmt: skip
RESULT = "coverage"  # the key under which a worker process hands its own over

probes = slipcover.Slipcover(branch=True)
collected: list[dict[str, Any]] = []


class Finder(MetaPathFinder):
    """Called before pytest's own, which would rewrite assertions in the package that holds our pytest plugin."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = SlipcoverLoader(probes, spec.loader, spec.origin)
        return spec


if early := [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
    raise RuntimeError(f"{early[0]} was imported before it could be measured; load this by pytest's option -p")
sys.meta_path.insert(0, Finder())


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[RESULT] = json.dumps(probes.get_coverage())


def get_unseen(seen: set[str]) -> dict[str, Any]:
    """The files of the packages that no process imported: all of their lines are missing."""
    sources = [str(ROOT / folder) for folder in PACKAGES.values()]
    result: dict[str, Any] = slipcover.Slipcover(branch=True, source=sources, omit=sorted(seen)).get_coverage()
    return result


class Collector:
    """In the process that the user started: what it and its workers ran, in one file and one line."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """xdist's hook; a worker that died has nothing to hand over."""
        if result := getattr(node, "workeroutput", {}).get(RESULT):
            collected.append(json.loads(result))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        measured = [probes.get_coverage(), *collected, *([json.loads(FILE.read_text())] if FILE.exists() else [])]
        everything = get_unseen({name for part in measured for name in part["files"]})
        for part in measured:
            slipcover.merge_coverage(everything, part)
        part_file = FILE.with_suffix(".part")
        part_file.write_text(json.dumps(everything))
        part_file.replace(FILE)
        percent = everything["summary"]["percent_covered"]
        terminalreporter.write_line(f"coverage, lines and branches, at least: {percent:.0f} %")
