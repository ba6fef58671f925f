"""Quantizing a checkpoint of plain numbers to affine integers, and such a checkpoint back to plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.affine.checkpoints.bands import cut
from mxspec.affine.checkpoints.contracts import digest_affine
from mxspec.affine.checkpoints.files import GPTQ_CONFIG, Job, wants_folder, write_jobs
from mxspec.affine.checkpoints.forms import AffineForm, find_form
from mxspec.affine.checkpoints.groups import AffineCheckpoint, AffineGroup, open_affine
from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.affine.profiles import default_affine_profile, get_affine_profile
from mxspec.affine.schema import AffineProfile
from mxspec.affine.tensor import AffineTensor, quantize
from mxspec.containers import contract
from mxspec.containers.checkpoint import open_checkpoint
from mxspec.containers.dequantizing import Dequantization, Run, check_dtype, write_numbers
from mxspec.containers.header import Tensor
from mxspec.containers.pipeline import Progress
from mxspec.containers.plain import read_plain
from mxspec.containers.problems import ContainerError
from mxspec.containers.quantizing import (
    Quantization,
    QuantizedTensor,
    choose_tensors,
    list_others,
    name_originals,
)
from mxspec.containers.refused import describe_refused
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
    folder = wants_folder(checkpoint, out)
    chosen = choose_tensors(checkpoint, _Target(form, affine, symmetric), include, exclude)
    jobs = [
        Job(base, t, form, affine, (t.shape[0], t.shape[1]), partial(_quantize_band, t, affine, chosen_profile), symmetric)
        for base, t in chosen.items()
    ]
    others = list_others(checkpoint, chosen)
    digest = digest_affine(affine.name, chosen_profile.id)
    said = contract.Contract(affine.name, chosen_profile.id, digest, names=name_originals(chosen)).as_text()
    request = {
        "what": "quantize-affine", "format": affine.name, "convention": convention, "profile": chosen_profile.id, "digest": digest,
        "chosen": sorted(chosen),
    }  # fmt: skip
    written = write_jobs(
        checkpoint, out, jobs, others, {contract.KEY: said}, request, folder=folder, force=force, restart=restart, progress=progress
    )
    made = tuple(QuantizedTensor(j.base, j.source.name, j.shape[0] * j.shape[1], None) for j in jobs)
    return Quantization(made, tuple(t.name for t in others), written.files, chosen_profile.id, written.resumed, written.notes)


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
    check_dtype(dtype)
    found = source if isinstance(source, AffineCheckpoint) else open_affine(source)
    check_doubts(found)
    folder = wants_folder(found.checkpoint, Path(out))
    groups = list(found.groups.values())
    request = {"what": "dequantize-affine", "groups": [[g.base, g.form.convention, g.format.name] for g in groups]}
    return write_numbers(
        found.checkpoint, Path(out), groups, found.others, lambda group: _list_bands(group, dtype), request, dtype=dtype, folder=folder,
        left_out=GPTQ_CONFIG, force=force, restart=restart, progress=progress,
    )  # fmt: skip


def _list_bands(group: AffineGroup, dtype: str) -> Iterator[Run]:
    order, k = group.read_order(), group.shape[1]
    for first, last in cut(group.shape):
        yield first * k, last * k, partial(_decode_band, group, (first, last), order, dtype)


def _decode_band(group: AffineGroup, rows: tuple[int, int], order: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Numbers of rows: each operation in the dtype of the scales, as the libraries have it."""
    made = group.read_band(rows)
    if order is not None:
        made = AffineTensor(format=made.format, codes=np.ascontiguousarray(made.codes[:, order]), scales=made.scales, offsets=made.offsets)
    values = made.dequantize(dtype, contract=made.format.dtype)
    return values if order is None else values[:, np.argsort(order)]
