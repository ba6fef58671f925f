"""The tensors of plain numbers in a .npy, safetensors or GGUF file, as float32 matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.containers.checkpoint import open_checkpoint
from mxspec.containers.header import Tensor, open_file, read_at
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.containers.problems import ContainerError
from mxspec.elements import as_float32


@dataclass(frozen=True, slots=True)
class Numbers:
    """A tensor of a file, or its first rows."""

    name: str
    #: The whole shape.
    shape: tuple[int, ...]
    #: float32 [rows, columns]: the last axis is the columns, all others are rows.
    values: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A tensor that can be read."""

    name: str
    shape: tuple[int, ...]
    #: Its first rows, as they are stored.
    take: Callable[[int], npt.NDArray[Any]]


def read_numbers(path: str | Path, *, names: Sequence[str] = (), most: int | None = None) -> Iterator[Numbers]:
    """The tensors of a file that hold float32, float16, bfloat16, or float64 that is exactly float32.

    Args:
        path: A .npy file, a safetensors or GGUF file, an index of shards, or a folder that holds a checkpoint.
        names: Only tensors of these names, of any shape; default: all of two axes or more, as biases and norms are not
            quantized. A .npy file has one tensor, named like the file.
        most: How many numbers to read in all, in whole rows; the first row of the first tensor is always read.

    Raises:
        ContainerError: The file cannot be read, or holds no such tensor.
    """
    place, left, is_first = Path(path), most, True
    for stored in _list_chosen(place, names):
        rows, columns = int(np.prod(stored.shape[:-1], dtype=np.int64)), stored.shape[-1]
        if left is not None:
            rows = min(rows, max(left // columns, int(is_first)))
            left -= rows * columns
        is_first = False
        if rows:
            try:
                values = as_float32(stored.take(rows), name=stored.name)
            except (TypeError, ValueError) as error:
                raise ContainerError(f"{place}: {error}") from error
            yield Numbers(stored.name, stored.shape, np.ascontiguousarray(values))


def _list_chosen(place: Path, names: Sequence[str]) -> list[_Stored]:
    every = _list_npy(place) if place.suffix == ".npy" else _list_checkpoint(place)
    plain = place.suffix == ".npy" or bool(names)
    chosen = [
        t for t in every if t.shape and 0 not in t.shape and (t.name in names if names else plain or len(t.shape) > 1)
    ]
    if not chosen:
        wanted = f"named {', '.join(names)}" if names else "of two axes or more"
        held = ", ".join(t.name for t in every[:5]) + (", ..." if len(every) > 5 else "")
        raise ContainerError(f"{place} has no tensor of numbers {wanted}; those that it has: {held or 'none'}")
    return chosen


def _list_npy(place: Path) -> list[_Stored]:
    open_file(place)[0].close()  # what is no regular file is refused there
    try:
        array = np.load(place, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ContainerError(f"{place} is not a readable .npy file: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ContainerError(f"{place} contains several arrays; save one of them with numpy.save")
    return [_Stored(place.name, array.shape, partial(_first_rows, array))]


def _first_rows(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    kept: npt.NDArray[Any] = array.reshape(-1, array.shape[-1])[:rows]
    return kept


def _list_checkpoint(place: Path) -> list[_Stored]:
    tensors = open_checkpoint(place).tensors.values()
    return [_Stored(t.name, t.shape, partial(_read_rows, t)) for t in tensors if t.dtype in PLAIN_DTYPES]


def _read_rows(tensor: Tensor, rows: int) -> npt.NDArray[Any]:
    dtype, columns = PLAIN_DTYPES[tensor.dtype], tensor.shape[-1]
    data = read_at(tensor, 0, rows * columns * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(rows, columns).astype(dtype.newbyteorder("="))
