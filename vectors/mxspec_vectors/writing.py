"""Files written as a whole: under temporary names in the same folder, synced, and renamed when all are written."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path


class NothingWritten(OSError):
    """A write failed before anything was changed; everything is as it was."""


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the operating system name the file that was to be written."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_file(path: Path, data: bytes) -> None:
    """Write a file as a whole: to a temporary name in the same folder, then renamed."""
    write_files({path: data})


def write_files(contents: Mapping[Path, bytes], *, sync: bool = True) -> None:
    """Write files as a whole: all to temporary names in the same folder, and only when all are written are they renamed.

    A link is followed, an existing file keeps its mode, a new one gets that of the user's umask. What is no regular file (a
    device, a FIFO, a descriptor under /dev) is written into, after all else.
    sync: wait until all is on the disk. Without it a loss of power may leave empty files; that is for what a command makes again.
    Raises NothingWritten, naming the file, where nothing was changed: neither files nor folders are left then.
    """
    streams: dict[Path, bytes] = {}
    temporary: dict[Path, Path] = {}
    made: list[Path] = []
    renamed = 0
    try:
        for path, data in contents.items():
            with naming(path):
                if is_stream(path):
                    streams[path] = data
                    continue
                place = path.resolve()
                if place.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
                made += make_folders(place.parent)
                temporary[place] = place.with_name(f".{place.name[:100]}-{secrets.token_hex(6)}")
                _write_new(temporary[place], data, like=place, sync=sync)
        for place, written in temporary.items():
            with naming(place):
                written.replace(place)
            renamed += 1
        for folder in {place.parent for place in temporary} if sync else ():
            sync_folder(folder)
        for path, data in streams.items():
            with naming(path):
                _write_into(path, data)
    except BaseException as error:
        for folder in reversed(made if not renamed else []):
            for written in temporary.values():
                written.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError) and not renamed:
            raise NothingWritten(error.errno, error.strerror, error.filename) from error
        raise
    finally:
        for written in temporary.values():
            written.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Whether there is something under this name that cannot be replaced, only written into."""
    if path.parent in _DESCRIPTORS or (path.name in ("stdout", "stderr") and path.parent == Path("/dev")):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_into(path: Path, data: bytes) -> None:
    """Into a device, a FIFO or a socket's descriptor; a FIFO without a reader is an error, and not a wait."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "wb") as stream:
        os.set_blocking(handle, True)
        stream.write(data)


_DESCRIPTORS = (Path("/dev/fd"), Path("/proc/self/fd"))


def make_folders(folder: Path) -> list[Path]:
    """Make a folder with its parents; those that were not there, outermost first."""
    absent = []
    while not folder.exists():
        absent.append(folder)
        folder = folder.parent
    for new in reversed(absent):
        new.mkdir(exist_ok=True)
    return absent[::-1]


def _write_new(path: Path, data: bytes, *, like: Path, sync: bool = True) -> None:
    """A new file, with `sync` on the disk and not only on its way there, with the mode of another where that exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(handle, "wb") as file:
        with contextlib.suppress(OSError):
            path.chmod(stat.S_IMODE(like.stat().st_mode))
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Names on the disk, too; where folders cannot be synced, nothing."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def replace_tree(root: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Replace a folder of files as a whole: everything is written to a temporary folder next to it, then the two change names.

    On any error (a full disk, Ctrl-C) the folder is as it was and the temporary one is gone.
    """
    shown, root = root, root.resolve()
    made: list[Path] = []
    staging = root.with_name(f".{root.name}-{secrets.token_hex(6)}")
    old, new = staging / "old", staging / "new"
    done = False
    try:
        with naming(shown):
            made = make_folders(root.parent)
            staging.mkdir()
        for name, data in contents:
            path = new / name
            with naming(shown / name):
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_new(path, data, like=root / name)
        with naming(shown):
            if not root.exists():
                new.rename(root)
            elif not _exchange(new, root):
                root.rename(old)
                new.rename(root)
        done = True
    except BaseException as error:
        if old.exists() and not root.exists():
            old.rename(root)
        if isinstance(error, OSError):
            raise NothingWritten(error.errno, error.strerror, error.filename) from error
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        for folder in reversed([] if done else made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change names in one step; False where the system has none, and nothing was done.

    Between two renames a crash would leave no folder at all.
    """
    if sys.platform != "linux":
        return False
    call: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    at_cwd, exchange = -100, 2
    return call is not None and call(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0
