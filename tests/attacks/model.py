"""What an attack is: files, a command, and what has to be true afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one command came to."""

    code: int | None
    out: bytes
    err: bytes
    seconds: float
    #: The most memory of the judge, MB.
    memory: float
    #: Command lines of processes that were left behind.
    leaked: tuple[str, ...]
    hung: bool

    @property
    def text(self) -> str:
        """Everything that it printed."""
        return (self.out + b"\n" + self.err).decode("utf-8", "replace")


#: Folder and outcome -> what is wrong; nothing: an empty text.
Check = Callable[[Path, Outcome], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack. What holds for all needs no words here: see `run.judge`."""

    id: str
    kind: str
    what: str
    #: Arguments of `mxspec`; empty where `shell` is given.
    arguments: tuple[str, ...] = ()
    #: A line for sh; `mxspec` and `python` in it are this environment's.
    shell: str = ""
    #: Name -> content, written before.
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    #: Called with the folder before the command: what no file content is.
    prepare: Callable[[Path], None] | None = None
    codes: tuple[int, ...] = (0,)
    #: Words that are printed or in the JSON result.
    words: tuple[str, ...] = ()
    #: Seconds and megabytes that are not exceeded.
    seconds: float = 40.0
    memory: float = 700.0
    check: Check | None = None
    #: A signal that the command gets after so many seconds.
    signal: tuple[int, float] | None = None
    #: Run by `make test`.
    quick: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
