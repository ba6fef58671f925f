"""Where the bytes of a checkpoint are: codes, block scales, padding, tensor scales, other tensors, headers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

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
    #: Layout of codes, and of scales: "row-major", "128x4", or that of the codes where they share blocks.
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
    blocks = group.elements // fmt.k
    codes = group.elements * fmt.element.bits // 8
    stored = group.codes.size + (group.scales.size if group.scales else 0)
    columns = group.shape[-1] // fmt.k
    matrices = 1
    for n in group.shape[:-2]:
        matrices *= n
    rows = group.shape[-2] if len(group.shape) > 1 else 1
    tiles = matrices * layouts.get_layout(KERNEL_LAYOUT).size((rows, columns)) if blocks else 0
    return Share(
        convention=form.convention, format_name=form.format_name, codes_layout=form.codes.layout,
        scales_layout=form.codes.layout if form.scales is None else KERNEL_LAYOUT if form.tiled else "row-major", tensors=1,
        elements=group.elements, codes=codes, scales=blocks, padding=stored - codes - blocks,
        tensor_scales=sum(t.size for t in group.scalars.values()), padding_in_tiles=tiles - blocks,
    )  # fmt: skip


def _add(one: Share, other: Share) -> Share:
    return Share(
        one.convention, one.format_name, one.codes_layout, one.scales_layout, one.tensors + other.tensors,
        one.elements + other.elements, one.codes + other.codes, one.scales + other.scales, one.padding + other.padding,
        one.tensor_scales + other.tensor_scales, one.padding_in_tiles + other.padding_in_tiles,
    )  # fmt: skip


def measure_footprint(
    source: str | Path | Checkpoint, *, formats: Collection[str] = (), apart: Collection[str] = ()
) -> Footprint:
    """Where the bytes of a checkpoint are; only headers are read.

    source: a safetensors or GGUF file, an index of shards, a folder that holds one of these, or an open checkpoint.
    formats: block formats that it holds, where names and shapes leave that open.
    apart: names of other tensors that somebody else counts (`mxspec.affine.checkpoints.measure_affine`).

    Raises ContainerError for what cannot be read.
    """
    checkpoint = source if isinstance(source, Checkpoint) else open_checkpoint(source, formats=formats)
    shares: dict[tuple[str, str], Share] = {}
    for group in checkpoint.blocks.values():
        found = _measure(group)
        key = (found.convention, found.format_name)
        shares[key] = _add(shares[key], found) if key in shares else found
    # Marks are among the others: no kernel reads them.
    members = {t.name for g in checkpoint.blocks.values() for t in g.members if t is not g.mark}
    others: dict[str, Others] = {}
    for tensor in checkpoint.tensors.values():
        if tensor.name not in members and tensor.name not in apart:
            before = others.get(tensor.dtype, Others(tensor.dtype, 0, 0))
            others[tensor.dtype] = Others(tensor.dtype, before.tensors + 1, before.size + tensor.size)
    size = sum(h.file_size for h in checkpoint.headers)
    headers = sum(h.data_start for h in checkpoint.headers)
    stored = sum(t.size for t in checkpoint.tensors.values())
    return Footprint(
        checkpoint.path, checkpoint.container, len(checkpoint.headers), size, tuple(shares.values()),
        tuple(sorted(others.values(), key=lambda o: -o.size)), headers, size - headers - stored,
    )  # fmt: skip
