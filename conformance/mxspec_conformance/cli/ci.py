"""`check --ci`: results that are kept while nothing changes, and annotations that GitHub shows at a line."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shlex
import shutil
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mxspec_conformance.render.headline import find_headlines
from mxspec_conformance.results.baseline import list_unmatched
from mxspec_conformance.results.environment import describe_git, describe_machine
from mxspec_conformance.results.report import STALE_STATES, Report, Verdict, read_report
from mxspec_conformance.targets.texts import clean_text
from mxspec_vectors.files import write_file

#: The folder of what is kept, in the current one; a runner may keep it between runs.
FOLDER = Path(".mxspec_cache")
#: Folders that hold nothing of a target.
_SKIPPED = {".git", "__pycache__", FOLDER.name, ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".nox", ".tox", ".cache"}
#: Files and bytes that are read for a digest; a folder with more is judged each time.
MAX_FILES, MAX_BYTES = 20_000, 300 << 20
#: Libraries by which a process reaches a card.
_DRIVERS = ("libcuda.so", "libamdhip64.so", "libhsa-runtime64.so", "libze_loader.so")
#: Variables that differ from run to run and decide no answer: of runners, terminals and sessions. A target may read any other one.
_OF_RUNS = (
    "GITHUB_",
    "RUNNER_",
    "ACTIONS_",
    "CI_",
    "GITLAB_",
    "BUILDKITE_",
    "CIRCLE_",
    "TRAVIS_",
    "SSH_",
    "XDG_",
    "DBUS_",
    "VSCODE_",
    "PRE_COMMIT",
)
_OF_TERMINALS = {
    "_", "PWD", "OLDPWD", "SHLVL", "TERM", "TERM_PROGRAM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "HOSTNAME", "PS1",
    "WINDOWID", "INVOCATION_ID", "JOURNAL_STREAM", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "BUILD_ID", "BUILD_NUMBER", "BUILD_TAG", "BUILD_URL",
}  # fmt: skip


class _TooMuch(Exception):
    """More files than are read for a digest."""


@dataclass(slots=True)
class Memory:
    """The result of an earlier run with the same arguments, if no file has changed that it can depend on."""

    file: Path
    #: Computes the digest of all that the result can depend on.
    compute: Callable[[], str]
    roots: tuple[Path, ...]
    #: Targets of the run.
    names: tuple[str, ...] = ()
    digest: str = ""
    #: Why nothing is kept; empty: it is.
    reason: str = ""
    #: What the process of each target has loaded, of those that tell.
    loaded: list[Sequence[str]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Compute the digest before the target runs."""
        try:
            self.digest = self.compute()
        except (_TooMuch, OSError) as error:
            self.reason = str(error)

    def learn(self, files: Sequence[str]) -> None:
        """Take the files that the process of a target has loaded."""
        self.loaded.append(files)

    def recall(self) -> list[Report] | None:
        """The reports of the earlier run; None where there is none, or something has changed."""
        try:
            document = json.loads(self.file.read_bytes())
            if document["digest"] != self.digest or self.reason:
                return None
            if any(_digest_file(Path(path)) != digest for path, digest in document["elsewhere"].items()):
                return None
            self.lost = [str(text) for text in document["lost"]]
            reports = [read_report(result) for result in document["results"]]
            for report, target, files in zip(reports, self.names, document["loaded"], strict=False):
                report.environment |= describe_git(target, [str(file) for file in files])
            return reports
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep(self, reports: Sequence[Report], lost: Sequence[str]) -> str:
        """Write a result down, for the next run; why not, where that would not be safe."""
        before, reason = self.digest, self.reason or self._distrust(reports)
        if not reason:
            self.begin()
            reason = self.reason or ("a file has changed during the run" if self.digest != before else "")
        if not reason:
            elsewhere = self._list_elsewhere()
            document = {
                "digest": self.digest, "elsewhere": elsewhere, "loaded": self.loaded, "lost": list(lost), "results": [r.as_dict() for r in reports],
            }  # fmt: skip
            try:
                self.file.parent.mkdir(exist_ok=True)
                write_file(self.file.parent / ".gitignore", b"*\n")
                write_file(self.file, json.dumps(document).encode("ascii"))
            except OSError as error:
                reason = str(error)
        return reason

    def _distrust(self, reports: Sequence[Report]) -> str:
        if any(r.verdict in (Verdict.ERROR, Verdict.TIMEOUT) for report in reports for r in report.requirements):
            return "an error or a timeout may not come again"
        for report in reports:
            device = str(report.environment.get("device", "cpu"))
            if device != "cpu":
                return f"it ran on {device}, whose driver has no digest"
        if len(self.loaded) < len(self.names):
            return "a target does not tell which files it has loaded"
        if drivers := [path for files in self.loaded for path in files if path.rpartition("/")[2].startswith(_DRIVERS)]:
            return f"it has loaded {drivers[0]}, the driver of a card"
        return ""

    def _list_elsewhere(self) -> dict[str, str]:
        """The digests of the files that the target has loaded and that no other digest covers: installed ones too, as an edited or
        copied file is not that of its record."""
        paths = [p for p in map(Path, sorted({*chain(*self.loaded)})) if p.is_file()]
        return {str(p): _digest_file(p) for p in paths if not self._has_digest(p)}

    def _has_digest(self, path: Path) -> bool:
        return any(root in path.parents and _SKIPPED.isdisjoint(path.relative_to(root).parts) for root in self.roots)


