"""The tensors of plain numbers in a .npy, safetensors or GGUF file, as float32 matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
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


#: Name and shape of a tensor that can be read, and what reads its first rows as they are stored.
_Stored = tuple[str, tuple[int, ...], Callable[[int], npt.NDArray[Any]]]


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
    for name, shape, take in _list_chosen(place, names):
        rows, columns = prod(shape[:-1]), shape[-1]
        if left is not None:
            rows = min(rows, max(left // columns, int(is_first)))
            left -= rows * columns
        is_first = False
        if rows:
            try:
                values = as_float32(take(rows), name=name)
            except (TypeError, ValueError) as error:
                raise ContainerError(f"{place}: {error}") from error
            yield Numbers(name, shape, np.ascontiguousarray(values))


def _list_chosen(place: Path, names: Sequence[str]) -> list[_Stored]:
    every = _list_npy(place) if place.suffix == ".npy" else _list_checkpoint(place)
    plain = place.suffix == ".npy" or bool(names)
    chosen = [(n, shape, t) for n, shape, t in every if shape and 0 not in shape and (n in names if names else plain or len(shape) > 1)]
    if not chosen:
        wanted = f"named {', '.join(names)}" if names else "of two axes or more"
        held = ", ".join(n for n, *_ in every[:5]) + (", ..." if len(every) > 5 else "")
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
    return [(place.name, array.shape, lambda rows: array.reshape(-1, array.shape[-1])[:rows])]


def _list_checkpoint(place: Path) -> list[_Stored]:
    return [(t.name, t.shape, partial(_read_rows, t)) for t in open_checkpoint(place).tensors.values() if t.dtype in PLAIN_DTYPES]


def _read_rows(tensor: Tensor, rows: int) -> npt.NDArray[Any]:
    dtype, columns = PLAIN_DTYPES[tensor.dtype], tensor.shape[-1]
    data = read_at(tensor, 0, rows * columns * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(rows, columns).astype(dtype.newbyteorder("="))
