"""Nothing half-written: on a full disk or Ctrl-C a folder is as it was, one message says why, the exit code is right."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mxspec_vectors import build as builder, files, writing
from mxspec_vectors.files import vectors_root

from tests.support import HEED_SIGINT

#: Runs the command, on four files where it builds, with a limit on the size of any file written: a failure of the
#: operating system, as a full disk is one (EFBIG for ENOSPC).
LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # a file of it that is cut short would be imported by the next test
from mxspec_vectors import build
build.list_files = lambda: [("decode", "e2m1"), ("decode", "e4m3"), ("dequantize", "mxfp4"), ("stochastic", "int8")]
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from mxspec_conformance.cli.main import main
main(sys.argv[1:])
"""
#: Runs the command on two small files, interrupted when it writes the second.
INTERRUPTED = """
import sys
from mxspec_vectors import build, writing
build.list_files = lambda: [("decode", "e2m1"), ("decode", "e4m3")]
write, written = writing._write_new, []
def interrupt(path, data, like):
    written.append(path)
    if len(written) == 2:
        raise KeyboardInterrupt
    return write(path, data, like=like)
writing._write_new = interrupt
from mxspec_conformance.cli.main import main
main(sys.argv[1:])
"""

unix = pytest.mark.skipif(sys.platform == "win32", reason="limits and signals of POSIX")


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Every name below a folder, hidden ones too, with the content of files."""
    return {p.relative_to(root).as_posix(): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


def run_code(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=dict(os.environ))


def assert_one_message(done: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    """The exit code, nothing on stdout, and the message as the only line on stderr."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines() == [message]


