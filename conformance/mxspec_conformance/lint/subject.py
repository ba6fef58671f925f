"""What lint examines: a checkpoint, the configuration next to it, and what one pass over each tensor has counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import layouts
from mxspec.affine.checkpoints import AffineCheckpoint, open_affine
from mxspec.containers.checkpoint import Checkpoint, StoredScales, read_scales
from mxspec.containers.dtypes import SAFETENSORS_BITS
from mxspec.containers.groups import Group
from mxspec.containers.parts import Part, count_pairs, cut, raise_powers, read_codes, read_grid, read_part
from mxspec.formats import E8M0, BlockFormat
from mxspec.layouts.schema import Part as Item

Counts = npt.NDArray[np.int64]


@dataclass(slots=True)
class BlockCounts:
    """Counts of one pass over a block-quantized tensor."""

    #: [256 scale bytes, element codes]: elements.
    pairs: Counts
    #: [256 scale bytes, magnitude codes]: blocks by the largest magnitude code in them.
    largest: Counts
    #: First block with each (scale byte, largest magnitude code), or -1.
    first: Counts


@dataclass(slots=True)
class GridCounts:
    """What one pass over a tensor whose scales are a grid has found; both arrays have the shape of the grid."""

    #: The scales as float32 bits, with their signs.
    bits: npt.NDArray[np.uint32]
    #: The largest magnitude code under each.
    largest: npt.NDArray[np.uint8]
    #: Elements of each code.
    codes: Counts


def magnitude_codes(fmt: BlockFormat) -> npt.NDArray[np.uint8]:
    """The magnitude code of every element code."""
    return np.array([fmt.element.split(c)[1] for c in range(fmt.element.code_count)], np.uint8)


def count_blocks(group: Group) -> BlockCounts:
    """One pass over a tensor, in pieces."""
    fmt = group.form.format
    magnitudes = magnitude_codes(fmt)
    width = int(magnitudes.max()) + 1
    pairs = np.zeros((256, fmt.element.code_count), np.int64)
    largest = np.zeros(256 * width, np.int64)
    first = np.full(256 * width, -1, np.int64)
    for start, stop in cut(group.shape, by_rows=group.form.by_rows):
        part = read_part(group, start, stop)
        pairs += count_pairs(part, group.form)
        keys = _block_keys(part, magnitudes, fmt.k, width)
        largest += np.bincount(keys, minlength=largest.size)
        unseen, where = np.unique(keys, return_index=True)
        new = first[unseen] < 0
        first[unseen[new]] = where[new] + start // fmt.k
    return BlockCounts(pairs, largest.reshape(256, width), first.reshape(256, width))


def count_grid(group: Group) -> GridCounts:
    """The same for a tensor whose scales are a grid."""
    assert group.form.grid is not None
    fmt, tile, padded = group.form.format, group.form.grid[0], group.padded[-1]
    bits = read_grid(group, 0, group.shape[0])
    bits = raise_powers(bits) if fmt.scale == E8M0 else bits
    magnitudes, largest, codes = magnitude_codes(fmt), np.zeros(bits.shape, np.uint8), np.zeros(256, np.int64)
    for start, stop in cut(group.padded, by_rows=True):
        part = read_codes(group, start, stop).reshape(-1, padded)
        rows, columns = group.form.list_places(len(part), padded // fmt.k)
        top = magnitudes[part].reshape(len(part), -1, fmt.k).max(axis=2)
        np.maximum.at(largest, (rows[:, None] + (start // padded // tile if tile else 0), columns), top)
        codes += np.bincount(part[:, : group.shape[-1]].reshape(-1), minlength=256)
    return GridCounts(bits, largest, codes)


def as_blocks(counts: GridCounts, group: Group) -> BlockCounts:
    """Counts of tiles as those of blocks, by the exponent bytes of their scales; zeros in tiles of nothing else are left out."""
    width = int(magnitude_codes(group.form.format).max()) + 1
    bytes_ = (counts.bits >> np.uint32(23) & np.uint32(0xFF)).astype(np.intp)
    bytes_[counts.bits == 0x7FC00000] = 0xFF
    keys = (bytes_ * width + counts.largest).reshape(-1)
    first = np.full(256 * width, -1, np.int64)
    unseen, where = np.unique(keys, return_index=True)
    first[unseen] = where
    pairs = np.zeros((256, group.form.format.element.code_count), np.int64)
    pairs[0] = counts.codes
    sizes = [np.minimum(128, n - 128 * np.arange(tiles)) for n, tiles in zip(group.shape, counts.bits.shape, strict=True)]
    pairs[0, 0] -= int((np.multiply.outer(*sizes) * (counts.largest == 0)).sum())
    return BlockCounts(pairs, np.bincount(keys, minlength=256 * width).reshape(256, width), first.reshape(256, width))


def _block_keys(part: Part, magnitudes: npt.NDArray[np.uint8], k: int, width: int) -> npt.NDArray[np.intp]:
    top = magnitudes[part.codes].reshape(-1, k).max(axis=1)
    keys: npt.NDArray[np.intp] = part.scales.astype(np.intp) * width + top
    return keys


def locate_scale(group: Group, block: int) -> int:
    """The byte of the file that holds the scale of a block, or one of a grid, counted in row-major order."""
    if group.scales is None:
        layout = layouts.get_layout(group.form.codes.layout)
        byte, _ = layout.locate(0, block, (1, group.elements), part=Item.SCALES)
        return group.codes.offset + int(byte)
    if not group.form.tiled:
        return group.scales.offset + block * (SAFETENSORS_BITS[group.scales.dtype] // 8)
    columns = group.shape[-1] // group.form.format.k
    byte, _ = layouts.get_layout("128x4").locate(block // columns, block % columns, (group.shape[0], columns))
    return group.scales.offset + int(byte)


@dataclass
class Subject:
    """A checkpoint and what is known of it."""

    checkpoint: Checkpoint
    #: config.json and hf_quant_config.json of the same folder, where they are there.
    config: Mapping[str, Any] | None = None
    quant_config: Mapping[str, Any] | None = None
    #: The format of its affine integers, where that is known.
    affine_format: str | None = None
    _counts: dict[str, BlockCounts] = field(default_factory=dict)
    _grids: dict[str, GridCounts] = field(default_factory=dict)

    @property
    def groups(self) -> Sequence[Group]:
        """Block-quantized tensors."""
        return tuple(self.checkpoint.blocks.values())

    @property
    def with_blocks(self) -> Sequence[Group]:
        """Those with a scale for each block of a row."""
        return tuple(g for g in self.groups if g.form.grid is None)

    @property
    def with_grids(self) -> Sequence[Group]:
        """Those whose scales are a grid: for tiles, rows, or the tensor."""
        return tuple(g for g in self.groups if g.form.grid is not None)

    def counts(self, group: Group) -> BlockCounts:
        """The counts of a tensor; made once."""
        if group.base not in self._counts:
            self._counts[group.base] = count_blocks(group)
        return self._counts[group.base]

    def grid(self, group: Group) -> GridCounts:
        """The counts of a tensor whose scales are a grid; made once."""
        if group.base not in self._grids:
            self._grids[group.base] = count_grid(group)
        return self._grids[group.base]

    def code_totals(self, group: Group) -> Counts:
        """Elements of each code."""
        totals: Counts = self.counts(group).pairs.sum(axis=0) if group.form.grid is None else self.grid(group).codes
        return totals

    @cached_property
    def scales(self) -> Mapping[str, StoredScales]:
        """float32 scales of every group by base name."""
        return {g.base: read_scales(g) for g in self.groups}

    @cached_property
    def affine(self) -> AffineCheckpoint:
        """What of the checkpoint are affine integers."""
        return open_affine(self.checkpoint, fmt=self.affine_format)

    @property
    def quantization(self) -> Mapping[str, Any] | None:
        """`quantization_config` of config.json, or what older files of MLX have in its place."""
        config = self.config or {}
        found = config.get("quantization_config", config.get("quantization"))
        return found if isinstance(found, dict) else None
