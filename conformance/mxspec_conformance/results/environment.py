"""Where a run took place: the machine, the versions, the state of a target's repository."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
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


def describe_git(spec: Any) -> dict[str, Any]:
    """The commit of the repository that holds a target's file, and whether it was changed; empty where there is none."""
    if not isinstance(spec, (str, os.PathLike)):
        return {}
    path = Path(spec)
    if not path.is_file():
        return {}
    folder = path.resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    state: dict[str, Any] = {
        "commit": commit,
        "changed": bool(_git(folder, "status", "--porcelain", "--", str(path.resolve()))),
    }
    return {"git": state}


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
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
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        **describe_machine(),
        "mxspec": mxspec.__version__,
        **packages,
    }
