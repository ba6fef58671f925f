"""Where a run took place is recorded: the repository of the target, its libraries, its device, the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mxspec_conformance.judge.check import check
from mxspec_conformance.render.view import view_result
from mxspec_conformance.results.environment import describe_git, describe_machine
from mxspec_conformance.targets.declared import describe_target
from mxspec_conformance.targets.surroundings import describe_surroundings

SOURCE = """
import ml_dtypes, pytest
NAME, VERSION, ELEMENTS, DEVICE = "t", "1", ["e2m1"], "abacus"

def decode(codes, element):
    return codes.view(ml_dtypes.float4_e2m1fn).astype("float32")
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A target in a repository of its own, committed."""
    path = tmp_path / "target.py"
    path.write_text(SOURCE, encoding="utf-8")
    for command in (["init", "-q"], ["add", "target.py"], ["-c", "user.name=n", "-c", "user.email=e@e", "commit", "-q", "-m", "m"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return path


def head(folder: Path) -> str:
    return subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_of_the_targets_repository(target: Path) -> None:
    assert describe_git(target) == {"git": {"commit": head(target.parent), "changed": False}}
    (target.parent / "beside.py").write_text("1", encoding="utf-8")
    assert describe_git(str(target))["git"]["changed"] is False
    target.write_text(SOURCE + "# changed\n", encoding="utf-8")
    assert describe_git(target)["git"]["changed"] is True


def test_line_ends_are_no_change_and_a_new_file_is_one(target: Path) -> None:
    target.write_bytes(SOURCE.replace("\n", "\r\n").encode())
    assert describe_git(target)["git"]["changed"] is False
    (target.parent / "new.py").write_text("")
    assert describe_git(target.parent / "new.py")["git"]["changed"] is True


def test_git_speaks_of_names_that_the_locale_does_not_have(target: Path) -> None:
    """Of a file that is not committed it says so, with its name."""
    (target.parent / "k\u00e9rnel.py").write_text("", "utf-8")
    code = "import sys; from mxspec_conformance.results.environment import describe_git; print(describe_git(sys.argv[1])['git']['changed'])"
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, target.parent / "k\u00e9rnel.py"], env=plain, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
def test_nothing_that_a_repository_names_is_run(target: Path) -> None:
    """A file monitor, hooks and filters are programs of the repository's author."""
    folder, ran = target.parent, target.parent / "ran"
    program = folder / "program"
    program.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n")
    (folder / ".gitattributes").write_text("*.py filter=f diff=f\n")
    for name in ("core.fsmonitor", "filter.f.clean", "filter.f.smudge", "diff.f.textconv", "diff.external", "core.pager"):
        subprocess.run(["git", "-C", str(folder), "config", name, str(program)], check=True)
    for path in (program, folder / ".git/hooks/post-index-change", folder / ".git/hooks/reference-transaction"):
        path.write_bytes(program.read_bytes())
        path.chmod(0o755)
    target.write_text(SOURCE + "# changed\n", encoding="utf-8")
    assert describe_git(target)["git"]["changed"] is True
    assert not ran.exists()


@pytest.mark.parametrize("spec", ["gguf", "cmd:node target.js", "/no/such/file.py", 3, None])
def test_what_is_no_file_has_no_commit(spec: Any) -> None:
    assert describe_git(spec) == {}


def test_a_result_names_them_all(target: Path) -> None:
    target.write_text(SOURCE + "# changed\n", encoding="utf-8")
    environment = check(target).environment
    assert environment["git"] == {"commit": head(target.parent), "changed": True}
    assert environment["device"] == "abacus"
    assert environment["libraries"] == {"pytest": pytest.__version__}, "what the judge itself brings is not the target's"
    assert environment["processor"] == describe_machine()["processor"] != ""
    shown = dict(view_result(check(target).as_dict()).provenance)
    assert shown["git"] == f"{head(target.parent)}, with changes"
    assert shown["libraries"] == f"pytest {pytest.__version__}"
    assert shown["device"] == "abacus"


def test_libraries_are_those_of_what_the_target_names() -> None:
    """A module, and a function of another one, stand for their distributions."""
    import click

    module: Any = ModuleType("t")
    module.FORMATS, module.quantize, module.echo = ["mxfp4"], lambda x, fmt: None, click.echo
    found = describe_surroundings(module, describe_target(module, "t"))
    assert list(found["libraries"]) == ["click"]
    plain = SimpleNamespace(FORMATS=["mxfp4"], quantize=lambda x, fmt: None)
    assert "device" not in describe_surroundings(plain, describe_target(plain, "t"))