@pytest.fixture
def old_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small built tree, with a file next to it."""
    monkeypatch.setattr(builder, "list_files", lambda: [("decode", "e2m1"), ("decode", "e4m3")])
    builder.build(tmp_path / "place" / "v1")
    (tmp_path / "place" / "beside.txt").write_text("untouched", encoding="ascii")
    return tmp_path / "place" / "v1"


# build


@unix
def test_full_disk_in_build(old_tree: Path) -> None:
    """The limit lets the small files through and stops the first large one."""
    before = snapshot(old_tree.parent)
    done = run_code(LIMITED, 50_000, "vectors", "build", "--out", old_tree)
    assert done.stderr.startswith(f"mxspec: {old_tree}{os.sep}")
    file = done.stderr.removeprefix(f"mxspec: {old_tree}{os.sep}").split(":")[0]
    assert (vectors_root() / file).stat().st_size > 50_000
    assert_one_message(done, 2, f"mxspec: {old_tree / file}: File too large; nothing was changed")
    assert snapshot(old_tree.parent) == before


@unix
def test_ctrl_c_while_building(old_tree: Path) -> None:
    """A real SIGINT in the middle of the computation."""
    before = snapshot(old_tree.parent)
    code = HEED_SIGINT + "import sys; from mxspec_conformance.cli.main import main; from mxspec_vectors import build; "
    code += "print('ready', flush=True); main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", code, "vectors", "build", "--out", str(old_tree)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, "", "mxspec: stopped\n")
    assert snapshot(old_tree.parent) == before


def test_failed_build_of_a_new_folder_leaves_no_file(tmp_path: Path) -> None:
    done = run_code(INTERRUPTED, "vectors", "build", "--out", tmp_path / "new" / "v1")
    assert_one_message(done, 130, "mxspec: stopped")
    assert [n for n, content in snapshot(tmp_path).items() if content is not None] == []
    assert not (tmp_path / "new" / "v1").exists()


def fail_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, error: BaseException) -> list[Any]:
    """The n-th call of a function raises before it does anything; later ones work again."""
    original: Callable[..., Any] = getattr(owner, name)
    calls: list[Any] = []

    def function(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == call:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, function)
    return calls


ERRORS = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt(), MemoryError()]
each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)


@each_error
@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [(writing, "_write_new", 1), (writing, "_write_new", 2), (writing, "_exchange", 1), (Path, "rename", 1), (Path, "rename", 2)],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_every_step_of_a_replacement(
    old_tree: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, error: BaseException
) -> None:
    """Also between two renames, where the system has no exchange: the old folder has been moved away, the new one is not yet there."""
    before = snapshot(old_tree.parent)
    if owner is Path:
        monkeypatch.setattr(writing, "_exchange", lambda one, other: False)
    calls = fail_at(monkeypatch, owner, name, call, error)
    with pytest.raises(type(error)):
        files.write_tree(old_tree, [("decode/e2m1.json", b"new"), ("index.json", b"{}")])
    assert len(calls) >= call
    monkeypatch.undo()
    assert snapshot(old_tree.parent) == before


def test_an_error_in_the_contents_leaves_the_folder(old_tree: Path) -> None:
    def contents() -> Any:
        yield "decode/e2m1.json", b"new"
        raise RuntimeError("a builder failed")

    before = snapshot(old_tree.parent)
    with pytest.raises(RuntimeError, match="a builder failed"):
        files.write_tree(old_tree, contents())
    assert snapshot(old_tree.parent) == before


def test_a_replacement_removes_what_is_no_longer_there(old_tree: Path) -> None:
    files.write_tree(old_tree, [("decode/e2m1.json", b"new"), ("index.json", b"{}")])
    assert snapshot(old_tree.parent) == {
        "beside.txt": b"untouched", "v1": None, "v1/decode": None, "v1/decode/e2m1.json": b"new", "v1/index.json": b"{}"
    }  # fmt: skip


# check --json


TARGET = """
import numpy as np
NAME, VERSION, FORMATS, ELEMENTS = "table", "1", [], ["e2m1"]
def decode(codes, element):
    {body}
    table = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
    return np.concatenate([table, -table])[codes]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a target and an old result."""
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "target.py").write_text(TARGET.format(body="pass"), encoding="ascii")
    (tmp_path / "place" / "result.json").write_text("the old result", encoding="ascii")
    return tmp_path / "place"


@unix
def test_full_disk_in_check(place: Path) -> None:
    before = snapshot(place)
    done = run_code(LIMITED, 300, "check", place / "target.py", "--in-process", "--json", place / "result.json")
    assert done.returncode == 2
    assert done.stderr == f"mxspec: {place / 'result.json'}: File too large; nothing was changed\n"
    assert "all supported requirements pass" in done.stdout
    assert "Traceback" not in done.stdout
    assert snapshot(place) == before


def test_ctrl_c_in_check(place: Path) -> None:
    (place / "target.py").write_text(TARGET.format(body="raise KeyboardInterrupt"), encoding="ascii")
    before = snapshot(place)
    code = "import sys; from mxspec_conformance.cli.main import main; main(sys.argv[1:])"
    done = run_code(code, "check", place / "target.py", "--in-process", "--json", place / "result.json")
    message = f"mxspec: stopped; {place / 'target.py'} is not judged to the end. Nothing is kept, and no file is written: the same command "
    message += "judges all of it again; with --quick it takes seconds, with --format or --only GLOB parts are judged alone"
    assert_one_message(done, 130, message)
    assert snapshot(place) == before


STOPS_LATE = """
import mxspec

FORMATS = ["mxfp4", "mxfp8_e4m3"]

