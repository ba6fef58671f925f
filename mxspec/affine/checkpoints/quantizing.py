"""Quantizing a checkpoint of plain numbers to affine integers, and such a checkpoint back to plain numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.affine.checkpoints.bands import cut
from mxspec.affine.checkpoints.contracts import digest_affine
from mxspec.affine.checkpoints.files import (
    Job,
    describe_config,
    list_ignored,
    list_steps,
    make_contract,
    plan_files,
    write_beside,
)
from mxspec.affine.checkpoints.forms import AffineForm, find_form
from mxspec.affine.checkpoints.groups import AffineCheckpoint, AffineGroup, open_affine
from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.affine.profiles import default_affine_profile, get_affine_profile
from mxspec.affine.schema import AffineProfile
from mxspec.affine.tensor import AffineTensor, quantize
from mxspec.containers import contract
from mxspec.containers.checkpoint import Checkpoint, open_checkpoint
from mxspec.containers.converting import Progress
from mxspec.containers.dequantizing import Dequantization
from mxspec.containers.header import Tensor
from mxspec.containers.output import OutputFile, check_target
from mxspec.containers.plain import PLAIN_DTYPES, read_plain
from mxspec.containers.plainfiles import OUTPUT_DTYPES, PlainFile, plan_plain
from mxspec.containers.problems import ContainerError
from mxspec.containers.quantizing import Quantization, QuantizedTensor, Step, choose_tensors, list_copies, write_files
from mxspec.containers.refused import describe_refused
from mxspec.containers.resuming import describe_input, resumable
from mxspec.expressions import leaves


@dataclass(frozen=True, slots=True)
class _Target:
    """What decides which tensors can be quantized."""

    form: AffineForm
    format: AffineFormat
    symmetric: bool

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.form.ranks

    def find_obstacle(self, shape: tuple[int, ...]) -> str | None:
        return self.form.find_obstacle((shape[0], shape[1]), self.format, symmetric=self.symmetric)


def is_symmetric(profile: AffineProfile) -> bool:
    """Whether every zero point is 2^(bits - 1), whatever the numbers: its expression knows nothing else than the codes' range."""
    if profile.offset is not Offset.ZERO:
        return False
    zero = next(s for s in profile.group if s.name == "zero")
    return leaves(zero.value) == {"bins"}


