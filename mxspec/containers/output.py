"""A file that is written in pieces, and what may be written where."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mxspec.containers.header import Tensor
from mxspec.containers.problems import ContainerError


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
