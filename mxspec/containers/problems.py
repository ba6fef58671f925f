"""What can be wrong with a file, as data: read by the reader, which stops at the first, and by lint, which lists all."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.enums import StrEnum


class Fault(StrEnum):
    """Kinds of fault that a container can have."""

    UNREADABLE = "unreadable"
    MAGIC = "magic"
    VERSION = "version"
    TRUNCATED = "truncated"
    HEADER_SIZE = "header-size"
    HEADER_TEXT = "header-text"
    COUNT = "count"
    KEY = "key"
    ALIGNMENT = "alignment"
    NAME = "name"
    DTYPE = "dtype"
    SHAPE = "shape"
    SIZE = "size"
    OFFSET = "offset"
    OVERLAP = "overlap"
    GAP = "gap"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a file: what was found and what is allowed."""

    fault: Fault
    text: str
    tensor: str | None = None
    #: Byte of the file where it is.
    offset: int | None = None


class ContainerError(ValueError):
    """A file cannot be read, or cannot be written in the convention requested."""

    def __init__(self, text: str, problem: Problem | None = None) -> None:
        super().__init__(text)
        self.problem = problem

    @classmethod
    def of(cls, path: object, problem: Problem) -> ContainerError:
        """The error that a reader raises for a problem of a file."""
        where = "" if problem.tensor is None else f", tensor {clip(problem.tensor)}"
        place = "" if problem.offset is None else f" (byte {problem.offset})"
        return cls(f"{clip(str(path), 1000)}{where}: {problem.text}{place}", problem)


def clip(text: str, width: int = 80) -> str:
    """A name of unknown origin, cut to what a message can hold."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


class Collector:
    """Problems of one file, in the order in which they were found."""

    def __init__(self, path: object) -> None:
        self.path = path
        self.found: list[Problem] = []

    def note(self, fault: Fault, text: str, *, tensor: str | None = None, offset: int | None = None) -> None:
        """A problem after which reading can go on."""
        self.found.append(Problem(fault, text, tensor, offset))

    def stop(self, fault: Fault, text: str, *, tensor: str | None = None, offset: int | None = None) -> ContainerError:
        """The error to raise where reading cannot go on."""
        return ContainerError.of(self.path, Problem(fault, text, tensor, offset))
