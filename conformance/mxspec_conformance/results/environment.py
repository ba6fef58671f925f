"""Where a run took place: the machine, the versions, the state of a target's repository."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mxspec


def describe_machine() -> dict[str, Any]:
    """The processor's name and the number of cores."""
    return {"processor": _name_processor(), "cores": os.cpu_count() or 0}


def _name_processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_git(spec: Any, loaded: Sequence[str] = ()) -> dict[str, Any]:
    """The commit of the repository that holds a target's file, and whether the file, or one of `loaded` that the commit has, differs
    from it; empty where there is none."""
    if not isinstance(spec, (str, os.PathLike)):
        return {}
    path = Path(spec)
    if not path.is_file():
        return {}
    folder = path.resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    top = Path(_git(folder, "rev-parse", "--show-toplevel") or folder).resolve()
    files = [p for p in dict.fromkeys(Path(name).resolve() for name in (str(path), *loaded)) if top in p.parents]
    names = [p.relative_to(top).as_posix() for p in files[:_MOST_FILES]]
    listed = _git(top, "ls-tree", "-z", "HEAD", "--", *names).split("\0")
    stored = {name: entry.split()[-1] for entry, tab, name in (line.partition("\t") for line in listed) if tab}
    try:
        changed = names[0] not in stored or not all(_is_stored(top / name, blob) for name, blob in stored.items())
    except OSError:
        return {}
    return {"git": {"commit": commit, "changed": changed}}


#: Files that are compared with a commit.
_MOST_FILES = 500


def _is_stored(path: Path, blob: str) -> bool:
    data = path.read_bytes()
    return blob in (_name_blob(data, blob), _name_blob(data.replace(b"\r\n", b"\n"), blob))


def _name_blob(data: bytes, like: str) -> str:
    """The name that git gives to a file's bytes, by the hash of another name. `git status` would run what the repository's
    configuration names: a file monitor, filters."""
    return hashlib.new("sha256" if len(like) == 64 else "sha1", b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


#: A partial clone fetches what it lacks by programs that its configuration names; no protocol is allowed.
_FETCHES_NOTHING = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def _git(folder: Path, *arguments: str) -> str:
    try:  # it names files, whatever the locale
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-C", str(folder), *arguments],
            capture_output=True, encoding="utf-8", errors="replace", timeout=10, check=False, env=os.environ | _FETCHES_NOTHING,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def describe_environment() -> dict[str, Any]:
    """Where a run took place."""
    packages = {}
    for name in ("numpy", "ml_dtypes"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "unknown"
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        **describe_machine(),
        "mxspec": mxspec.__version__,
        **packages,
    }
