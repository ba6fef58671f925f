"""Files that get their names when they are whole; long writes go on where a killed run stopped, and end with the same bytes.

Files grow in a folder next to the output, `.NAME.partial`, whose journal names the request and how many steps are on the
disk. A step writes bytes that follow from the input and the options alone, at places that the header fixes: repeating one
changes nothing. The output gets its name when all steps are done.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from mxspec.containers.header import Tensor
from mxspec.containers.problems import ContainerError

#: Bytes written between two entries of the journal.
_INTERVAL = 64 << 20


def digest_request(request: Mapping[str, Any]) -> str:
    """SHA-256 of the request, in hex: a partial output of another request is not continued."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def describe_input(paths: list[Path]) -> list[list[Any]]:
    """What tells an input file from another, or from itself after a change: name, size, time of change."""
    return [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in paths]


class OutputFile:
    """A container being written: its header is there, its data come in any order."""

    def __init__(self, path: Path, header: bytes, placed: Sequence[Tensor], size: int, *, resume: bool = False) -> None:
        # A file has its size only when its header is there.
        keep = resume and path.is_file() and path.stat().st_size == size
        #: Whether what an earlier run wrote is kept.
        self.resumed = keep
        self._file = path.open("r+b" if keep else "wb")
        if not keep:
            self._file.write(header)
            # Holes read as zeros, which is what padding between tensors is.
            self._file.truncate(size)
        self._places = {t.name: t for t in placed}

    def write(self, name: str, start: int, data: bytes | npt.NDArray[np.uint8]) -> int:
        """Put bytes at a place within a tensor; how many they are."""
        tensor = self._places[name]
        view = memoryview(data.tobytes() if isinstance(data, np.ndarray) else data)
        assert start + view.nbytes <= tensor.size
        self._file.seek(tensor.offset + start)
        self._file.write(view)
        return view.nbytes

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Hand everything to the operating system."""
        self.sync()
        self._file.close()


def check_target(out: Path, *, source: Path | None = None, force: bool = False) -> None:
    """Raise ContainerError where writing would destroy something that was not offered."""
    if source is not None and out.exists() and out.resolve() == source.resolve():
        raise ContainerError(f"{out} is the input; name another output")
    if out.is_dir():
        raise ContainerError(f"the folder {out} exists; name a new one")
    if out.exists() and not force:
        raise ContainerError(f"{out} exists; name a new file, or pass --force to replace it")
    if not out.parent.exists():
        raise ContainerError(f"the folder {out.parent} does not exist; make it first")


def put_in_place(made: Path, out: Path) -> None:
    """Give a finished file or folder its name, with the mode of a file that it replaces."""
    if made.is_file() and out.exists():
        made.chmod(stat.S_IMODE(out.stat().st_mode))
    os.replace(made, out)  # noqa: PTH105  # Path.replace follows no other rule; os.replace names both in its errors


class Journal:
    """The steps that are done, on the disk where there is a file for them."""

    def __init__(self, folder: Path, file: IO[bytes] | None = None, done: int = 0) -> None:
        self.folder = folder
        self._file = file
        #: Steps of an earlier run that need not be repeated.
        self.done = done
        self._step = 0
        self._pending = 0

    def is_done(self) -> bool:
        """Whether the next step was done by an earlier run; counts it if so."""
        if self._step < self.done:
            self._step += 1
            return True
        return False

    def forget(self) -> None:
        """The next file is not there: whatever the journal says, its steps are to be done."""
        self.done = min(self.done, self._step)

    def finish(self, size: int, sync: Callable[[], None]) -> None:
        """Count a step that wrote so many bytes; every so often put it on the disk."""
        self._step += 1
        self._pending += size
        if self._pending >= _INTERVAL:
            self.record(sync)

    def record(self, sync: Callable[[], None]) -> None:
        """Put what was written, and then that it was, on the disk."""
        if self._file is None:
            return
        sync()
        self._file.write(f"{max(self._step, self.done)}\n".encode("ascii"))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._pending = 0


def _lock(file: IO[bytes], folder: Path) -> None:
    """Keep a second process off the same output; the system frees the lock of one that is killed."""
    try:
        import fcntl
    except ImportError:  # Windows refuses to open a file twice for writing in ways of its own
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ContainerError(f"another process is writing {folder}; wait for it, or end it") from error


@contextmanager
def staged(out: Path) -> Iterator[Journal]:
    """The same for writes that do not go on: on any error, Ctrl-C included, the folder is gone and `out` is as it was."""
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        yield Journal(folder)
        put_in_place(folder / out.name, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def resumable(out: Path, request: Mapping[str, Any], *, restart: bool = False) -> Iterator[Journal]:
    """A folder that holds, under `out`'s name, what becomes `out` when the block ends well.

    A run that is killed or interrupted leaves the folder, and the same request goes on there; any other error removes it.

    restart: begin anew in any case. Raises ContainerError while another process is at it.
    """
    folder, identity = out.parent / f".{out.name}.partial", digest_request(request)
    folder.mkdir(exist_ok=True)
    with (folder / "journal").open("a+b") as file:
        _lock(file, folder)
        done = -1 if restart else _read_journal(file, identity)
        if done < 0:
            for left in folder.iterdir():
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left)
                elif left.name != "journal":
                    left.unlink()
            file.truncate(0)
            file.write(f"{identity}\n".encode("ascii"))
            file.flush()
        try:
            yield Journal(folder, file, max(done, 0))
            put_in_place(folder / out.name, out)
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    with suppress(OSError):
        shutil.rmtree(folder)


def _read_journal(file: IO[bytes], identity: str) -> int:
    """Steps done of this request, or -1 for no journal of it."""
    file.seek(0)
    lines = file.read().split(b"\n")[:-1]  # a line without its end was not written whole
    if not lines or lines[0] != identity.encode("ascii"):
        return -1
    return int(lines[-1]) if len(lines) > 1 and lines[-1].isdigit() else 0
