"""How checkpoints of affine integers are written: tensors in bands of rows, and what the files say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.affine.checkpoints.bands import cut, list_pieces, list_stored, locate, pack, place_packed
from mxspec.affine.checkpoints.forms import CONVENTION_KEY, AffineForm, Extra, Floats, Packed
from mxspec.affine.formats import AffineFormat
from mxspec.affine.tensor import AffineTensor
from mxspec.containers.checkpoint import FORMAT_KEY, Checkpoint
from mxspec.containers.configuring import set_config
from mxspec.containers.header import Header, Preamble, Tensor, count_items
from mxspec.containers.parts import Chunk
from mxspec.containers.pipeline import (
    Beside,
    Item,
    Progress,
    Step,
    Written,
    is_folder,
    list_foreign,
    plan_files,
    write_checkpoint,
)
from mxspec.containers.problems import ContainerError
from mxspec.containers.quantizing import list_ignored

#: A configuration that describes GPTQ's form alone.
GPTQ_CONFIG = "quantize_config.json"


@dataclass(frozen=True, slots=True)
class Job:
    """One tensor to write."""

    base: str
    #: The tensor that decides in which of the input's files it is.
    source: Tensor
    form: AffineForm
    format: AffineFormat
    #: N and K.
    shape: tuple[int, int]
    #: Makes the rows of a band.
    make: Callable[[tuple[int, int]], AffineTensor]
    #: Whether every zero point is 2^(bits - 1).
    symmetric: bool
    #: I32 [K] of the group of each column, where these are not consecutive.
    index: bytes | None = None

    @property
    def stores_offsets(self) -> bool:
        """Whether the convention writes them."""
        return not (self.symmetric and self.form.symmetric)

    def list_tensors(self) -> Iterator[Tensor]:
        """The stored tensors; they have no place in a file yet."""
        for suffix, dtype, shape, width in list_stored(self.form, self.format, self.shape, symmetric=self.symmetric):
            yield Tensor(self.base + suffix, dtype, shape, 0, width * (count_items(shape) or 0), Path())
        for extra, suffix in self.form.extras:
            items, dtype, size = (self.shape[1], "I32", 4 * self.shape[1]) if extra is Extra.INDEX else (2, "I64", 16)
            yield Tensor(self.base + suffix, dtype, (items,), 0, size, Path())

    def as_item(self) -> Item:
        """What is to be written, in bands."""
        return Item(self.base, self.source.name, self.source, tuple(self.list_tensors()), self.list_steps)

    def list_steps(self) -> Iterator[Step]:
        """The steps that write it."""
        for rows in cut(self.shape):
            yield int((rows[1] - rows[0]) * self.shape[1] * self.format.bits_per_element / 8), partial(self.write_band, rows)
        yield 0, self.write_extras

    def write_band(self, rows: tuple[int, int]) -> Iterator[Chunk]:
        """Make the rows; what is stored of them."""
        found, fmt, (n, k) = self.make(rows), self.format, self.shape
        groups = k // fmt.group
        parts: list[tuple[Packed | Floats, Any, int]] = [(self.form.codes, found.codes, k), (self.form.scales, found.scales, groups)]
        if self.stores_offsets:
            parts.append((self.form.offsets, found.offsets, groups))
        for part, numbers, across in parts:
            if isinstance(part, Packed):
                if part.minus_one and numbers.size and int(numbers.min()) == 0:
                    raise ContainerError(
                        f"{self.base} has a zero point of 0, for which {self.form.convention} has no agreed form (it stores the zero "
                        "point less one, and loaders differ); write gptq-v2, or choose another profile"
                    )
                stored, place = pack(numbers, part, fmt.bits), place_packed(part, rows, self.shape, across, fmt.bits)
            else:
                stored = np.asarray(numbers).astype(fmt.numpy_dtype.newbyteorder("<"), copy=False)
                stored = stored.T if part.transposed else stored
                place = locate(rows, n, across, fmt.scalar.bits // 8, transposed=part.transposed)
            for start, data in list_pieces(stored, place):
                yield self.base + part.suffix, start, data

    def write_extras(self) -> Iterator[Chunk]:
        """What is stored besides."""
        for extra, suffix in self.form.extras:
            if extra is Extra.SHAPE:
                data = np.array(self.shape, "<i8").tobytes()
            else:
                data = self.index or (np.arange(self.shape[1]) // self.format.group).astype("<i4").tobytes()
            yield self.base + suffix, 0, data


def wants_folder(checkpoint: Checkpoint, out: Path) -> bool:
    """Whether a folder is written. Raises ContainerError for a name of another container."""
    return is_folder(checkpoint, out, "safetensors", "affine integers are written as")


def write_jobs(
    checkpoint: Checkpoint, out: Path, jobs: Sequence[Job], others: Sequence[Tensor], said: Mapping[str, str], request: Mapping[str, Any], *,
    folder: bool, force: bool, restart: bool = False, progress: Progress | None,
) -> Written:  # fmt: skip
    """Write tensors, and what is carried along. said: what each file says besides what the input says."""

    def describe(headers: Sequence[Header], here: Sequence[Item]) -> Preamble:
        own: dict[str, str] = {}
        if here:
            # Every job is of one form.
            formats = " ".join(sorted({j.format.name for j in jobs if j.base in {i.base for i in here}}))
            own = {**said, CONVENTION_KEY: jobs[0].form.convention, FORMAT_KEY: formats}
        return Preamble("safetensors", {**list_foreign(headers), **own})

    def configure(config: dict[str, Any]) -> str:
        wanted = describe_config(jobs, list_ignored(others))
        set_config(config, wanted)
        return "no quantization_config" if wanted is None else "quantization_config is written anew"

    items = [j.as_item() for j in jobs]
    files = plan_files(checkpoint, out.name, items, others, describe, container="safetensors", folder=folder)
    return write_checkpoint(
        checkpoint, out, files, Beside(configure, (GPTQ_CONFIG,)), request, folder=folder, force=force, restart=restart, progress=progress
    )


def describe_config(jobs: Sequence[Job], ignored: Sequence[str]) -> dict[str, Any] | None:
    """The least `quantization_config` with which the convention's loaders know the tensors; None where formats differ."""
    formats = {j.format for j in jobs}
    if len(formats) != 1:
        return None
    ((fmt, form),) = {(j.format, j.form) for j in jobs}
    symmetric = all(j.symmetric for j in jobs)
    sizes = {"bits": fmt.bits, "group_size": fmt.group}
    if form.method == "mlx":
        return {**sizes, "mode": "affine"}
    if form.method != "compressed-tensors":
        own = {"sym": symmetric} if form.method == "gptq" else {"modules_to_not_convert": list(ignored)}
        return {"quant_method": form.method, **sizes, **dict(form.config), **own}
    weights = {
        "num_bits": fmt.bits, "type": "int", "group_size": fmt.group, "strategy": "group", "symmetric": symmetric, "dynamic": False,
    }  # fmt: skip
    group = {"format": form.convention, "targets": ["Linear"], "weights": weights}
    return {
        "quant_method": form.method, "format": form.convention, "quantization_status": "compressed",
        "config_groups": {"group_0": group}, "ignore": list(ignored),
    }  # fmt: skip
