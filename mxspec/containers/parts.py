"""Runs of elements of a block-quantized tensor: read from one form, written in another, whatever the tensor's size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec import layouts
from mxspec.containers.conventions import MARK_SUFFIX, Form, Scalars
from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor, count_items, read_at

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
    #: uint8, one for each k codes.
    scales: Bytes


def cut(shape: tuple[int, ...], *, tiled: bool) -> Iterator[tuple[int, int]]:
    """Ends of the runs in which a tensor of this shape is read: multiples of 64 elements, or of 128 rows where tiled."""
    total = count_items(shape) or 0
    step = max(RUN // (128 * shape[-1]), 1) * 128 * shape[-1] if tiled and shape[-1] else RUN
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
    layout, bits = layouts.get_layout(group.form.codes.layout), group.form.format.element.bits
    data = read_at(group.codes, start * bits // 8, (stop - start) * bits // 8)
    return layouts.unpack(np.frombuffer(data, np.uint8), layout, (1, stop - start)).reshape(-1)


def _read_joint(group: Group, start: int, stop: int) -> tuple[Bytes, Bytes]:
    """Codes and scales where one tensor holds both."""
    layout, count = layouts.get_layout(group.form.codes.layout), stop - start
    data = read_at(group.codes, layout.size((1, start)), layout.size((1, count)))
    codes, scales = layouts.unpack_blocks(np.frombuffer(data, np.uint8), layout, (1, count))
    return codes.reshape(-1), scales.reshape(-1)


def _read_scales(group: Group, stored: Tensor, start: int, stop: int) -> Bytes:
    k, row = group.form.format.k, group.shape[-1]
    if not group.form.tiled:
        return np.frombuffer(read_at(stored, start // k, (stop - start) // k), np.uint8)
    layout, columns, rows = layouts.get_layout("128x4"), row // k, stop // row - start // row
    data = read_at(stored, layout.size((start // row, columns)) if start else 0, layout.size((rows, columns)))
    return layouts.unpack(np.frombuffer(data, np.uint8), layout, (rows, columns)).reshape(-1)


def write_part(form: Form, base: str, shape: tuple[int, ...], part: Part) -> Iterator[Chunk]:
    """What is stored of a run in a form."""
    k, bits, codes = form.format.k, form.format.element.bits, base + form.codes.suffix
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
