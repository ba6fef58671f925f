"""The files of plain numbers that a quantized checkpoint becomes: planned before a byte is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from mxspec.containers import contract, safetensors
from mxspec.containers.checkpoint import Checkpoint
from mxspec.containers.conventions import MARK_KEY
from mxspec.containers.header import Header, Tensor, count_items
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.containers.planning import plan_other
from mxspec.containers.problems import ContainerError

#: Names of output dtypes, and safetensors' for them.
OUTPUT_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
#: What metadata of our own begin with.
OWN = "mxspec."


class Quantized(Protocol):
    """A quantized tensor of a file."""

    @property
    def base(self) -> str:
        """Its name."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its numbers."""

    @property
    def codes(self) -> Tensor:
        """Where its codes are."""


G = TypeVar("G", bound=Quantized)


@dataclass(frozen=True, slots=True)
class PlainFile(Generic[G]):
    """One file to write."""

    name: str
    header: bytes
    placed: tuple[Tensor, ...]
    size: int
    #: Quantized tensors, and the names of their numbers.
    groups: tuple[tuple[G, str], ...]
    others: tuple[Tensor, ...]


def split_files(checkpoint: Checkpoint, out: Path, *, folder: bool) -> list[tuple[str, list[Header]]]:
    """Names of the files to write, and which of the input's each follows: one for each in a folder."""
    headers = list(checkpoint.headers)
    if not folder:
        return [(out.name, headers)]
    if checkpoint.container != "safetensors":
        return [("model.safetensors", headers)]
    return [(h.path.name if h.path.suffix == ".safetensors" else f"{h.path.stem}.safetensors", [h]) for h in headers]


def lay_out(tensors: Sequence[Tensor], metadata: Mapping[str, str], path: Path) -> tuple[bytes, tuple[Tensor, ...], int]:
    """Header, tensors with their places, and size of a file. Raises ContainerError where two tensors have one name."""
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise ContainerError(f"{tensor.name} would be written twice: another tensor has that name already")
        seen.add(tensor.name)
    header, placed = safetensors.lay_out(tensors, metadata, path)
    return header, tuple(placed), placed[-1].offset + placed[-1].size if placed else len(header)


def plan_plain(
    checkpoint: Checkpoint, groups: Sequence[G], others: Collection[Tensor], dtype: str, out: Path, *, folder: bool
) -> list[PlainFile[G]]:
    """The files of the numbers of `groups` in a dtype, and of what is carried along.

    A tensor of base B is called `B.weight`, or as the input's contract says. Raises ContainerError where two would have one name.
    """
    names: dict[str, str] = {}
    for header in checkpoint.headers:
        said = contract.parse_contract(header.metadata.get(contract.KEY), header.path)
        names.update(said.names if said else {})
    stored, width = OUTPUT_DTYPES[dtype], PLAIN_DTYPES[OUTPUT_DTYPES[dtype]].itemsize
    files = []
    for name, headers in split_files(checkpoint, out, folder=folder):
        path, own = Path(name), {h.path for h in headers}
        here = tuple((g, names.get(g.base, f"{g.base}.weight")) for g in groups if g.codes.path in own)
        carried = tuple(t for t in others if t.path in own)
        tensors = [Tensor(n, stored, g.shape, 0, width * (count_items(g.shape) or 0), path) for g, n in here]
        tensors += [plan_other(t, "safetensors", None, {}, path) for t in carried]
        kept = {k: v for h in headers for k, v in h.metadata.items() if not k.startswith(OWN) and k != MARK_KEY}
        header_bytes, placed, size = lay_out(tensors, kept, path)
        files.append(PlainFile(name, header_bytes, placed, size, here, carried))
    return files
