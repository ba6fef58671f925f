"""Bands of rows of a tensor [N, K] in a file, whatever its size: what is stored of them, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.checkpoints.forms import FLOAT_DTYPES, AffineForm, Axis, Packed
from mxspec.affine.checkpoints.words import pack_words, unpack_words
from mxspec.affine.formats import AffineFormat
from mxspec.containers.header import Tensor, open_file
from mxspec.containers.parts import RUN
from mxspec.containers.problems import ContainerError, Fault, Problem

Array = npt.NDArray[Any]
#: Rows of a band: a multiple of this, so that words along N belong to one band.
_ROWS = 32


def cut(shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """First row and end of the bands in which a tensor [N, K] is read: about 4 M numbers each."""
    n, k = shape
    step = max(RUN // max(k, 1) // _ROWS, 1) * _ROWS
    for start in range(0, n, step):
        yield start, min(start + step, n)


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Rows `top` to `bottom` and columns `left` to `right` of a stored matrix [rows, columns] of items of `width` bytes."""

    top: int
    bottom: int
    left: int
    right: int
    columns: int
    width: int

    def runs(self) -> Iterator[tuple[int, int]]:
        """First byte in the tensor, and bytes, of each contiguous run."""
        if self.right - self.left == self.columns:
            yield self.top * self.columns * self.width, (self.bottom - self.top) * self.columns * self.width
            return
        for row in range(self.top, self.bottom):
            yield (row * self.columns + self.left) * self.width, (self.right - self.left) * self.width


def locate(
    rows: tuple[int, int], n: int, others: int, width: int, *, transposed: bool, each: tuple[int, int] = (1, 1)
) -> Rectangle:
    """Where a band of rows is: of a matrix [N, others], or [others, N] where transposed.

    each: items for so many rows, where words run along N.
    """
    items, per = each
    first, last, size = rows[0] * items // per, rows[1] * items // per, n * items // per
    if transposed:
        return Rectangle(0, others, first, last, size, width)
    return Rectangle(first, last, 0, others, others, width)


def read_rectangle(tensor: Tensor, place: Rectangle, dtype: np.dtype[Any]) -> Array:
    """The items of a rectangle. Raises ContainerError where the file has shrunk."""
    file, _ = open_file(tensor.path)
    parts = []
    with file:
        for start, size in place.runs():
            file.seek(tensor.offset + start)
            data = file.read(size)
            if len(data) != size:
                problem = Problem(Fault.TRUNCATED, f"{size} bytes were due, {len(data)} are there", tensor.name, tensor.offset + start)
                raise ContainerError.of(tensor.path, problem)
            parts.append(data)
    whole = np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), dtype)
    return whole.reshape(place.bottom - place.top, place.right - place.left)


def list_pieces(array: Array, place: Rectangle) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
    """First byte in the tensor, and bytes, of each run of a rectangle that is to be written."""
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    done = 0
    for start, size in place.runs():
        yield start, data[done : done + size]
        done += size


def place_packed(part: Packed, rows: tuple[int, int], shape: tuple[int, int], across: int, bits: int) -> Rectangle:
    """Where the words of a band are. across: numbers of a row: K, or the groups."""
    n = shape[0]
    if part.axis is Axis.K:
        return locate(rows, n, across * bits // 32, 4, transposed=part.transposed)
    return locate(rows, n, across, 4, transposed=part.transposed, each=(bits, 32))


def pack(numbers: npt.NDArray[np.uint8], part: Packed, bits: int) -> Array:
    """Words as they are stored, of numbers [rows, across]."""
    found = (numbers - np.uint8(1)) & np.uint8((1 << bits) - 1) if part.minus_one else numbers
    along_k = part.axis is Axis.K
    words = pack_words(_reorder(found if along_k else np.ascontiguousarray(found.T), part.order), bits)
    return (words.T if part.transposed == along_k else words).astype("<u4")


def unpack(words: Array, part: Packed, bits: int) -> npt.NDArray[np.uint8]:
    """Numbers [rows, across] of words as they are stored; of zero points that are stored less one, what is stored plus one."""
    along_k = part.axis is Axis.K
    upright = words.T if part.transposed == along_k else words
    order = None if part.order is None else tuple(np.argsort(part.order).tolist())
    found = _reorder(unpack_words(np.ascontiguousarray(upright.astype(np.uint32)), bits), order)
    if not along_k:
        found = np.ascontiguousarray(found.T)
    return found + np.uint8(1) if part.minus_one else found


def _reorder(numbers: npt.NDArray[np.uint8], order: tuple[int, ...] | None) -> npt.NDArray[np.uint8]:
    if order is None:
        return numbers
    return np.ascontiguousarray(numbers.reshape(*numbers.shape[:-1], -1, len(order))[..., list(order)]).reshape(numbers.shape)


def list_stored(
    form: AffineForm, fmt: AffineFormat, shape: tuple[int, int], *, symmetric: bool
) -> Iterator[tuple[str, str, tuple[int, int], int]]:
    """Suffix, dtype, shape and bytes of an item, of codes, scales and offsets of a tensor [N, K]."""
    n, k = shape
    groups = k // fmt.group
    for part, across in ((form.codes, k), (form.scales, groups), (form.offsets, groups)):
        if part is form.offsets and symmetric and form.symmetric:
            continue
        if isinstance(part, Packed):
            inner = (n, across * fmt.bits // 32) if part.axis is Axis.K else (n * fmt.bits // 32, across)
            yield part.suffix, part.dtype, inner[::-1] if part.transposed else inner, 4
        else:
            yield part.suffix, FLOAT_DTYPES[fmt.dtype], (groups, n) if part.transposed else (n, groups), fmt.scalar.bits // 8
