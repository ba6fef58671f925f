"""Moving a checkpoint from one convention to another, in pieces, and saying exactly what changes."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.containers.checkpoint import INDEX_SUFFIX, Checkpoint, open_checkpoint, read_json
from mxspec.containers.conventions import MARK_SUFFIX, Form, list_forms
from mxspec.containers.header import read_at
from mxspec.containers.output import OutputFile, check_target, staged
from mxspec.containers.parts import RUN, count_pairs, cut, read_part, write_part
from mxspec.containers.planning import FilePlan, GroupPlan, Plan, plan_conversion
from mxspec.containers.problems import ContainerError
from mxspec.containers.scalars import find_changes
from mxspec.tensorscale import TensorScale

#: Bytes done, bytes in all, the tensor at hand.
Progress = Callable[[int, int, str], None]
_CONFIG, _MODELOPT_CONFIG = "config.json", "hf_quant_config.json"


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
    single = out.suffix in (".safetensors", ".gguf")
    container = list_forms(convention)[0].container
    if single and out.suffix != f".{container}":
        raise ContainerError(
            f"{convention} is stored in {container}; name an output that ends in .{container}, not {out.name}"
        )
    folder = (source.is_dir() or checkpoint.index is not None) and not single
    plan = plan_conversion(
        checkpoint, convention, sharded=folder, ignore_origin=ignore_origin,
        name=f"model.{container}" if folder else out.name,
    )  # fmt: skip
    check_target(out, source=source, force=force)
    total = sum(f.size for f in plan.files)
    done = 0

    def advance(size: int, name: str) -> None:
        nonlocal done
        done += size
        if progress is not None:
            progress(done, total, name)

    changes: list[TensorChange] = []
    notes = list(plan.notes)
    with staged(out) as scratch:
        place = scratch / out.name if folder else scratch
        place.mkdir(exist_ok=True)
        for file in plan.files:
            changes += _write_file(place / file.name, file, exact=exact, advance=advance)
        copied = sum(len(f.others) for f in plan.files)
        if folder:
            notes += _write_beside(checkpoint, plan, place)
    written = [out / f.name for f in plan.files] if folder else [out]
    return Conversion(tuple(changes), copied, tuple(written), tuple(notes))


def _write_file(
    path: Path, plan: FilePlan, *, exact: bool, advance: Callable[[int, str], None]
) -> Iterator[TensorChange]:
    output = OutputFile(path, plan.header, plan.placed, plan.size)
    try:
        for group in plan.groups:
            changed, ulps = _write_group(output, group, advance)
            if changed and exact:
                raise ContainerError(
                    f"{group.group.base}: {changed} of {group.group.elements} values would change, since "
                    f"{_scale(group, after=False)} has no exact counterpart in {group.form.convention}; --exact forbids it"
                )
            yield _describe(group, changed, ulps)
        for tensor in plan.others:
            for start in range(0, tensor.size, RUN):
                size = min(RUN, tensor.size - start)
                output.write(tensor.name, start, read_at(tensor, start, size))
                advance(size, tensor.name)
    finally:
        output.close()


def _write_group(output: OutputFile, plan: GroupPlan, advance: Callable[[int, str], None]) -> tuple[int, int]:
    """Write one tensor in its new form; the number of values that change, and by how many float32 numbers at most."""
    group, form = plan.group, plan.form
    table = _change_table(plan)
    counts = np.zeros((256, form.format.element.code_count), np.int64)
    for start, stop in cut(group.shape, tiled=form.tiled or group.form.tiled):
        part = read_part(group, start, stop)
        if table is not None:
            counts += count_pairs(part, form)
        size = 0
        for suffix, first, data in write_part(form, group.shape, part):
            output.write(group.base + suffix, first, data)
            size += data.size
        advance(size, group.base)
    for suffix, (_, bits) in plan.scalars.items():
        output.write(group.base + suffix, 0, np.array(bits, "<u4").view(np.uint8))
    if plan.mark is not None:
        output.write(group.base + MARK_SUFFIX, 0, plan.mark.encode())
    if table is None:
        return 0, 0
    # The eighth bit of an e4m3 scale is a sign, which moves no magnitude.
    folded = counts.reshape(-1, form.format.scale.code_count, counts.shape[1]).sum(axis=0)
    return int(folded[table > 0].sum()), int(table[folded > 0].max(initial=0))


def _change_table(plan: GroupPlan) -> npt.NDArray[np.int64] | None:
    """By how many float32 numbers codes decode to another value, or None where none does."""
    before, after = plan.before.tensor, plan.after.tensor
    if before is None or after is None or before == after:
        return None
    assert len(before[1]) == len(after[1]) == 1
    table = find_changes(before[1][0], before[0], after[1][0], after[0], plan.form.format)
    return table if table.any() else None


def _scale(plan: GroupPlan, *, after: bool) -> TensorScale | None:
    found = (plan.after if after else plan.before).tensor
    return None if found is None else TensorScale(found[0], found[1][0])


def _describe(plan: GroupPlan, changed: int, ulps: int) -> TensorChange:
    return TensorChange(
        base=plan.group.base, format_name=plan.form.format_name, elements=plan.group.elements,
        source=plan.group.form.convention, target=plan.form.convention, before=_scale(plan, after=False),
        after=_scale(plan, after=True), changed=changed, ulps=ulps, restored=plan.restored,
    )  # fmt: skip


def _write_beside(checkpoint: Checkpoint, plan: Plan, place: Path) -> list[str]:
    """The index, the configuration and the other files of a folder; what is to be said of them."""
    notes: list[str] = []
    if checkpoint.index is not None and plan.convention != "gguf":
        weights = {t.name: f.name for f in plan.files for t in f.placed}
        size = sum(t.size for f in plan.files for t in f.placed)
        table = {"metadata": {**checkpoint.index.metadata, "total_size": size}, "weight_map": weights}
        text = json.dumps(table, indent=2, sort_keys=True) + "\n"
        (place / checkpoint.index.path.name).write_text(text, "utf-8")
    folder = checkpoint.path if checkpoint.path.is_dir() else None
    if folder is None:
        return notes
    for file in sorted(folder.iterdir()):
        tensors = file.suffix in (".safetensors", ".gguf") or file.name.endswith(INDEX_SUFFIX)
        if file.is_file() and not tensors and file.name not in (_CONFIG, _MODELOPT_CONFIG):
            shutil.copyfile(file, place / file.name)
    if (folder / _CONFIG).is_file():
        config = read_json(folder / _CONFIG, "the configuration")
        wanted = describe_config(
            {g.group.base: g.form for g in plan.groups}, config.get("quantization_config"),
            inputs=any(g.after.inputs is not None for g in plan.groups),
        )  # fmt: skip
        if wanted is None:
            set_config(config, None)
            notes.append(f"{_CONFIG}: no quantization_config: none is written for {plan.convention}")
        else:
            set_config(config, wanted)
            notes.append(f"{_CONFIG}: quantization_config now says {plan.convention}; `ignore` is as it was")
        (place / _CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
    if (folder / _MODELOPT_CONFIG).is_file():
        notes.append(f"{_MODELOPT_CONFIG}: left out, since it describes ModelOpt's form")
    return notes


def _describe_mlx(stored: Mapping[str, Form]) -> dict[str, Any]:
    """MLX's entries: what holds for most layers, and the layers for which something else does."""

    def describe(form: Form) -> dict[str, Any]:
        assert form.config is not None
        return {"group_size": form.format.k, "bits": form.format.element.bits, "mode": form.config[1]}

    counts = Counter(f.format_name for f in stored.values())
    most = max(stored.values(), key=lambda f: counts[f.format_name])
    return {**describe(most), **{base: describe(f) for base, f in stored.items() if f.format_name != most.format_name}}


