"""Moving a checkpoint from one convention to another, in pieces, and saying exactly what changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.containers.checkpoint import open_checkpoint
from mxspec.containers.configuring import describe_config, is_mlx_config, set_config
from mxspec.containers.conventions import list_forms
from mxspec.containers.origin import KEY, parse_origin
from mxspec.containers.parts import Chunk, count_pairs, cut, read_part, turn_scales, write_part, write_scalars
from mxspec.containers.pipeline import Job, Progress, Step, is_folder
from mxspec.containers.planning import GroupPlan, describe_file, plan_group
from mxspec.containers.problems import ContainerError
from mxspec.containers.scalars import find_changes
from mxspec.tensorscale import TensorScale

__all__ = ["Conversion", "Progress", "TensorChange", "convert", "is_mlx_config"]

_MODELOPT_CONFIG = "hf_quant_config.json"


@dataclass(frozen=True, slots=True)
class TensorChange:
    """What became of one block-quantized tensor."""

    base: str
    format_name: str
    elements: int
    #: Conventions it went from and to.
    source: str
    target: str
    before: TensorScale | None
    after: TensorScale | None
    #: Elements whose value (code x block scale x tensor scale, rounded once to float32) is another now.
    changed: int
    #: By how many float32 numbers at most.
    ulps: int
    #: Whether the tensor scale is the first file's own, kept on the way.
    restored: bool


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion did."""

    tensors: tuple[TensorChange, ...]
    #: Tensors copied unchanged, and other files of the folder.
    copied: int
    files: tuple[Path, ...]
    notes: tuple[str, ...]

    @property
    def changed(self) -> int:
        """Decoded values that are other ones now."""
        return sum(t.changed for t in self.tensors)

    @property
    def ulps(self) -> int:
        """By how many float32 numbers values changed at most."""
        return max((t.ulps for t in self.tensors), default=0)

    @property
    def elements(self) -> int:
        """Block-quantized elements."""
        return sum(t.elements for t in self.tensors)


def convert(
    source: str | Path,
    out: str | Path,
    convention: str,
    *,
    exact: bool = False,
    force: bool = False,
    ignore_origin: bool = False,
    formats: Collection[str] = (),
    progress: Progress | None = None,
) -> Conversion:
    """Write a checkpoint in another convention. Codes and block scales are unchanged.

    out: a file, or, for a sharded input or a folder, a new folder (a name that ends in .safetensors or .gguf makes one file).
    exact: refuse if the value of any element changes, which a reciprocal rounded to float32 may do.
    force: replace a file that exists.
    ignore_origin: do not use what an earlier conversion kept.
    formats: the block formats that the input holds, where it leaves them open.

    Nothing is left of a conversion that fails or is stopped. Raises ContainerError with one message that says what cannot be
    read or kept.
    """
    source, out = Path(source), Path(out)
    checkpoint = open_checkpoint(source, formats=formats)
    container = list_forms(convention)[0].container
    folder = is_folder(checkpoint, out, container, f"{convention} is stored in")
    groups = checkpoint.require_groups("convert")
    if all(g.form.convention == convention for g in groups):
        raise ContainerError(f"{source} is {convention} already; nothing to convert")
    headers, notes = checkpoint.headers, dict[str, None]()
    origins = {h.path: None if ignore_origin else parse_origin(h.metadata.get(KEY), h.path) for h in headers}
    plans = [plan_group(g, convention, origins[g.codes.path], notes) for g in groups]
    if any(h.container == "gguf" and not h.keys and h.key_count for h in headers):
        notes["the keys of the GGUF file take more than 64 MiB and are not kept"] = None
    changes: list[TensorChange] = []

    def configure(config: dict[str, Any]) -> str:
        inputs = any(p.after.inputs is not None for p in plans)
        wanted = describe_config({p.group.base: p.form for p in plans}, config.get("quantization_config"), inputs=inputs)
        set_config(config, wanted)
        if wanted is None:
            return f"no quantization_config: none is written for {convention}"
        return f"quantization_config now says {convention}; `ignore` is as it was"

    back = [o for o in origins.values() if o is not None and o.first.container == container]
    written = Job(
        checkpoint=checkpoint, out=out, folder=folder, container=container, configure=configure, request=None,
        describe=partial(describe_file, container, plans, origins), items=[p.as_item(partial(_list_steps, changes=changes, exact=exact)) for p in plans], others=checkpoint.grouping.others,
        kept={name: shape for o in back for name, shape in o.shapes.items()}, keeps_stem=True, left_out=_MODELOPT_CONFIG, hidden=True,
    ).write(force=force, progress=progress)  # fmt: skip
    said = [*notes, *written.notes]
    if folder and (source / _MODELOPT_CONFIG).is_file():
        said.append(f"{_MODELOPT_CONFIG}: left out, since it describes ModelOpt's form")
    return Conversion(tuple(changes), len(checkpoint.grouping.others), written.files, tuple(said))


def _list_steps(plan: GroupPlan, *, changes: list[TensorChange], exact: bool) -> Iterator[Step]:
    """Write one tensor in its new form, then say what changed."""
    group, fmt = plan.group, plan.form.format
    table = _change_table(plan)
    counts = np.zeros((256, fmt.element.code_count), np.int64)
    for start, stop in cut(group.padded, by_rows=plan.form.by_rows or group.form.by_rows):
        yield stop - start, partial(_convert_run, plan, start, stop, None if table is None else counts)
    yield 0, partial(write_scalars, group.base, plan.scalars, plan.mark)
    changed = ulps = 0
    if table is not None:
        # The eighth bit of an e4m3 scale is a sign, which moves no magnitude.
        folded = counts.reshape(-1, fmt.scale.code_count, counts.shape[1]).sum(axis=0)
        changed, ulps = int(folded[table > 0].sum()), int(table[folded > 0].max(initial=0))
    before, after = plan.before.of_item(), plan.after.of_item()
    if changed and exact:
        raise ContainerError(
            f"{group.base}: {changed} of {group.elements} values would change, since {before} has no exact counterpart in "
            f"{plan.form.convention}; --exact forbids it"
        )
    ways = group.form.convention, plan.form.convention
    changes.append(TensorChange(group.base, fmt.name, group.elements, *ways, before, after, changed, ulps, plan.restored))


def _convert_run(plan: GroupPlan, start: int, stop: int, counts: npt.NDArray[np.int64] | None) -> Iterator[Chunk]:
    part = read_part(plan.group, start, stop)
    if counts is not None:
        counts += count_pairs(part, plan.form)
    turned = replace(part, scales=turn_scales(part.scales, plan.group.form.format, plan.form.format, plan.group.base))
    return write_part(plan.form, plan.group.base, plan.group.shape, turned, plan.scale_dtype)


def _change_table(plan: GroupPlan) -> npt.NDArray[np.int64] | None:
    """By how many float32 numbers codes decode to another value, or None where none does."""
    before, after = plan.before.tensor, plan.after.tensor
    if before is None or after is None or before == after:
        return None
    assert len(before[1]) == len(after[1]) == 1
    table = find_changes(before[1][0], before[0], after[1][0], after[0], plan.form.format)
    return table if table.any() else None
