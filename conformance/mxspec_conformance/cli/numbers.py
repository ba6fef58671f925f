"""Tensors of users' files for `check --data` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mxspec.containers.numbers import Numbers
    from mxspec_conformance.judge.impact import Data

#: Numbers that are read of a file, in whole rows, unless the user says otherwise.
MOST = 1 << 20


def read_tensors(path: Path, *, names: Sequence[str] = (), most: int | None = MOST) -> list[Numbers]:
    """The first tensors of a file; what cannot be read ends the command with a message."""
    from mxspec.containers.numbers import read_numbers

    return list(read_numbers(path, names=names, most=most))


def read_data(path: Path) -> Data:
    """A file's tensors as data on which targets are tried."""
    from mxspec_conformance.judge.impact import Data

    return Data(path.name, tuple(t.values for t in read_tensors(path)))
