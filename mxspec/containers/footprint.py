"""Where the bytes of a checkpoint are: codes, block scales, padding, tensor scales, other tensors, headers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from mxspec import layouts
from mxspec.containers.checkpoint import Checkpoint, open_checkpoint
from mxspec.containers.groups import Group
from mxspec.formats import get_block

#: The layout of block scales that kernels of NVIDIA's Blackwell read.
KERNEL_LAYOUT = "128x4"


@dataclass(frozen=True, slots=True)
class Share:
    """The block-quantized tensors of one convention, format and layout; all sizes in bytes."""

    convention: str
    format_name: str
    #: Layout of codes, and of scales: "row-major", "128x4", "grid" (one for each tile, row or tensor), or that of the codes where they share blocks.
    codes_layout: str
    scales_layout: str
    tensors: int
    elements: int
    codes: int
    #: One for each block.
    scales: int
    #: Scale bytes that belong to no block.
    padding: int
    #: float32 scales of whole tensors and of layers' inputs.
    tensor_scales: int
    #: Bytes that row-major scales gain when a loader pads them to 128x4 tiles.
    padding_in_tiles: int

    @property
    def size(self) -> int:
        """All bytes."""
        return self.codes + self.scales + self.padding + self.tensor_scales

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits for each element, exactly; 0 where there are none."""
        return Fraction(8 * self.size, self.elements) if self.elements else Fraction(0)

    @property
    def format_bits(self) -> Fraction:
        """Bits for each element that the format itself takes: code and share of the block's scale."""
        if self.scales_layout == "grid":
            return Fraction(8 * (self.codes + self.scales), self.elements) if self.elements else Fraction(0)
        return get_block(self.format_name).bits_per_element


@dataclass(frozen=True, slots=True)
class Others:
    """Other tensors of one dtype."""

    dtype: str
    tensors: int
    size: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of a checkpoint: shares, others, headers, alignment and what is counted apart add up to the files."""

    path: Path
    container: str
    files: int
    #: Bytes of all files.
    size: int
    shares: tuple[Share, ...]
    others: tuple[Others, ...]
    #: Bytes before the first tensor.
    headers: int
    #: Bytes between and after tensors.
    alignment: int


def _measure(group: Group) -> Share:
    form, fmt = group.form, group.form.format
    if form.grid is not None:
        assert group.scales is not None
        return Share(
            form.convention, form.format_name, form.codes.layout, "grid", 1, group.elements, group.codes.size, group.scales.size, 0,
            sum(t.size for t in group.scalars.values()), 0,
        )  # fmt: skip
    blocks = group.elements // fmt.k
    codes = group.elements * fmt.element.bits // 8
    stored = group.codes.size + (group.scales.size if group.scales else 0)
    rows, columns = group.shape[-2] if len(group.shape) > 1 else 1, group.shape[-1] // fmt.k
    tiles = prod(group.shape[:-2]) * layouts.get_layout(KERNEL_LAYOUT).size((rows, columns)) if blocks else 0
    return Share(
        convention=form.convention, format_name=form.format_name, codes_layout=form.codes.layout,
        scales_layout=form.codes.layout if form.scales is None else KERNEL_LAYOUT if form.tiled else "row-major", tensors=1,
        elements=group.elements, codes=codes, scales=blocks, padding=stored - codes - blocks,
        tensor_scales=sum(t.size for t in group.scalars.values()), padding_in_tiles=tiles - blocks,
    )  # fmt: skip


S = TypeVar("S", bound=Any)


def sum_up(shares: Iterable[S]) -> tuple[S, ...]:
    """Shares of one kind as one: numbers are added, everything else is what makes the kind."""
    found: dict[Hashable, S] = {}
    for share in shares:
        values = [getattr(share, f.name) for f in fields(share)]
        kind = tuple(v for v in values if not isinstance(v, int))
        old = found.get(kind)
        if old is not None:
            values = [v + getattr(old, f.name) if isinstance(v, int) else v for f, v in zip(fields(share), values, strict=True)]
        found[kind] = type(share)(*values)
    return tuple(found.values())


def measure_footprint(source: str | Path | Checkpoint, *, formats: Collection[str] = (), apart: Collection[str] = ()) -> Footprint:
    """Where the bytes of a checkpoint are; only headers are read.

    source: a safetensors or GGUF file, an index of shards, a folder that holds one of these, or an open checkpoint.
    formats: block formats that it holds, where names and shapes leave that open.
    apart: names of other tensors that are counted elsewhere (`mxspec.affine.checkpoints.measure_affine`).

    Raises ContainerError for what cannot be read.
    """
    checkpoint = source if isinstance(source, Checkpoint) else open_checkpoint(source, formats=formats)
    groups = checkpoint.blocks.values()
    # Marks are among the others: no kernel reads them.
    counted = {t.name for g in groups for t in g.members if t is not g.mark}.union(apart)
    others = sum_up(Others(t.dtype, 1, t.size) for t in checkpoint.tensors.values() if t.name not in counted)
    size, headers = (sum(getattr(h, name) for h in checkpoint.headers) for name in ("file_size", "data_start"))
    stored = sum(t.size for t in checkpoint.tensors.values())
    return Footprint(
        checkpoint.path, checkpoint.container, len(checkpoint.headers), size, sum_up(map(_measure, groups)),
        tuple(sorted(others, key=lambda o: -o.size)), headers, size - headers - stored,
    )  # fmt: skip
