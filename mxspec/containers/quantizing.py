"""Quantizing a checkpoint of plain numbers into a convention: in pieces, resumable, to the same bytes every time."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mxspec.blocks import quantize
from mxspec.calibration import RunningAmax
from mxspec.containers import contract, gguf, safetensors
from mxspec.containers.checkpoint import FORMAT_KEY, INDEX_SUFFIX, Checkpoint, StoredScales, open_checkpoint, read_json
from mxspec.containers.conventions import MARK_SUFFIX, Form, find_form, list_forms
from mxspec.containers.converting import Progress, describe_config, set_config
from mxspec.containers.fused import list_fused
from mxspec.containers.header import Tensor, count_items, read_at, round_up
from mxspec.containers.origin import KEY as ORIGIN_KEY
from mxspec.containers.output import OutputFile, check_target
from mxspec.containers.parts import RUN, Part, cut, write_part
from mxspec.containers.plain import PLAIN_DTYPES, measure_amax, read_plain
from mxspec.containers.planning import (
    FILE_TYPES,
    Scalars,
    check_gguf_name,
    check_kind,
    derive_scalars,
    place_tensors,
    plan_other,
)
from mxspec.containers.problems import ContainerError
from mxspec.containers.resuming import Journal, describe_input, resumable
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles import Profile, get_profile
from mxspec.tensorscale import TensorScale, derive_tensor_scale

#: Weights that stay as they are unless asked for: no matrix of a linear layer, or one whose errors cost most.
KEPT = ("*lm_head*", "*embed*", "*embd*", "*norm*", "*router*", "*gate_inp*", "*.gate.weight", "output.weight")
_WEIGHT, _CONFIG = ".weight", "config.json"


@dataclass(frozen=True, slots=True)
class QuantizedTensor:
    """What became of one tensor."""

    base: str
    #: Name in the input.
    name: str
    elements: int
    #: In the profile's own kind; the file holds it in its convention's.
    tensor_scale: TensorScale | None


@dataclass(frozen=True, slots=True)
class Quantization:
    """What a quantization did."""

    tensors: tuple[QuantizedTensor, ...]
    #: Tensors of plain numbers, and others, that were carried along bit for bit.
    carried: tuple[str, ...]
    files: tuple[Path, ...]
    profile: str
    #: Whether it went on with what a killed run had left.
    resumed: bool
    notes: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Quantized elements."""
        return sum(t.elements for t in self.tensors)


@dataclass(frozen=True, slots=True)
class _Chosen:
    tensor: Tensor
    base: str
    form: Form


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    header: bytes
    placed: tuple[Tensor, ...]
    size: int
    chosen: tuple[_Chosen, ...]
    others: tuple[Tensor, ...]


@dataclass
class _Scales:
    """Tensor scales of the layers, measured when they are first needed."""

    profile: Profile
    form: Form
    chosen: Mapping[str, _Chosen]
    inputs: Mapping[str, TensorScale]
    _maxima: dict[str, RunningAmax] = field(default_factory=dict)
    _fused: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def native(self, base: str) -> TensorScale | None:
        """The scale of a layer as the profile uses it: of the largest magnitude of all layers with which loaders join it."""
        rule = self.profile.tensor
        if self.form.tensor_scale is None or rule is None:
            return None
        self._fused = self._fused or (list_fused(self.chosen) if self.form.fused else {b: (b,) for b in self.chosen})
        seen = RunningAmax()
        for name in self._fused[base]:
            if name not in self._maxima:
                self._maxima[name] = measure_amax(self.chosen[name].tensor)
            seen = seen.merge(self._maxima[name])
        scale = derive_tensor_scale(seen.amax_bits(rule.amax_nan), self.profile)
        if not 0 < scale.bits < 0x7F800000:
            raise ContainerError(
                f"{self.chosen[base].tensor.name}: its largest magnitude {seen.value!r} gives the tensor scale {scale.value!r} by "
                f"{self.profile.id}, which no file can use; leave it as it is (--exclude)"
            )
        return scale

    def stored(self, base: str) -> Scalars:
        """The float32 scales that the convention stores for a layer."""
        native, given = self.native(base), self.inputs.get(base)
        scales = StoredScales(
            tensor=None if native is None else (native.kind, (native.bits,)),
            inputs=None if given is None else (given.kind, (given.bits,)),
        )
        return derive_scalars(self.form, scales, base)