def open_memory(targets: Sequence[str], options: Mapping[str, Any], read: Sequence[Path], written: Sequence[Path]) -> Memory:
    """What an earlier run with these options left.

    read: further files on which the result depends. written: files that the run writes, which do not count.
    """
    roots = tuple(dict.fromkeys(path.resolve() for path in (*map(_find_root, targets), *_list_sources())))
    name = hashlib.sha256(repr((targets, sorted(options.items()))).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    known = repr((sys.version, platform.platform(), describe_machine(), _list_variables()))

    def digest() -> str:
        found = hashlib.sha256(f"{name}{known}".encode("utf-8", "surrogateescape"))
        for record in _list_installed():
            found.update(f"\0{record}".encode())
        for path in _list_files((*roots, *_list_programs(targets), *read), {os.path.realpath(p) for p in written}):
            found.update(f"\0{path}\0".encode("utf-8", "surrogateescape") + _digest_file(path).encode("ascii"))
        return found.hexdigest()

    memory = Memory(FOLDER / f"{name}.json", digest, roots, tuple(targets))
    memory.begin()
    return memory


def _digest_file(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _list_variables() -> list[tuple[str, str]]:
    return sorted((k, v) for k, v in os.environ.items() if not k.startswith(_OF_RUNS) and k not in _OF_TERMINALS)


def _find_root(target: str) -> Path:
    """The repository of a target's file, or the folder that the file is in; of another target the current folder's."""
    folder = Path(target).resolve().parent if Path(target).is_file() else Path.cwd()
    return next((p for p in (folder, *folder.parents) if (p / ".git").exists()), folder)


def _list_programs(targets: Sequence[str]) -> Iterator[Path]:
    """The files that a target's command names."""
    for target in targets:
        with_program = target.startswith("cmd:")
        try:
            words = shlex.split(target.removeprefix("cmd:"), posix=os.name != "nt") if with_program else [target]
        except ValueError:
            continue
        for word in words:
            if found := (shutil.which(word) if with_program else None) or (word if Path(word).is_file() else None):
                yield Path(found)


def _list_prefixes() -> tuple[Path, ...]:
    """The folders whose files an installation owns, so that its records hold their digests."""
    own = [site.getusersitepackages(), *(sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib"))]
    return tuple(Path(p).resolve() for p in own + [sys.prefix] * (sys.prefix != sys.base_prefix))


def _list_sources() -> Iterator[Path]:
    """Folders from which modules are imported and that no installation owns: PYTHONPATH, and what is installed as editable."""
    installed = _list_prefixes()
    for path in (Path(entry).resolve() for entry in sys.path if entry and Path(entry).is_dir()):
        if not any(root in (path, *path.parents) for root in installed):
            yield path
    for each in distributions():
        origin = json.loads(each.read_text("direct_url.json") or "{}")
        if origin.get("dir_info", {}).get("editable"):
            yield Path(unquote(urlsplit(origin["url"]).path))


def _list_installed() -> list[str]:
    """What is installed: the records of all distributions, which name them and hold a digest of each file."""
    return sorted(each.read_text("RECORD") or f"{each.metadata['Name']} {each.version}" for each in distributions())


def _list_files(roots: Sequence[Path], written: set[str]) -> Iterator[str]:
    """The regular files at or under some roots in a fixed order, each once.

    Raises _TooMuch.
    """
    seen: set[str] = set()
    total = 0
    for root in roots:
        alone = [(os.path.realpath(root), str(root), root.stat().st_size)] if root.is_file() else []
        for real, path, size in chain(alone, _walk(root, seen)):
            if real in written or real in seen:
                continue
            seen.add(real)
            total += size
            if len(seen) > MAX_FILES or total > MAX_BYTES:
                raise _TooMuch(f"{root} holds more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MiB")
            yield path


def _walk(root: Path, seen: set[str]) -> Iterator[tuple[str, str, int]]:
    """The regular files under a folder that is not in `seen`: where each really is, its path, its size.

    Texts, not paths: of thousands they take a third of the time.
    """
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        here = os.path.realpath(folder)
        if here in seen:
            continue
        seen.add(here)
        try:
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:  # no folder, or one that nobody here reads
            continue
        for entry in entries:
            link = Path(entry.path) if entry.is_symlink() else None  # which may lead to itself
            found = link or entry
            if found.is_file():
                yield os.path.realpath(entry.path) if link else f"{here}/{entry.name}", entry.path, found.stat().st_size
            elif found.is_dir() and entry.name not in _SKIPPED and not Path(entry.path, "pyvenv.cfg").exists():
                folders.append(entry.path)


def list_annotations(reports: Sequence[Report], targets: Sequence[str], lost: Sequence[str], waivers: Path | None) -> list[str]:
    """Workflow commands of GitHub: an error for each sentence on what is wrong, at the line of the target's function."""
    lines = []
    for report in reports:
        file = next((t for t in targets if len(targets) == 1 or Path(t).stem == report.target["name"]), "")
        for operation, formats, sentence in find_headlines(report):
            lines.append(_annotate("error", f"{operation} {formats}: {sentence}", file, operation))
        for waiver in report.waivers:
            if waiver["state"] in STALE_STATES:
                lines.append(_annotate("error", f"stale waiver {waiver['id']}: {waiver['state']}", str(waivers or "")))
        lines += [_annotate("warning", text) for text in list_unmatched(report)]
    return [*lines, *(_annotate("error", text, targets[0]) for text in lost)]


def _annotate(kind: str, text: str, file: str = "", operation: str = "") -> str:
    """https://docs.github.com/actions/reference/workflow-commands; a command ends with its line, a property with a comma."""
    given = {"title": "mxspec"}
    if file and Path(file).is_file():
        place, line = find_place(Path(file), operation)
        path, root = place.resolve(), Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve()
        if root not in path.parents:  # GitHub shows lines of the repository alone
            path, line = Path(file).resolve(), 1
        here = (path.relative_to(root) if root in path.parents else path).as_posix()
        given = {"file": here, "line": str(line), **given}
    properties = ",".join(f"{key}={_escape(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in given.items())
    return f"::{kind} {properties}::{_escape(clean_text(text))}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def find_place(file: Path, function: str, depth: int = 4) -> tuple[Path, int]:
    """The file and line where a Python file defines a function, gives it a value or imports it from; line 1 where it does not.

    Modules are looked for next to the file and on the path, and not run.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return file, 1
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function:
            return file, node.lineno
        if isinstance(node, ast.Assign) and any(isinstance(name, ast.Name) and name.id == function for name in ast.walk(node)):
            return file, node.lineno
        names = node.names if isinstance(node, ast.ImportFrom) and node.module else []
        if own := next((n.name for n in names if (n.asname or n.name) == function), ""):
            assert isinstance(node, ast.ImportFrom)
            module = _find_module(file, f"{node.module}", node.level) if depth else None
            found = find_place(module, own, depth - 1) if module is not None else (file, 1)
            return found if found[1] > 1 else (file, node.lineno)
    return file, 1


def _find_module(file: Path, name: str, level: int) -> Path | None:
    """The file of a module that another file imports."""
    package = file.parents[level - 1] if level else None
    for folder in (package,) if package else (file.parent, *(Path(entry) for entry in sys.path if entry)):
        stem = folder.joinpath(*name.split("."))
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None