def quantize(x, fmt):
    if fmt != "mxfp4" and len(x) > 20 and x.shape[1] == 32:  # the blocks of the vectors, not what is called before mxfp4
        raise KeyboardInterrupt
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
"""


def test_ctrl_c_in_check_shows_what_was_judged(place: Path) -> None:
    """A target that was judged, and the first format of the one that was stopped."""
    first, late = place / "target.py", place / "late.py"
    late.write_text(STOPS_LATE, encoding="ascii")
    code = "import sys; from mxspec_conformance.cli.main import main; main(sys.argv[1:])"
    done = run_code(code, "check", first, late, first, "--in-process", "--quick")
    assert done.returncode == 130
    rows = done.stdout.splitlines()
    assert rows[0] == "judged before the stop"
    assert any(row.startswith("table 1 ") and "pass" in row for row in rows)
    assert any(row.startswith("late ") and "conforms to mx-floor" in row for row in rows)
    assert "mxfp8_e4m3" not in done.stdout
    assert done.stderr.startswith(f"mxspec: stopped; 1 of 3 targets are judged, not {late}, {first}. Nothing is kept: the same command")
    assert "--quick" not in done.stderr


def test_check_replaces_the_result(place: Path) -> None:
    code = "import sys; from mxspec_conformance.cli.main import main; main(sys.argv[1:])"
    done = run_code(code, "check", place / "target.py", "--in-process", "--json", place / "result.json")
    assert done.returncode == 0, done.stderr
    assert set(snapshot(place)) == {"target.py", "result.json"}
    assert set(json.loads((place / "result.json").read_bytes())["counts"]) == {"pass"}


# export


@each_error
@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace")])
def test_a_failed_file_leaves_no_temporary(
    place: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException
) -> None:
    before = snapshot(place)
    fail_at(monkeypatch, owner, name, 1, error)
    with pytest.raises(type(error)):
        files.write_file(place / "result.json", b"new")
    monkeypatch.undo()
    assert snapshot(place) == before


@each_error
def test_files_are_written_together(place: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Where the third of three files cannot be written, the first two are not changed."""
    before = snapshot(place)
    opened: list[int] = []
    fdopen = os.fdopen

    def full(handle: int, *args: Any, **kwargs: Any) -> Any:
        opened.append(handle)
        if len(opened) == 3:
            os.close(handle)
            raise error
        return fdopen(handle, *args, **kwargs)

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(type(error)):
        files.write_files({place / n: b"new" for n in ("a.mem", "result.json", "z.mem")})
    assert len(opened) == 3
    monkeypatch.undo()
    assert snapshot(place) == before
    files.write_files({place / n: b"new" for n in ("a.mem", "result.json", "z.mem")})
    assert {n: c for n, c in snapshot(place).items() if c == b"new"}.keys() == {"a.mem", "result.json", "z.mem"}


def test_a_folder_in_the_way_changes_nothing(place: Path) -> None:
    (place / "b.mem").mkdir()
    before = snapshot(place)
    with pytest.raises(writing.NothingWritten, match="Is a directory"):
        files.write_files({place / "a.mem": b"new", place / "b.mem": b"new"})
    assert snapshot(place) == before


@unix
def test_modes_are_the_users(tmp_path: Path) -> None:
    """A new file has the mode of the umask, an old one keeps its own; a link is followed."""
    old = tmp_path / "old"
    old.write_bytes(b"")
    old.chmod(0o640)
    (tmp_path / "link").symlink_to("old")
    mask = os.umask(0o077)
    try:
        files.write_files({tmp_path / "new": b"new", tmp_path / "link": b"through"})
        builder_tree = tmp_path / "v1"
        files.write_tree(builder_tree, [("index.json", b"{}")])
    finally:
        os.umask(mask)
    assert (tmp_path / "link").is_symlink()
    assert old.read_bytes() == b"through"
    assert [p.stat().st_mode & 0o777 for p in (old, tmp_path / "new", builder_tree)] == [0o640, 0o600, 0o700]


@unix
def test_what_is_no_file_is_written_into(tmp_path: Path) -> None:
    files.write_files({Path("/dev/null"): b"x"})
    assert Path("/dev/null").is_char_device()
    done = run_code("from pathlib import Path; from mxspec_vectors.files import write_file; write_file(Path('/dev/stdout'), b'text')")
    assert done.stdout == "text"


@unix
def test_a_failed_write_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_at(monkeypatch, os, "fsync", 1, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(writing.NothingWritten, match="No space"):
        files.write_file(tmp_path / "a" / "b" / "c.json", b"new")
    assert list(tmp_path.iterdir()) == []


def test_everything_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    for owner, name in ((os, "fsync"), (Path, "replace")):
        original = getattr(owner, name)

        def traced(*args: Any, name: str = name, original: Any = original) -> Any:
            steps.append(name)
            return original(*args)

        monkeypatch.setattr(owner, name, traced)
    files.write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert steps[:4] == ["fsync", "fsync", "replace", "replace"]


def test_without_sync_nothing_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    files.write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"}, sync=False)
    assert waited == []
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"1", "b": b"2"}
    files.write_files({tmp_path / "a": b"3"})
    assert waited
