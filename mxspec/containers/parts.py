"""Runs of elements of a block-quantized tensor: read from one form, written in another, whatever the tensor's size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import layouts
from mxspec.containers.conventions import MARK_SUFFIX, Form, Scalars
from mxspec.containers.dtypes import SAFETENSORS_BITS
from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor, count_items, read_at
from mxspec.containers.problems import ContainerError
from mxspec.elements import ScaleCodes
from mxspec.formats import E8M0, BlockFormat

Bytes = npt.NDArray[np.uint8]
#: Name of a stored tensor, first byte in it, and bytes that are written there.
Chunk = tuple[str, int, bytes | Bytes]
#: Elements handled at once.
RUN = 1 << 22


@dataclass(frozen=True, slots=True)
class Part:
    """Elements `start` to `start + len(codes)` in row-major order."""

    start: int
    #: uint8, one code in each.
    codes: Bytes
    #: One for each k codes: uint8, or uint32 of float32 bits.
    scales: ScaleCodes


def cut(shape: tuple[int, ...], *, by_rows: bool) -> Iterator[tuple[int, int]]:
    """Ends of the runs in which a tensor of this shape, in whole blocks, is read: multiples of 64 elements, or of 128 rows."""
    total = count_items(shape) or 0
    step = max(RUN // (128 * shape[-1]), 1) * 128 * shape[-1] if by_rows and shape[-1] else RUN
    for start in range(0, total, step):
        yield start, min(start + step, total)


def read_part(group: Group, start: int, stop: int) -> Part:
    """Codes and block scales of a run, read from the file."""
    if group.scales is None:
        return Part(start, *_read_joint(group, start, stop))
    return Part(start, read_codes(group, start, stop), _read_scales(group, group.scales, start, stop))


def read_codes(group: Group, start: int, stop: int) -> Bytes:
    """Codes of a run alone."""
    if group.scales is None:
        return _read_joint(group, start, stop)[0]
    if group.form.grid is not None:
        row, padded = group.shape[-1], group.padded[-1]
        first, last = start // padded, stop // padded
        found = np.zeros((last - first, padded), np.uint8)
        found[:, :row] = np.frombuffer(read_at(group.codes, first * row, (last - first) * row), np.uint8).reshape(-1, row)
        return found.reshape(-1)
    layout, bits = layouts.get_layout(group.form.codes.layout), group.form.format.element.bits
    data = read_at(group.codes, start * bits // 8, (stop - start) * bits // 8)
    return layouts.unpack(np.frombuffer(data, np.uint8), layout, (1, stop - start)).reshape(-1)


def _read_joint(group: Group, start: int, stop: int) -> tuple[Bytes, Bytes]:
    """Codes and scales where one tensor holds both."""
    layout, count = layouts.get_layout(group.form.codes.layout), stop - start
    data = read_at(group.codes, layout.size((1, start)), layout.size((1, count)))
    codes, scales = layouts.unpack_blocks(np.frombuffer(data, np.uint8), layout, (1, count))
    return codes.reshape(-1), scales.reshape(-1)


def read_grid(group: Group, first: int, last: int) -> npt.NDArray[Any]:
    """The scales of rows `first` to `last` of a matrix whose scales are a grid: E8M0 bytes, or float32 bits; first: that of a tile."""
    assert group.form.grid is not None
    assert group.scales is not None
    tile, columns = group.form.grid, group.form.scale_shape(group.shape)[-1:] or (1,)
    a, b = (first // tile[0], -(-last // tile[0])) if tile[0] else (0, 1)
    size = SAFETENSORS_BITS[group.scales.dtype] // 8
    data = read_at(group.scales, a * columns[0] * size, (b - a) * columns[0] * size)
    items = np.frombuffer(data, f"<u{size}").reshape(b - a, -1)
    wide = items if size == 1 else items.astype(np.uint32)
    return wide << np.uint32(16) if size == 2 else wide


def raise_powers(scales: Bytes) -> npt.NDArray[np.uint32]:
    """float32 bits of E8M0 bytes, all of which are exact: 2^-127 is subnormal."""
    bits = scales.astype(np.uint32) << np.uint32(23)
    return np.where(scales == 0, np.uint32(1 << 22), np.where(scales == 0xFF, np.uint32(0x7FC00000), bits)).astype(np.uint32)


def turn_scales(scales: ScaleCodes, source: BlockFormat, target: BlockFormat, base: str) -> ScaleCodes:
    """Block scales of one format in another: float32 and powers of two. Raises ContainerError for a float32 that is no power of two."""
    if source.scale == target.scale:
        return scales
    if source.scale == E8M0:
        return raise_powers(scales.astype(np.uint8))
    found = np.where(scales == 1 << 22, 0, scales >> np.uint32(23)).astype(np.uint8)
    is_nan = (scales > 0x7F800000) & (scales < 1 << 31)
    wrong = (raise_powers(found) != scales) & ~is_nan
    if wrong.any():
        value = float(scales[wrong][:1].view(np.float32)[0])
        raise ContainerError(f"{base}: the scale {value!r} is no power of two from 2^-127 to 2^127, so {target.name} cannot store it")
    return found


def _read_scales(group: Group, stored: Tensor, start: int, stop: int) -> ScaleCodes:
    k, row = group.form.format.k, group.shape[-1]
    if group.form.grid is not None:
        padded = group.padded[-1]
        first, last = start // padded, stop // padded
        places = group.form.list_places(last - first, padded // k)
        return read_grid(group, first, last)[np.ix_(*places)].reshape(-1)
    if not group.form.tiled:
        return np.frombuffer(read_at(stored, start // k, (stop - start) // k), np.uint8)
    layout, columns, rows = layouts.get_layout("128x4"), row // k, stop // row - start // row
    data = read_at(stored, layout.size((start // row, columns)) if start else 0, layout.size((rows, columns)))
    return layouts.unpack(np.frombuffer(data, np.uint8), layout, (rows, columns)).reshape(-1)


def write_part(form: Form, base: str, shape: tuple[int, ...], part: Part, scale_dtype: str | None = None) -> Iterator[Chunk]:
    """What is stored of a run in a form; of a grid of scales the first of each tile."""
    k, bits, codes = form.format.k, form.format.element.bits, base + form.codes.suffix
    if form.grid is not None:
        yield from _write_grid(form, base, shape, part, scale_dtype)
        return
    layout = layouts.get_layout(form.codes.layout)
    if form.scales is None:
        yield codes, layout.size((1, part.start)), layouts.pack_blocks(part.codes.reshape(1, -1), part.scales.reshape(1, -1), layout)
        return
    yield codes, part.start * bits // 8, layouts.pack(part.codes.reshape(1, -1), layout)
    if not form.tiled:
        yield base + form.scales.suffix, part.start // k, part.scales
        return
    columns, first, tiles = shape[-1] // k, part.start // shape[-1], layouts.get_layout("128x4")
    data = layouts.pack(part.scales.reshape(-1, columns), tiles)
    yield base + form.scales.suffix, tiles.size((first, columns)) if first else 0, data


def _write_grid(form: Form, base: str, shape: tuple[int, ...], part: Part, scale_dtype: str | None) -> Iterator[Chunk]:
    assert form.grid is not None
    assert form.scales is not None
    row, padded, tile = shape[-1], form.padded(shape)[-1], form.grid
    first = part.start // padded
    yield base + form.codes.suffix, first * row, np.ascontiguousarray(part.codes.reshape(-1, padded)[:, :row]).reshape(-1)
    every = part.scales.reshape(-1, padded // form.format.k)
    rows, columns = form.list_places(*every.shape)
    grid = np.ascontiguousarray(every[np.unique(rows, return_index=True)[1]][:, np.unique(columns, return_index=True)[1]])
    size = SAFETENSORS_BITS[scale_dtype or form.scales.dtypes[0]] // 8
    if size == 2:
        if (grid & np.uint32(0xFFFF)).any():
            raise ContainerError(f"{base}: a scale is no bfloat16, and the scales of the first file were; convert with --ignore-origin")
        grid = (grid >> np.uint32(16)).astype(np.uint16)
    place = first // tile[0] * grid.shape[1] * size if tile[0] else 0
    yield base + form.scales.suffix, place, grid.astype(f"<u{size}").reshape(-1).view(np.uint8)


def write_scalars(base: str, scalars: Scalars, mark: str | None) -> Iterator[Chunk]:
    """The float32 scales of a tensor, and the mark that says how it is stored."""
    for suffix, (_, bits) in scalars.items():
        yield base + suffix, 0, np.array(bits, "<u4").tobytes()
    if mark is not None:
        yield base + MARK_SUFFIX, 0, mark.encode()


def count_pairs(part: Part, form: Form) -> npt.NDArray[np.int64]:
    """How often each pair of scale code and element code occurs: int64 [256, element codes]."""
    k, codes = form.format.k, form.format.element.code_count
    pairs = np.repeat(part.scales.astype(np.uint16) * codes, k)
    pairs += part.codes
    return np.bincount(pairs, minlength=256 * codes).reshape(256, codes).astype(np.int64, copy=False)
