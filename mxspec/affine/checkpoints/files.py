"""The files that a checkpoint of affine integers is written as: planned before a byte is written, then in bands."""

from __future__ import annotations

import json
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
from mxspec.containers import contract
from mxspec.containers.checkpoint import FORMAT_KEY, Checkpoint, read_json
from mxspec.containers.converting import set_config
from mxspec.containers.header import Tensor, count_items
from mxspec.containers.output import OutputFile
from mxspec.containers.plainfiles import OWN, lay_out, split_files
from mxspec.containers.planning import plan_other
from mxspec.containers.problems import ContainerError
from mxspec.containers.quantizing import Step, copy_beside, list_copies, name_base, write_index

CONFIG = "config.json"


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

    def list_tensors(self, path: Path) -> Iterator[Tensor]:
        """The stored tensors; their offsets are not known yet."""
        for suffix, dtype, shape, width in list_stored(self.form, self.format, self.shape, symmetric=self.symmetric):
            yield Tensor(self.base + suffix, dtype, shape, 0, width * (count_items(shape) or 0), path)
        for extra, suffix in self.form.extras:
            items, dtype, size = (self.shape[1], "I32", 4 * self.shape[1]) if extra is Extra.INDEX else (2, "I64", 16)
            yield Tensor(self.base + suffix, dtype, (items,), 0, size, path)

    def write_band(self, output: OutputFile, rows: tuple[int, int]) -> int:
        """Make the rows and write them; the number of bytes."""
        found, fmt, (n, k) = self.make(rows), self.format, self.shape
        groups, size = k // fmt.group, 0
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
                output.write(self.base + part.suffix, start, data)
                size += data.size
        return size

    def write_extras(self, output: OutputFile) -> int:
        """Write what is stored besides."""
        for extra, suffix in self.form.extras:
            if extra is Extra.SHAPE:
                data = np.array(self.shape, "<i8").tobytes()
            else:
                data = self.index or (np.arange(self.shape[1]) // self.format.group).astype("<i4").tobytes()
            output.write(self.base + suffix, 0, data)
        return 0


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to write."""

    name: str
    header: bytes
    placed: tuple[Tensor, ...]
    size: int
    jobs: tuple[Job, ...]
    others: tuple[Tensor, ...]


def plan_files(
    checkpoint: Checkpoint, jobs: Sequence[Job], others: Sequence[Tensor], out: Path, metadata: Mapping[str, str], *, folder: bool
) -> list[PlannedFile]:
    """The files to write. metadata: what each says besides what the input says."""
    files = []
    for name, headers in split_files(checkpoint, out, folder=folder):
        path, own = Path(name), {h.path for h in headers}
        here = tuple(j for j in jobs if j.source.path in own)
        carried = tuple(t for t in others if t.path in own)
        tensors = [t for j in here for t in j.list_tensors(path)]
        tensors += [plan_other(t, "safetensors", None, {}, path) for t in carried]
        kept = {k: v for h in headers for k, v in h.metadata.items() if not k.startswith(OWN)}
        if here:
            kept |= metadata
            kept[CONVENTION_KEY] = here[0].form.convention
            kept[FORMAT_KEY] = " ".join(sorted({j.format.name for j in here}))
        header, placed, size = lay_out(tensors, kept, path)
        files.append(PlannedFile(name, header, placed, size, here, carried))
    return files


def list_steps(output: OutputFile, file: PlannedFile) -> Iterator[tuple[str, int, Step]]:
    """The steps that write a file: bands of tensors, then what is carried along."""
    for job in file.jobs:
        for rows in cut(job.shape):
            numbers = (rows[1] - rows[0]) * job.shape[1]
            yield job.source.name, int(numbers * job.format.bits_per_element / 8), partial(job.write_band, output, rows)
        yield job.source.name, 0, partial(job.write_extras, output)
    yield from list_copies(output, file.others)


def write_beside(checkpoint: Checkpoint, files: Sequence[Any], place: Path, wanted: dict[str, Any] | None) -> list[str]:
    """The index, the configuration and the other files of a folder; what is to be said of them."""
    write_index(checkpoint, files, place, "safetensors")
    folder = checkpoint.path if checkpoint.path.is_dir() else None
    if folder is None:
        return []
    copy_beside(folder, place)
    (place / "quantize_config.json").unlink(missing_ok=True)
    if not (folder / CONFIG).is_file():
        return []
    config = read_json(folder / CONFIG, "the configuration")
    set_config(config, wanted)
    (place / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
    return [f"{CONFIG}: " + ("no quantization_config" if wanted is None else "quantization_config is written anew")]


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


def list_ignored(others: Sequence[Tensor]) -> list[str]:
    """Names of linear layers that are carried along."""
    return sorted(
        name_base(t.name) for t in others if t.name.endswith(".weight") and len(t.shape) == 2 and "embed" not in t.name
    )


def make_contract(fmt: AffineFormat, profile: str, digest: str, names: Mapping[str, str]) -> str:
    """The text of a file's contract."""
    return contract.Contract(fmt.name, profile, digest, names=names).as_text()
