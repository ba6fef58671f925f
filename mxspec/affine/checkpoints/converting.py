"""Affine integers from one convention to another: codes, scales and offsets are the same, and lie elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mxspec.affine.checkpoints.bands import cut
from mxspec.affine.checkpoints.files import Job, describe_config, list_ignored, list_steps, plan_files, write_beside
from mxspec.affine.checkpoints.forms import AffineForm, Extra, Packed, find_form
from mxspec.affine.checkpoints.groups import AffineCheckpoint, AffineGroup, open_affine
from mxspec.affine.checkpoints.quantizing import check_doubts, check_output
from mxspec.containers import contract
from mxspec.containers.converting import Progress
from mxspec.containers.header import read_at
from mxspec.containers.output import check_target
from mxspec.containers.problems import ContainerError
from mxspec.containers.quantizing import write_files
from mxspec.containers.resuming import describe_input, resumable


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
    path, out, checkpoint, form = found.checkpoint.path, Path(out), found.checkpoint, find_form(convention)
    check_doubts(found)
    if all(g.form is form for g in found.groups.values()):
        raise ContainerError(f"{path} is {convention} already; nothing to convert")
    folder = check_output(checkpoint, path, out)
    jobs = [_plan(group, form) for group in found.groups.values()]
    said = {h.metadata[contract.KEY] for h in checkpoint.headers if contract.KEY in h.metadata}
    files = plan_files(checkpoint, jobs, found.others, out, {contract.KEY: said.pop()} if len(said) == 1 else {}, folder=folder)
    check_target(out, source=path, force=force)
    request = {
        "what": "convert-affine", "inputs": describe_input([h.path for h in checkpoint.headers]), "convention": convention,
        "folder": folder, "headers": [[f.name, f.header.hex()] for f in files],
    }  # fmt: skip
    notes: list[str] = []
    with resumable(out, request) as journal:
        place = journal.folder / out.name if folder else journal.folder
        place.mkdir(exist_ok=True)
        write_files(files, place, journal, list_steps, progress)
        if folder:
            notes = write_beside(checkpoint, files, place, describe_config(jobs, list_ignored(found.others)))
    return AffineConversion(
        tuple(found.groups), tuple(sorted({g.form.convention for g in found.groups.values()})),
        sum(g.elements for g in found.groups.values()), tuple(t.name for t in found.others),
        tuple(out / f.name for f in files) if folder else (out,), tuple(notes),
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