def quantize_affine(
    source: str | Path,
    out: str | Path,
    fmt: str | AffineFormat,
    convention: str,
    *,
    profile: str | AffineProfile | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    force: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> Quantization:
    """Quantize the matrices of a checkpoint to affine integers, and carry everything else along bit for bit.

    Args:
        source: A safetensors or GGUF file, an index of shards, or a folder with one of these.
        out: A .safetensors file, or for shards and folders a new folder.
        fmt: Such as `int4-g128-zero-float16`.
        convention: `gptq`, `gptq-v2`, `awq`, `pack-quantized` or `mlx-affine`.
        profile: The arithmetic; default: `default_affine_profile` of the format.
        include, exclude, force, restart, progress: As for `mxspec.containers.quantize_checkpoint`.

    Raises:
        ContainerError: The input cannot be read, or the convention cannot hold it; one message says why.
        ValueError: An unknown format, profile or convention, or one that does not cover the format.
    """
    source, out, affine = Path(source), Path(out), get_affine(fmt)
    form = find_form(convention)
    refused = form.refuse(affine)
    if refused is not None:
        raise ContainerError(f"{refused}; name another format or convention")
    chosen_profile = get_affine_profile(profile or default_affine_profile(affine), affine)
    symmetric = is_symmetric(chosen_profile)
    checkpoint = open_checkpoint(source)
    folder = check_output(checkpoint, source, out)
    chosen = choose_tensors(checkpoint, _Target(form, affine, symmetric), include, exclude)
    jobs = [
        Job(
            base, t, form, affine, (t.shape[0], t.shape[1]), partial(_quantize_band, t, affine, chosen_profile), symmetric=symmetric
        )
        for base, t in chosen.items()
    ]  # fmt: skip
    taken = {t.name for t in chosen.values()}
    others = [t for t in checkpoint.tensors.values() if t.name not in taken]
    digest = digest_affine(affine.name, chosen_profile.id)
    names = {b: t.name for b, t in chosen.items() if t.name != f"{b}.weight"}
    said = {contract.KEY: make_contract(affine, chosen_profile.id, digest, names)}
    files = plan_files(checkpoint, jobs, others, out, said, folder=folder)
    check_target(out, source=source, force=force)
    request = {
        "what": "quantize-affine", "inputs": describe_input([h.path for h in checkpoint.headers]), "format": affine.name,
        "convention": convention, "profile": chosen_profile.id, "digest": digest, "chosen": sorted(chosen), "folder": folder,
        "headers": [[f.name, f.header.hex()] for f in files],
    }  # fmt: skip
    notes: list[str] = []
    with resumable(out, request, restart=restart) as journal:
        place = journal.folder / out.name if folder else journal.folder
        place.mkdir(exist_ok=True)
        write_files(files, place, journal, list_steps, progress)
        if folder:
            notes = write_beside(checkpoint, files, place, describe_config(jobs, list_ignored(others)))
    made = tuple(QuantizedTensor(j.base, j.source.name, j.shape[0] * j.shape[1], None) for j in jobs)
    written = tuple(out / f.name for f in files) if folder else (out,)
    return Quantization(made, tuple(t.name for t in others), written, chosen_profile.id, journal.done > 0, tuple(notes))


def check_output(checkpoint: Checkpoint, source: Path, out: Path) -> bool:
    """Whether a folder is written. Raises ContainerError for a name of another container."""
    if out.suffix == ".gguf":
        raise ContainerError(f"affine integers are written as safetensors; name an output that ends in .safetensors, not {out.name}")
    return (source.is_dir() or checkpoint.index is not None) and out.suffix != ".safetensors"


def _quantize_band(tensor: Tensor, fmt: AffineFormat, profile: AffineProfile, rows: tuple[int, int]) -> AffineTensor:
    k = tensor.shape[1]
    x = read_plain(tensor, rows[0] * k, rows[1] * k)
    if not np.isfinite(x).all():
        raise ContainerError(
            f"{tensor.path}: {tensor.name}, rows {rows[0]} to {rows[1]}, holds NaN or infinity, which no affine integer is; leave it as it "
            "is (--exclude)"
        )
    made = quantize(x.reshape(-1, k), bits=fmt.bits, group=fmt.group, profile=profile, offset=fmt.offset, scale_dtype=fmt.dtype)
    if not np.isfinite(made.scales.astype(np.float32)).all():
        raise ContainerError(
            f"{tensor.path}: {tensor.name}, rows {rows[0]} to {rows[1]}: a scale is beyond {fmt.dtype}; choose a format with bfloat16 or float32"
        )
    return made


def check_doubts(checkpoint: AffineCheckpoint) -> None:
    """Raise ContainerError for the first tensor that does not fit, and where there is none that does."""
    if checkpoint.doubts:
        doubt = checkpoint.doubts[0]
        raise ContainerError(f"{doubt.tensor.name}: {doubt.text}")
    if not checkpoint.groups:
        raise ContainerError(f"{checkpoint.checkpoint.path} holds no affine integers of a known convention{describe_refused(checkpoint.checkpoint.tensors)}")


def dequantize_affine(
    source: str | Path | AffineCheckpoint,
    out: str | Path,
    *,
    dtype: str = "bfloat16",
    force: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> Dequantization:
    """Write the numbers of a checkpoint of affine integers as safetensors; everything else is carried along bit for bit.

    Args:
        source: A path as for `open_affine`, or what it gave.
        out: A .safetensors file, or for shards and folders a new folder.
        dtype: "bfloat16", "float16" or "float32". Numbers are those that the libraries decode in the dtype of the scales, rounded
            once more where `dtype` is another.
        force, restart, progress: As for `mxspec.containers.quantize_checkpoint`.

    Raises ContainerError, in one message, for what cannot be read or written, and ValueError for an unknown dtype.
    """
    if dtype not in OUTPUT_DTYPES:
        raise ValueError(f"dtype = {dtype!r} is not written; allowed are {', '.join(OUTPUT_DTYPES)}")
    found = source if isinstance(source, AffineCheckpoint) else open_affine(source)
    path, out, checkpoint = found.checkpoint.path, Path(out), found.checkpoint
    check_doubts(found)
    folder = check_output(checkpoint, path, out)
    files = plan_plain(checkpoint, list(found.groups.values()), found.others, dtype, out, folder=folder)
    check_target(out, source=path, force=force)
    request = {
        "what": "dequantize-affine", "inputs": describe_input([h.path for h in checkpoint.headers]), "dtype": dtype, "folder": folder,
        "groups": [[g.base, g.form.convention, g.format.name] for g in found.groups.values()],
        "headers": [[f.name, f.header.hex()] for f in files],
    }  # fmt: skip
    with resumable(out, request, restart=restart) as journal:
        place = journal.folder / out.name if folder else journal.folder
        place.mkdir(exist_ok=True)
        write_files(files, place, journal, lambda output, file: _list_decoding(output, file, dtype), progress)
        if folder:
            write_beside(checkpoint, files, place, None)
    return Dequantization(
        tuple(name for f in files for _, name in f.groups), sum(g.elements for g in found.groups.values()),
        tuple(t.name for f in files for t in f.others), (), tuple(out / f.name for f in files) if folder else (out,), journal.done > 0,
    )  # fmt: skip


def _list_decoding(output: OutputFile, file: PlainFile[AffineGroup], dtype: str) -> Iterator[tuple[str, int, Step]]:
    width = PLAIN_DTYPES[OUTPUT_DTYPES[dtype]].itemsize
    for group, name in file.groups:
        order = group.read_order()
        back = None if order is None else np.argsort(order)
        for rows in cut(group.shape):
            size = width * (rows[1] - rows[0]) * group.shape[1]
            yield name, size, partial(_decode_band, output, group, name, dtype, rows, order, back)
    yield from list_copies(output, file.others)


def _decode_band(
    output: OutputFile, group: AffineGroup, name: str, dtype: str, rows: tuple[int, int], order: Any, back: Any
) -> int:
    values = decode_band(group, rows, dtype, order, back)
    data = np.ascontiguousarray(values).reshape(-1)
    if sys.byteorder == "big":
        data = data.byteswap()
    output.write(name, rows[0] * group.shape[1] * data.itemsize, data.view(np.uint8))
    return data.nbytes


def decode_band(group: AffineGroup, rows: tuple[int, int], dtype: str, order: Any, back: Any) -> np.ndarray[Any, Any]:
    """Numbers of rows: each operation in the dtype of the scales, as the libraries have it."""
    made = group.read_band(rows)
    if order is not None:
        made = AffineTensor(format=made.format, codes=np.ascontiguousarray(made.codes[:, order]), scales=made.scales, offsets=made.offsets)
    values = made.dequantize(dtype, contract=made.format.dtype)
    return values if back is None else values[:, back]