#: Where MLX looks; it has what stands in quantization_config besides.
_MLX_KEY = "quantization"


def is_mlx_config(quantization: Any) -> bool:
    """Whether a `quantization_config` is one of MLX: sizes, a mode, and entries for single layers."""
    return isinstance(quantization, dict) and "quant_method" not in quantization and {"group_size", "bits"} <= set(quantization)


def set_config(config: dict[str, Any], wanted: dict[str, Any] | None) -> None:
    """Put what `describe_config` gave into a configuration, in place of what stood there."""
    config.pop("quantization_config", None)
    if is_mlx_config(config.get(_MLX_KEY)):
        del config[_MLX_KEY]
    if wanted is not None:
        config["quantization_config"] = wanted
        if is_mlx_config(wanted):
            config[_MLX_KEY] = wanted


def describe_config(
    stored: Mapping[str, Form], before: Any, *, inputs: bool, ignored: Sequence[str] = ()
) -> dict[str, Any] | None:
    """The least `quantization_config` with which the convention's loaders know the tensors; None where it has none.

    stored: the forms of the tensors, by base name. before: what stood there. inputs: whether there are input scales. ignored: names of linear
    layers that are not quantized, where `before` does not say.
    """
    forms: Mapping[str, Form] = {f.format_name: f for f in stored.values()}
    form = next(iter(forms.values()))
    if form.convention == "mlx":
        return _describe_mlx(stored)
    if form.config is None or form.config[0] == "quark" or len(forms) > 1:
        return None
    method, name = form.config
    old = before if isinstance(before, dict) else {}
    ignore = old.get("ignore", old.get("modules_to_not_convert", list(ignored)))
    if method == "mxfp4":
        return {"quant_method": method, "modules_to_not_convert": ignore}
    args = {"num_bits": form.format.element.bits, "type": "float", "group_size": form.format.k, "dynamic": False}
    if method == "modelopt":
        group: dict[str, Any] = {"weights": args, "targets": ["Linear"]}
        if inputs:
            group["input_activations"] = args
        return {"quant_method": method, "quant_algo": name, "config_groups": {"group_0": group}, "ignore": ignore}
    strategy = "tensor_group" if form.format.has_tensor_scale else "group"
    weights = {**args, "strategy": strategy, "symmetric": True}
    weights["scale_dtype"] = "torch.float8_e4m3fn" if form.format.has_tensor_scale else "torch.uint8"
    activations = {**weights, "dynamic": "local"} if inputs else None
    group = {"format": name, "targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {
        "quant_method": method, "format": name, "quantization_status": "compressed", "config_groups": {"group_0": group},
        "ignore": ignore,
    }  # fmt: skip
