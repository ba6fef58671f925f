"""Affine integers from one convention to another: codes, scales and offsets are the same, and lie elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mxspec.affine.checkpoints.bands import cut
from mxspec.affine.checkpoints.files import Job, wants_folder, write_jobs
from mxspec.affine.checkpoints.forms import AffineForm, Extra, Packed, find_form
from mxspec.affine.checkpoints.groups import AffineCheckpoint, AffineGroup, open_affine
from mxspec.affine.checkpoints.quantizing import check_doubts
from mxspec.containers import contract
from mxspec.containers.header import read_at
from mxspec.containers.pipeline import Progress
from mxspec.containers.problems import ContainerError


@dataclass(frozen=True, slots=True)
class AffineConversion:
    """What a conversion did; no value changes."""

    #: Base names, and the conventions from which they came.
    tensors: tuple[str, ...]
    sources: tuple[str, ...]
    elements: int
    carried: tuple[str, ...]
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def convert_affine(
    source: str | Path | AffineCheckpoint,
    out: str | Path,
    convention: str,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> AffineConversion:
    """Write a checkpoint of affine integers in another convention. Codes, scales and offsets are unchanged, bit for bit.

    source: a path as for `open_affine`, or what it gave. Zero points that are all 2^(bits - 1) are left out where the convention
    stores symmetric tensors without.

    Raises ContainerError, with one message that says why, for what the convention cannot hold: a bias where it has zero points or
    the reverse, sizes of codes, columns in another order, and a zero point of 0 in `gptq`.
    """
    found = source if isinstance(source, AffineCheckpoint) else open_affine(source)
    checkpoint, out, form = found.checkpoint, Path(out), find_form(convention)
    check_doubts(found)
    groups = list(found.groups.values())
    if all(g.form is form for g in groups):
        raise ContainerError(f"{checkpoint.path} is {convention} already; nothing to convert")
    folder = wants_folder(checkpoint, out)
    jobs = [_plan(group, form) for group in groups]
    said = {h.metadata[contract.KEY] for h in checkpoint.headers if contract.KEY in h.metadata}
    written = write_jobs(
        checkpoint, out, jobs, found.others, {contract.KEY: said.pop()} if len(said) == 1 else {},
        {"what": "convert-affine", "convention": convention}, folder=folder, force=force, progress=progress,
    )  # fmt: skip
    return AffineConversion(
        tuple(g.base for g in groups), tuple(sorted({g.form.convention for g in groups})), sum(g.elements for g in groups),
        tuple(t.name for t in found.others), written.files, written.notes,
    )  # fmt: skip


def _plan(group: AffineGroup, form: AffineForm) -> Job:
    refused = form.refuse(group.format)
    if refused is not None:
        raise ContainerError(f"{group.base}: {refused}; dequantize it, and quantize again")
    symmetric = is_symmetric_tensor(group) if form.symmetric or group.symmetric else False
    obstacle = form.find_obstacle(group.shape, group.format, symmetric=symmetric)
    if obstacle is not None:
        raise ContainerError(f"{group.base} has {obstacle}")
    index = None
    if group.read_order() is not None:
        if form.extra(Extra.INDEX) is None:
            raise ContainerError(
                f"{group.base} has its columns in another order (g_idx), for which {form.convention} has no place; dequantize it, and "
                "quantize again"
            )
        tensor = group.parts[group.form.extra(Extra.INDEX) or ""]
        index = read_at(tensor, 0, tensor.size)
    return Job(group.base, group.codes, form, group.format, group.shape, group.read_band, symmetric, index)


def is_symmetric_tensor(group: AffineGroup) -> bool:
    """Whether every zero point is 2^(bits - 1)."""
    if group.symmetric:
        return True
    if not isinstance(group.form.offsets, Packed):
        return False
    middle = 1 << (group.format.bits - 1)
    return all(bool(np.all(group.read_band(rows).offsets == middle)) for rows in cut(group.shape))
