"""Bands of rows of a tensor [N, K] in a file, whatever its size: what is stored of them, in which words, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.checkpoints.forms import Axis, Floats, Packed
from mxspec.affine.formats import AffineFormat
from mxspec.affine.words import pack_words as pack_any, unpack_words as unpack_any
from mxspec.containers.header import Tensor, read_runs
from mxspec.containers.parts import RUN

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.uint8]
#: Sizes of codes that no byte's edge cuts: of whole checkpoints they are joined by shifts.
_WITHIN = (1, 2, 4, 8)
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


def locate(part: Packed | Floats, rows: tuple[int, int], n: int, across: int, fmt: AffineFormat) -> Rectangle:
    """Where a band of n rows' codes, scales or offsets is. across: numbers of a row: K, or the groups."""
    (first, last), size, others, width = rows, n, across, fmt.scalar.bits // 8
    if isinstance(part, Packed):
        width = 4
        if part.axis is Axis.K:
            others = across * fmt.bits // 32
        else:
            first, last, size = (x * fmt.bits // 32 for x in (first, last, n))
    return Rectangle(0, others, first, last, size, width) if part.transposed else Rectangle(first, last, 0, others, others, width)


def read_rectangle(tensor: Tensor, place: Rectangle) -> Array:
    """The items of a rectangle as unsigned integers. Raises ContainerError where the file has shrunk."""
    found = np.frombuffer(read_runs(tensor, place.runs()), f"<u{place.width}").astype(f"u{place.width}", copy=False)
    return found.reshape(place.bottom - place.top, place.right - place.left)


def list_pieces(array: Array, place: Rectangle) -> Iterator[tuple[int, Codes]]:
    """First byte in the tensor, and bytes, of each run of a rectangle that is to be written."""
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    done = 0
    for start, size in place.runs():
        yield start, data[done : done + size]
        done += size


def _join(codes: Codes, bits: int) -> Codes:
    """Bytes [..., k * bits / 8] of codes [..., k]: neighbours are joined until they fill a byte."""
    while bits < 8:
        joined = codes[..., 1::2] << np.uint8(bits)
        joined |= codes[..., ::2]
        codes, bits = joined, 2 * bits
    return codes


def _split(data: Codes, bits: int) -> Codes:
    """Codes [..., k] of bytes [..., k * bits / 8]."""
    if bits == 8:
        return data.copy()
    per = 8 // bits
    codes = np.empty((*data.shape, per), np.uint8)
    for i in range(per):
        np.right_shift(data, np.uint8(bits * i), out=codes[..., i])
    if bits < 8:
        codes &= np.uint8((1 << bits) - 1)
    return codes.reshape(*data.shape[:-1], -1)


def pack_words(codes: Codes, bits: int) -> npt.NDArray[np.uint32]:
    """`mxspec.affine.words.pack_words`, of codes [..., k] that fill whole words and have no more bits."""
    if bits not in _WITHIN:
        return pack_any(codes, bits)
    return np.ascontiguousarray(_join(np.ascontiguousarray(codes), bits)).view("<u4").astype(np.uint32, copy=False)


def unpack_words(stored: npt.NDArray[np.uint32], bits: int) -> Codes:
    """`mxspec.affine.words.unpack_words`."""
    if bits not in _WITHIN:
        return unpack_any(stored, bits)
    return _split(np.ascontiguousarray(stored.astype("<u4", copy=False)).view(np.uint8), bits)


def pack(numbers: Codes, part: Packed, bits: int) -> Array:
    """Words as they are stored, of numbers [rows, across]."""
    found = (numbers - np.uint8(1)) & np.uint8((1 << bits) - 1) if part.minus_one else numbers
    along_k = part.axis is Axis.K
    words = pack_words(_reorder(found if along_k else np.ascontiguousarray(found.T), part.order), bits)
    return (words.T if part.transposed == along_k else words).astype("<u4")


def unpack(words: Array, part: Packed, bits: int) -> Codes:
    """Numbers [rows, across] of words as they are stored; of zero points that are stored less one, what is stored plus one."""
    along_k = part.axis is Axis.K
    upright = words.T if part.transposed == along_k else words
    order = None if part.order is None else tuple(np.argsort(part.order).tolist())
    found = _reorder(unpack_words(np.ascontiguousarray(upright.astype(np.uint32)), bits), order)
    if not along_k:
        found = np.ascontiguousarray(found.T)
    return found + np.uint8(1) if part.minus_one else found


def _reorder(numbers: Codes, order: tuple[int, ...] | None) -> Codes:
    if order is None:
        return numbers
    return np.ascontiguousarray(numbers.reshape(*numbers.shape[:-1], -1, len(order))[..., list(order)]).reshape(numbers.shape)
