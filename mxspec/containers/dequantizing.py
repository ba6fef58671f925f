"""Block-quantized checkpoints back to plain numbers: in pieces, resumable, to the same bytes every time."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mxspec.blocks import dequantize
from mxspec.containers.checkpoint import Checkpoint, StoredScales, open_checkpoint, read_json, read_scales
from mxspec.containers.converting import Progress, set_config
from mxspec.containers.groups import Group
from mxspec.containers.output import OutputFile, check_target
from mxspec.containers.parts import cut, read_part
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.containers.plainfiles import OUTPUT_DTYPES, PlainFile, plan_plain
from mxspec.containers.problems import ContainerError
from mxspec.containers.quantizing import Step, copy_beside, list_copies, write_files, write_index
from mxspec.containers.refused import describe_refused
from mxspec.containers.resuming import describe_input, resumable
from mxspec.profiles import get_profile
from mxspec.tensorscale import TensorScale

__all__ = ["OUTPUT_DTYPES", "Dequantization", "dequantize_checkpoint"]

_CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Dequantization:
    """What a dequantization did."""

    #: Names of the tensors of plain numbers that were made.
    made: tuple[str, ...]
    elements: int
    #: Tensors that were carried along bit for bit.
    carried: tuple[str, ...]
    #: Scales of layers' inputs, which plain checkpoints have no place for.
    dropped: tuple[str, ...]
    files: tuple[Path, ...]
    #: Whether it went on with what a killed run had left.
    resumed: bool


def dequantize_checkpoint(
    source: str | Path,
    out: str | Path,
    *,
    dtype: str = "bfloat16",
    formats: Collection[str] = (),
    force: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> Dequantization:
    """Write the numbers of a block-quantized checkpoint as safetensors; everything else is carried along bit for bit.

    Args:
        source: A safetensors or GGUF file, an index of shards, or a folder with one of these.
        out: A .safetensors file, or for shards and folders a new folder.
        dtype: "bfloat16", "float16" or "float32". Numbers are those of `Checkpoint.read(base).dequantize(dtype)`: the library's
            own arithmetic, rounded once at the end.
        formats: Block formats that the input holds, where it leaves them open.
        force, restart, progress: As for `quantize_checkpoint`.

    A tensor of base B is called `B.weight`, or as the input's contract says. Raises ContainerError, in one message, for what
    cannot be read or written, and ValueError for an unknown dtype or format.
    """
    source, out = Path(source), Path(out)
    if dtype not in OUTPUT_DTYPES:
        raise ValueError(f"dtype = {dtype!r} is not written; allowed are {', '.join(OUTPUT_DTYPES)}")
    checkpoint = open_checkpoint(source, formats=formats)
    if checkpoint.doubts:
        fault = checkpoint.doubts[0].faults[0]
        raise ContainerError(f"{fault.tensor}: {fault.text}; `mxspec lint` lists every fault")
    if not checkpoint.blocks:
        raise ContainerError(f"{source} holds no block-quantized tensor of a known convention; nothing to dequantize{describe_refused(checkpoint.tensors)}")
    if out.suffix == ".gguf":
        raise ContainerError(f"plain numbers are written as safetensors; name an output that ends in .safetensors, not {out.name}")
    folder = (source.is_dir() or checkpoint.index is not None) and out.suffix != ".safetensors"
    others = {t.name for t in checkpoint.grouping.others}
    carried = [t for h in checkpoint.headers for t in h.tensors if t.name in others]
    files = plan_plain(checkpoint, list(checkpoint.blocks.values()), carried, dtype, out, folder=folder)
    check_target(out, source=source, force=force)
    request = {
        "what": "dequantize", "inputs": describe_input([h.path for h in checkpoint.headers]), "dtype": dtype, "folder": folder,
        "groups": [[g.base, g.form.convention, g.form.format_name, g.form.profile] for g in checkpoint.blocks.values()],
        "headers": [[f.name, f.header.hex()] for f in files],
    }  # fmt: skip
    with resumable(out, request, restart=restart) as journal:
        place = journal.folder / out.name if folder else journal.folder
        place.mkdir(exist_ok=True)
        write_files(files, place, journal, lambda output, file: _list_steps(output, file, dtype), progress)
        if folder:
            write_index(checkpoint, files, place, "safetensors")
            _write_beside(checkpoint, place)
    made = tuple(name for f in files for _, name in f.groups)
    dropped = tuple(
        t.name for g in checkpoint.blocks.values() for s, t in g.scalars.items()
        if g.form.tensor_scale is None or s != g.form.tensor_scale.suffix
    )  # fmt: skip
    return Dequantization(
        made, sum(g.elements for g in checkpoint.blocks.values()), tuple(t.name for f in files for t in f.others), dropped,
        tuple(out / f.name for f in files) if folder else (out,), journal.done > 0,
    )  # fmt: skip


def _list_steps(output: OutputFile, file: PlainFile[Group], dtype: str) -> Iterator[tuple[str, int, Step]]:
    width = PLAIN_DTYPES[OUTPUT_DTYPES[dtype]].itemsize
    for group, name in file.groups:
        scales = read_scales(group)
        count = 1 if scales.tensor is None else len(scales.tensor[1])
        # Each of a stack may have a tensor scale of its own.
        size = group.elements // count if count else 0
        for number in range(count):
            for start, stop in cut(group.shape, tiled=group.form.tiled) if count == 1 else _within(number, size):
                run = _Run(output, group, name, dtype, scales, number, start, stop)
                yield name, width * (stop - start), run.write
    yield from list_copies(output, file.others)


def _within(number: int, size: int) -> Iterator[tuple[int, int]]:
    for start, stop in cut((size,), tiled=False):
        yield number * size + start, number * size + stop


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of elements to write."""

    output: OutputFile
    group: Group
    name: str
    dtype: str
    scales: StoredScales
    #: Which of the tensor scales.
    item: int
    start: int
    stop: int

    def write(self) -> int:
        """Decode and write it; the number of bytes."""
        group, form, kept = self.group, self.group.form, self.scales.tensor
        part = read_part(group, self.start, self.stop)
        scale = None if kept is None else TensorScale(kept[0], kept[1][self.item])
        profile = form.decoding_profile(scaled=scale is not None)
        try:
            values = dequantize(
                part.codes.reshape(-1, form.format.k), part.scales.reshape(-1, 1), form.format,
                profile=get_profile(profile, form.format), tensor_scale=scale, dtype=self.dtype,
            )  # fmt: skip
        except ValueError as error:  # bytes that no code or scale of the format has
            raise ContainerError(f"{group.codes.path}, {group.base}: {error}") from error
        data = np.ascontiguousarray(values).reshape(-1)
        if sys.byteorder == "big":
            data = data.byteswap()
        self.output.write(self.name, self.start * data.itemsize, data.view(np.uint8))
        return data.nbytes


def _write_beside(checkpoint: Checkpoint, place: Path) -> None:
    if not checkpoint.path.is_dir():
        return
    copy_beside(checkpoint.path, place)
    (place / "hf_quant_config.json").unlink(missing_ok=True)
    if (checkpoint.path / _CONFIG).is_file():
        config = read_json(checkpoint.path / _CONFIG, "the configuration")
        set_config(config, None)
        (place / _CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
