"""What a container's header says, whatever the container."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from mxspec.containers.problems import Collector, ContainerError, Fault, Problem

#: A tensor's sizes are below 2**63 in both containers.
SIZE_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor."""

    name: str
    #: safetensors' dtype, or the name of ggml's type.
    dtype: str
    #: Slowest axis first, as NumPy has it.
    shape: tuple[int, ...]
    #: First byte in the file.
    offset: int
    #: Bytes.
    size: int
    path: Path


@dataclass(frozen=True, slots=True)
class Header:
    """The tensors of one file, and what else its header says."""

    path: Path
    #: "safetensors" or "gguf".
    container: str
    #: In the order of the header.
    tensors: tuple[Tensor, ...]
    #: Text entries: safetensors' `__metadata__`, GGUF's keys of type string (those requested).
    metadata: Mapping[str, str]
    file_size: int
    data_start: int
    #: GGUF: bytes of all key-value pairs, as they are, and their number; alignment of tensor data.
    keys: bytes = b""
    key_count: int = 0
    alignment: int = 32
    problems: tuple[Problem, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Preamble:
    """What the header of a file to be written says in addition to its tensors."""

    container: str
    #: safetensors' `__metadata__`; text keys of GGUF that follow `keys`.
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: GGUF: encoded keys, their number, alignment, and the order of tensors, as far as it is known.
    keys: bytes = b""
    key_count: int = 0
    alignment: int = 32
    order: tuple[str, ...] = ()
    #: safetensors: the JSON text of the header, where another writer than the library's wrote it.
    text: str | None = None


def open_file(path: Path) -> tuple[BinaryIO, int]:
    """An open regular file and its size.

    Raises ContainerError for what is no regular file or cannot be opened.
    """
    place = Collector(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise place.stop(Fault.UNREADABLE, "is not a regular file; name a file")
        file = path.open("rb")
    except OSError as error:
        raise place.stop(Fault.UNREADABLE, f"cannot be opened: {error.strerror or error}") from error
    except ValueError as error:  # NUL, or half a character
        raise place.stop(Fault.UNREADABLE, f"is no file name ({error})") from error
    return file, os.fstat(file.fileno()).st_size


def read_runs(tensor: Tensor, runs: Iterable[tuple[int, int]]) -> bytes:
    """Bytes of a tensor's data: of runs, each its first byte and size.

    Read, not mapped: a file that shrinks meanwhile gives an error and no signal. Raises ContainerError.
    """
    parts: list[bytes] = []
    file, _ = open_file(tensor.path)
    with file:
        for start, size in runs:
            file.seek(tensor.offset + start)
            data = file.read(size)
            if len(data) != size:
                text = f"{size} bytes were due, {len(data)} are there"
                raise ContainerError.of(tensor.path, Problem(Fault.TRUNCATED, text, tensor.name, tensor.offset + start))
            parts.append(data)
    return b"".join(parts)


def read_at(tensor: Tensor, start: int, size: int) -> bytes:
    """Bytes `start` to `start + size` of a tensor's data. Raises ContainerError."""
    return read_runs(tensor, [(start, size)])


def count_items(shape: Iterable[int]) -> int | None:
    """The product of a shape, or None where it does not stay below 2**63."""
    sizes = list(shape)
    if 0 in sizes:
        return 0
    total = 1
    for n in sizes:
        total *= n
        if total >= SIZE_LIMIT:
            return None
    return total


def check_spans(tensors: list[Tensor], place: Collector, *, start: int, stop: int, contiguous: bool) -> None:
    """Note tensors that overlap, and, where data must be contiguous, holes between them and after the last."""
    end, before = start, "the header"
    for tensor in sorted(tensors, key=lambda t: (t.offset, t.offset + t.size)):
        if tensor.offset < end and tensor.size:
            text = f"begins before {before} ends at byte {end}; data of two tensors must not share bytes"
            place.note(Fault.OVERLAP, text, tensor=tensor.name, offset=tensor.offset)
        elif contiguous and tensor.offset > end:
            text = f"{tensor.offset - end} bytes lie unused between {before} and it; data must be contiguous"
            place.note(Fault.GAP, text, tensor=tensor.name, offset=end)
        if tensor.offset + tensor.size >= end:
            end, before = tensor.offset + tensor.size, tensor.name
    if contiguous and end < stop:
        place.note(Fault.GAP, f"{stop - end} bytes follow the last tensor; data must end with the file", offset=end)


def round_up(value: int, multiple: int) -> int:
    """The next multiple that is not below the value."""
    return -(-value // multiple) * multiple