def quantize_checkpoint(
    source: str | Path,
    out: str | Path,
    fmt: str,
    convention: str,
    *,
    profile: str | None = None,
    input_scales: Mapping[str, TensorScale] | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    convert: bool = False,
    force: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> Quantization:
    """Quantize the weights of a checkpoint, and carry everything else along bit for bit.

    Chosen are tensors of float32, float16 or bfloat16 whose names end in `.weight` (for stacks of experts, that have three axes),
    with as many axes as the convention stores, and not matched by `KEPT`.

    Args:
        source: A safetensors or GGUF file, an index of shards, or a folder with one of these.
        out: A file, or for shards and folders a new folder (a name that ends in .safetensors or .gguf makes one file).
        fmt: The block format.
        convention: How to store it; `CONVENTIONS` lists them.
        profile: The arithmetic; default: the library's own where the convention stores a tensor scale (`Form.profile`), else
            `default_profile` of the format. A tensor scale is made from the largest magnitude of the tensor, or of all that loaders join
            with it (q, k and v; gate and up).
        input_scales: Scales of the layers' inputs by base name, where the convention has a place for them.
        include: Glob patterns: only these, also those of `KEPT`.
        exclude: Glob patterns: not these.
        convert: Take a profile whose tensor scale is of another kind than the convention's, and convert it, rounded once more.
        force: Replace a file that exists.
        restart: Do not go on with what a killed run left.
        progress: Told bytes done, bytes in all, and the tensor at hand.

    A run that is killed leaves a folder `.NAME.partial` beside `out`; the same call goes on there and ends with the same bytes. Any
    error removes it. Memory does not depend on the size of tensors.

    Raises:
        ContainerError: The input cannot be read, or the convention cannot hold it; one message says why.
        ValueError: An unknown format, profile or convention, or one that does not cover the format.

    Source of the arithmetic: the profile's `source`.
    """
    source, out, block = Path(source), Path(out), get_block(fmt)
    form = _find_form(convention, block)
    chosen_profile = get_profile(profile or (form.profile if form.tensor_scale is not None else None), block)
    _check_profile(form, chosen_profile, convert=convert)
    checkpoint = open_checkpoint(source)
    single = out.suffix in (".safetensors", ".gguf")
    if single and out.suffix != f".{form.container}":
        raise ContainerError(
            f"{convention} is stored in {form.container}; name an output that ends in .{form.container}, not {out.name}"
        )
    folder = (source.is_dir() or checkpoint.index is not None) and not single
    chosen = {b: _Chosen(t, b, form) for b, t in choose_tensors(checkpoint, form, include, exclude).items()}
    inputs = _check_inputs(input_scales or {}, chosen)
    digest = contract.digest_arithmetic(block.name, chosen_profile.id, scaled=_is_scaled(form))
    files = _plan(checkpoint, form, chosen, inputs, chosen_profile, digest, out, folder=folder)
    check_target(out, source=source, force=force)
    request = {
        "what": "quantize", "inputs": describe_input([h.path for h in checkpoint.headers]), "format": block.name,
        "convention": convention, "profile": chosen_profile.id, "digest": digest, "chosen": sorted(chosen),
        "scales": {b: [s.kind.value, s.bits] for b, s in inputs.items()}, "folder": folder,
        "headers": [[f.name, f.header.hex()] for f in files],
    }  # fmt: skip
    scales = _Scales(chosen_profile, form, chosen, inputs)
    notes: list[str] = []
    with resumable(out, request, restart=restart) as journal:
        place = journal.folder / out.name if folder else journal.folder
        place.mkdir(exist_ok=True)
        write_files(files, place, journal, lambda output, file: _list_steps(output, file, scales), progress)
        if folder:
            notes += _write_beside(checkpoint, files, place, form, inputs)
    tensors = tuple(
        QuantizedTensor(c.base, c.tensor.name, count_items(c.tensor.shape) or 0, scales.native(c.base))
        for f in files
        for c in f.chosen
    )
    carried = tuple(t.name for f in files for t in f.others)
    written = tuple(out / f.name for f in files) if folder else (out,)
    return Quantization(tensors, carried, written, chosen_profile.id, journal.done > 0, tuple(notes))


def _find_form(convention: str, block: BlockFormat) -> Form:
    form = find_form(convention, block.name)
    if form is None:
        known = ", ".join(dict.fromkeys(f.format_name for f in list_forms(convention)))
        raise ContainerError(f"{convention} does not store {block.name}; it stores {known}")
    return form


def _check_profile(form: Form, profile: Profile, *, convert: bool) -> None:
    """Raise ContainerError for a profile whose tensors a form does not hold."""
    if profile.transform is not None:
        raise ContainerError(
            f"profile {profile.id} transforms its input first ({profile.transform.kind.value}), which a checkpoint has no place "
            "to say; choose another profile"
        )
    if (profile.one_level if form.tensor_scale is None else profile.two_level) is None:
        has, stores = ("works with a tensor scale", "none") if form.tensor_scale is None else ("has no tensor scale", "one")
        raise ContainerError(
            f"profile {profile.id} {has}, and {form.convention} {form.format_name} stores {stores}; choose another profile"
        )
    check_kind(form, profile, convert=convert)


def _is_scaled(form: Form) -> bool:
    """Whether tensors are quantized in two levels where the format has them."""
    return form.tensor_scale is not None or not form.format.has_tensor_scale


def name_base(name: str) -> str:
    """A tensor's name without `.weight`."""
    return name.removesuffix(_WEIGHT)


class Target(Protocol):
    """What decides which tensors can be quantized."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Axes that tensors may have."""

    def find_obstacle(self, shape: tuple[int, ...]) -> str | None:
        """Why a tensor of this shape is not written, or None."""


def choose_tensors(checkpoint: Checkpoint, form: Target, include: Sequence[str], exclude: Sequence[str]) -> dict[str, Tensor]:
    """The tensors to quantize, by base name. Raises ContainerError where there is none, or one has ragged rows."""
    if checkpoint.blocks or checkpoint.doubts:
        names = [*checkpoint.blocks, *(d.base for d in checkpoint.doubts)]
        raise ContainerError(f"{checkpoint.path} holds block-quantized tensors ({names[0]}); dequantize or convert it")
    found: dict[str, Tensor] = {}
    for tensor in checkpoint.tensors.values():
        axes = len(tensor.shape)
        if tensor.dtype not in PLAIN_DTYPES or axes < 2 or axes not in form.ranks or 0 in tensor.shape:
            continue
        # Stacks of experts are parameters without `.weight`; biases of stacks have two axes.
        if not tensor.name.endswith(_WEIGHT) and axes != 3 and not include:
            continue
        wanted = any(fnmatchcase(tensor.name, p) for p in include)
        if (include and not wanted) or (not include and any(fnmatchcase(tensor.name, p) for p in KEPT)):
            continue
        if any(fnmatchcase(tensor.name, p) for p in exclude):
            continue
        obstacle = form.find_obstacle(tensor.shape)
        if obstacle is not None:
            raise ContainerError(f"{tensor.name} has {obstacle}: leave it as it is (--exclude {tensor.name!r}), or pad it")
        base = name_base(tensor.name)
        if base in found:
            raise ContainerError(f"{found[base].name} and {tensor.name} would have one name, {base}; rename one")
        found[base] = tensor
    if not found:
        raise ContainerError(
            f"{checkpoint.path} holds no tensor to quantize: float32, float16 or bfloat16, of {' or '.join(map(str, form.ranks))} "
            f"axes, named *.weight and none of {', '.join(KEPT)}; name tensors with --include"
        )
    return found


def _check_inputs(given: Mapping[str, TensorScale], chosen: Mapping[str, _Chosen]) -> dict[str, TensorScale]:
    found: dict[str, TensorScale] = {}
    for name, scale in given.items():
        base = name_base(name)
        if not isinstance(scale, TensorScale):
            raise TypeError(f"input_scales[{name!r}] is a {type(scale).__name__}; pass a TensorScale")
        if base not in chosen:
            raise ContainerError(f"there is an input scale for {name}, which is not quantized; remove it")
        found[base] = scale
    return found


def _plan(
    checkpoint: Checkpoint, form: Form, chosen: Mapping[str, _Chosen], inputs: Mapping[str, TensorScale], profile: Profile,
    digest: str, out: Path, *, folder: bool,
) -> list[_File]:  # fmt: skip
    """The files to write: one for each of the input's in a folder of safetensors, else one."""
    of_tensor = {c.tensor.name: c for c in chosen.values()}
    apart = folder and form.container == "safetensors"
    parts = [(h.path.name, [h]) for h in checkpoint.headers] if apart else [("", list(checkpoint.headers))]
    files = []
    for given, headers in parts:
        name = given or (f"model.{form.container}" if folder else out.name)
        if apart and not name.endswith(".safetensors"):
            name = f"{Path(name).stem}.safetensors"
        here = [of_tensor[t.name] for h in headers for t in h.tensors if t.name in of_tensor]
        others = [t for h in headers for t in h.tensors if t.name not in of_tensor]
        path = Path(name)
        tensors = [t for c in here for t in place_tensors(form, c.base, c.tensor.shape, _zero_scalars(form, c, inputs), _dtype(form), path, form.mark_text)]
        if form.container == "gguf":
            for t in tensors:
                check_gguf_name(t.name)
        tensors += [plan_other(t, form.container, None, {}, path) for t in others]
        counts: dict[str, int] = defaultdict(int)
        for t in tensors:
            counts[t.name] += 1
        clash = next((n for n, number in counts.items() if number > 1), None)
        if clash is not None:
            raise ContainerError(f"{clash} would be written twice: another tensor has that name already")
        names = {c.base: c.tensor.name for c in here if c.tensor.name != c.base + _WEIGHT}
        said = contract.Contract(form.format_name, profile.id, digest, names=names, scaled=_is_scaled(form)).as_text()
        source = headers[0]
        if form.container == "safetensors":
            kept = {k: v for h in headers for k, v in h.metadata.items() if not k.startswith("mxspec.") and k != ORIGIN_KEY}
            if here:
                kept[contract.KEY] = said
                if form.ambiguous:
                    kept[FORMAT_KEY] = form.format_name
            header, placed = safetensors.lay_out(tensors, kept, path)
            size = placed[-1].offset + placed[-1].size if placed else len(header)
        else:
            same = source.container == "gguf"
            keys = source.keys if same else gguf.encode_number_key("general.file_type", FILE_TYPES[form.format_name])
            count = source.key_count if same else 1
            alignment = source.alignment if same else gguf.DEFAULT_ALIGNMENT
            header, placed = gguf.lay_out(tensors, keys, count, {contract.KEY: said}, alignment, path)
            size = round_up(placed[-1].offset + placed[-1].size, alignment) if placed else len(header)
        files.append(_File(name, header, tuple(placed), size, tuple(here), tuple(others)))
    return files


def _dtype(form: Form) -> str:
    return form.scales.dtypes[0] if form.scales else ""


def _zero_scalars(form: Form, chosen: _Chosen, inputs: Mapping[str, TensorScale]) -> Scalars:
    """The float32 scales to make room for: their shapes are right, their bits are not known yet."""
    one = 0x3F800000
    given = inputs.get(chosen.base)
    tensor = (form.tensor_scale.kind, (one,)) if form.tensor_scale is not None else None
    return derive_scalars(
        form, StoredScales(tensor=tensor, inputs=None if given is None else (given.kind, (given.bits,))), chosen.base
    )


Step = Callable[[], int]


def write_files(
    files: Sequence[Any],
    place: Path,
    journal: Journal,
    list_steps: Callable[[OutputFile, Any], Iterator[tuple[str, int, Step]]],
    progress: Progress | None,
) -> None:
    """Write files step by step: those that the journal has are skipped.

    list_steps: for an open file the name at hand, the bytes that a step writes, and the step, which returns them.
    """
    total, done = sum(f.size for f in files), 0
    for file in files:
        output = OutputFile(place / file.name, file.header, file.placed, file.size, resume=journal.done > 0)
        if not output.resumed:
            journal.forget()
        try:
            for name, size, step in list_steps(output, file):
                done += size if journal.is_done() else _take(step, journal, output)
                if progress is not None:
                    progress(min(done, total), total, name)
            journal.record(output.sync)
        finally:
            output.close()


def _take(step: Step, journal: Journal, output: OutputFile) -> int:
    size = step()
    journal.finish(size, output.sync)
    return size


def _list_steps(output: OutputFile, file: _File, scales: _Scales) -> Iterator[tuple[str, int, Step]]:
    for chosen in file.chosen:
        bits = chosen.form.format.bits_per_element
        for start, stop in cut(chosen.tensor.shape, tiled=chosen.form.tiled):
            size = int((stop - start) * bits / 8)
            yield chosen.tensor.name, size, partial(_write_run, output, chosen, scales, start, stop)
        yield chosen.tensor.name, 0, partial(_write_scalars, output, chosen, scales)
    yield from list_copies(output, file.others)


def list_copies(output: OutputFile, tensors: Sequence[Tensor]) -> Iterator[tuple[str, int, Step]]:
    """Steps that carry tensors along as they are."""
    for tensor in tensors:
        for start in range(0, tensor.size, RUN):
            size = min(RUN, tensor.size - start)
            yield tensor.name, size, partial(_copy, output, tensor, start, size)


def _copy(output: OutputFile, tensor: Tensor, start: int, size: int) -> int:
    output.write(tensor.name, start, read_at(tensor, start, size))
    return size


def _write_run(output: OutputFile, chosen: _Chosen, scales: _Scales, start: int, stop: int) -> int:
    form, size = chosen.form, 0
    x = read_plain(chosen.tensor, start, stop)
    native = scales.native(chosen.base)
    try:
        made = quantize(x.reshape(-1, form.format.k), form.format, profile=scales.profile, tensor_scale=native)
    except ValueError as error:  # a profile that refuses NaN
        raise ContainerError(
            f"{chosen.tensor.name}, numbers {start} to {stop}: {error} (profile {scales.profile.id})"
        ) from error
    part = Part(start, made.codes.reshape(-1), made.scales.reshape(-1))
    for suffix, first, data in write_part(form, chosen.tensor.shape, part):
        output.write(chosen.base + suffix, first, data)
        size += data.size
    return size


def _write_scalars(output: OutputFile, chosen: _Chosen, scales: _Scales) -> int:
    for suffix, (_, bits) in scales.stored(chosen.base).items():
        output.write(chosen.base + suffix, 0, np.array(bits, "<u4").view(np.uint8))
    if chosen.form.mark_text is not None:
        output.write(chosen.base + MARK_SUFFIX, 0, chosen.form.mark_text.encode())
    return 0


def _write_beside(
    checkpoint: Checkpoint, files: Sequence[_File], place: Path, form: Form, inputs: Mapping[str, TensorScale]
) -> list[str]:
    """The index, the configuration and the other files of a folder; what is to be said of them."""
    notes: list[str] = []
    write_index(checkpoint, files, place, form.container)
    folder = checkpoint.path if checkpoint.path.is_dir() else None
    if folder is None:
        return notes
    copy_beside(folder, place)
    if (folder / _CONFIG).is_file():
        config = read_json(folder / _CONFIG, "the configuration")
        ignored = sorted(
            name_base(t.name) for f in files for t in f.others
            if t.name.endswith(_WEIGHT) and len(t.shape) == 2 and "embed" not in t.name
        )  # fmt: skip
        wanted = describe_config({c.base: form for f in files for c in f.chosen}, None, inputs=bool(inputs), ignored=ignored)
        if wanted is None:
            notes.append(f"{_CONFIG}: no quantization_config is written for {form.convention} {form.format_name}")
        else:
            if "ignore" in wanted:
                wanted["ignore"] = ignored
            set_config(config, wanted)
            notes.append(f"{_CONFIG}: quantization_config says {form.convention}; {len(ignored)} layers are ignored")
        (place / _CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
    return notes


def write_index(checkpoint: Checkpoint, files: Sequence[Any], place: Path, container: str) -> None:
    """The index of shards, if the input has one."""
    if checkpoint.index is None or container == "gguf":
        return
    weights = {t.name: f.name for f in files for t in f.placed}
    size = sum(t.size for f in files for t in f.placed)
    table = {"metadata": {**checkpoint.index.metadata, "total_size": size}, "weight_map": weights}
    (place / checkpoint.index.path.name).write_text(json.dumps(table, indent=2, sort_keys=True) + "\n", "utf-8")


def copy_beside(folder: Path, place: Path) -> None:
    """Copy the files of a folder that are neither tensors nor their configuration."""
    for file in sorted(folder.iterdir()):
        tensors = file.suffix in (".safetensors", ".gguf") or file.name.endswith(INDEX_SUFFIX)
        if file.is_file() and not tensors and file.name != _CONFIG and not file.name.startswith("."):
            shutil.copyfile(file, place / file.name)
