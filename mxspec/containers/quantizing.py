"""Quantizing a checkpoint of plain numbers into a convention: in pieces, resumable, to the same bytes every time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mxspec.blocks import quantize
from mxspec.calibration import RunningAmax
from mxspec.containers import contract, gguf
from mxspec.containers.checkpoint import FORMAT_KEY, Checkpoint, StoredScales, open_checkpoint
from mxspec.containers.configuring import describe_config, set_config
from mxspec.containers.conventions import BaseForm, Form, Scalars, require_form
from mxspec.containers.fused import list_fused
from mxspec.containers.header import Header, Preamble, Tensor, count_items
from mxspec.containers.parts import Chunk, Part, cut, write_part, write_scalars
from mxspec.containers.pipeline import Item, Job, Progress, Step, is_folder, list_foreign
from mxspec.containers.plain import PLAIN_DTYPES, measure_amax, read_plain
from mxspec.containers.problems import ContainerError
from mxspec.containers.scalars import ONE, check_kind, derive_scalars, is_usable
from mxspec.formats import get_block
from mxspec.profiles import Profile, get_profile
from mxspec.tensorscale import TensorScale, derive_tensor_scale

#: Weights that stay as they are unless requested: no matrix of a linear layer, or one whose errors cost most.
KEPT = ("*lm_head*", "*embed*", "*embd*", "*norm*", "*router*", "*gate_inp*", "*.gate.weight", "output.weight")
_WEIGHT = ".weight"


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


@dataclass
class _Scales:
    """Tensor scales of the layers, measured when they are first needed."""

    profile: Profile
    form: Form
    #: The tensors to quantize, by base name.
    chosen: Mapping[str, Tensor]
    inputs: Mapping[str, TensorScale]
    _maxima: dict[str, RunningAmax] = field(default_factory=dict)

    @cached_property
    def _joined(self) -> Mapping[str, Sequence[str]]:
        """With which layers loaders join each."""
        return list_fused(self.chosen) if self.form.fused else {b: (b,) for b in self.chosen}

    def native(self, base: str) -> TensorScale | None:
        """The scale of a layer as the profile uses it: of the largest magnitude of all layers with which loaders join it."""
        rule = self.profile.tensor
        if self.form.tensor_scale is None or rule is None:
            return None
        seen = RunningAmax()
        for name in self._joined[base]:
            if name not in self._maxima:
                self._maxima[name] = measure_amax(self.chosen[name])
            seen = seen.merge(self._maxima[name])
        scale = derive_tensor_scale(seen.amax_bits(rule.amax_nan), self.profile)
        if not is_usable(scale.bits):
            raise ContainerError(
                f"{self.chosen[base].name}: its largest magnitude {seen.value!r} gives the tensor scale {scale.value!r} by "
                f"{self.profile.id}, which no file can use; leave it as it is (--exclude)"
            )
        return scale

    def stored(self, base: str, *, known: bool = True) -> Scalars:
        """The float32 scales that the convention stores for a layer; before they are known, others of the same shapes."""
        if known:
            native = self.native(base)
        else:
            native = None if self.form.tensor_scale is None else TensorScale(self.form.tensor_scale.kind, ONE)
        return derive_scalars(self.form, StoredScales.of(native, self.inputs.get(base)), base)


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
        progress: Called with bytes done, bytes in all, and the tensor at hand.

    A run that is killed leaves a folder `.NAME.partial` next to `out`; the same call goes on there and ends with the same bytes. Any
    error removes it. Memory does not depend on the size of tensors.

    Raises:
        ContainerError: The input cannot be read, or the convention cannot hold it; one message says why.
        ValueError: An unknown format, profile or convention, or one that does not cover the format.

    Source of the arithmetic: the profile's `source`.
    """
    source, out, block = Path(source), Path(out), get_block(fmt)
    form = require_form(convention, block.name)
    own = form.tensor_scale is not None or form.grid is not None
    chosen_profile = get_profile(profile or (form.profile if own else None), block)
    _check_profile(form, chosen_profile, convert=convert)
    checkpoint = open_checkpoint(source)
    folder = is_folder(checkpoint, out, form.container, f"{convention} is stored in")
    chosen = choose_tensors(checkpoint, form, form.find_obstacle, include, exclude)
    inputs = _check_inputs(input_scales or {}, chosen)
    # Whether tensors are quantized in two levels where the format has them.
    scaled = form.tensor_scale is not None or not form.format.has_tensor_scale
    digest = contract.digest_arithmetic(block.name, chosen_profile.id, scaled=scaled)
    scales = _Scales(chosen_profile, form, chosen, inputs)
    items = [_make_item(base, tensor, scales) for base, tensor in chosen.items()]
    others = list_others(checkpoint, chosen)

    def describe(headers: Sequence[Header], here: Sequence[Item]) -> Preamble:
        made = {i.base: i.source for i in here if chosen.get(i.base) is i.source}
        names = name_originals(made)
        said = contract.Contract(form.format_name, chosen_profile.id, digest, names=names, scaled=scaled).as_text()
        if form.container == "gguf":
            old = headers[0]
            if old.container == "gguf":
                return Preamble("gguf", {contract.KEY: said}, old.keys, old.key_count, old.alignment)
            return Preamble("gguf", {contract.KEY: said}, gguf.encode_file_type(form.format_name), 1)
        own = {contract.KEY: said, **({FORMAT_KEY: form.format_name} if form.ambiguous else {})} if made else {}
        return Preamble("safetensors", {**list_foreign(headers), **own})

    def configure(config: dict[str, Any]) -> str:
        ignored = list_ignored(others)
        wanted = describe_config(dict.fromkeys(chosen, form), None, inputs=bool(inputs), ignored=ignored)
        if wanted is None:
            return f"no quantization_config is written for {form.convention} {form.format_name}"
        set_config(config, wanted)
        return f"quantization_config says {form.convention}; {len(ignored)} layers are ignored"

    request = {
        "what": "quantize", "format": block.name, "convention": convention, "profile": chosen_profile.id, "digest": digest,
        "chosen": sorted(chosen), "scales": {b: [s.kind.value, s.bits] for b, s in inputs.items()},
    }  # fmt: skip
    written = Job(
        checkpoint=checkpoint, out=out, folder=folder, container=form.container, items=items, others=others, describe=describe,
        configure=configure, request=request, keeps_stem=True,
    ).write(force=force, restart=restart, progress=progress)  # fmt: skip
    tensors = tuple(QuantizedTensor(b, t.name, count_items(t.shape) or 0, scales.native(b)) for b, t in chosen.items())
    return Quantization(tensors, tuple(t.name for t in others), written.files, chosen_profile.id, written.resumed, written.notes)


def _check_profile(form: Form, profile: Profile, *, convert: bool) -> None:
    """Raise ContainerError for a profile whose tensors a form does not hold."""
    if profile.transform is not None:
        raise ContainerError(
            f"profile {profile.id} transforms its input first ({profile.transform.kind.value}), which a checkpoint has no place "
            "to say; choose another profile"
        )
    if form.grid not in (None, *form.format.shapes):
        raise ContainerError(
            f"{form.name} has a scale for each row, or for a whole tensor; quantize makes tiles of 128 x 128: choose another convention"
        )
    if (profile.one_level if form.tensor_scale is None else profile.two_level) is None:
        has, stores = ("works with a tensor scale", "none") if form.tensor_scale is None else ("has no tensor scale", "one")
        raise ContainerError(
            f"profile {profile.id} {has}, and {form.convention} {form.format_name} stores {stores}; choose another profile"
        )
    check_kind(form, profile, convert=convert)


def name_base(name: str) -> str:
    """A tensor's name without `.weight`."""
    return name.removesuffix(_WEIGHT)


def name_originals(chosen: Mapping[str, Tensor]) -> dict[str, str]:
    """The names of tensors where they are not the base with `.weight`."""
    return {base: t.name for base, t in chosen.items() if t.name != base + _WEIGHT}


def list_others(checkpoint: Checkpoint, chosen: Mapping[str, Tensor]) -> list[Tensor]:
    """The tensors that are not chosen."""
    taken = {t.name for t in chosen.values()}
    return [t for t in checkpoint.tensors.values() if t.name not in taken]


def list_ignored(others: Sequence[Tensor]) -> list[str]:
    """Names of linear layers that are carried along."""
    return sorted(name_base(t.name) for t in others if t.name.endswith(_WEIGHT) and len(t.shape) == 2 and "embed" not in t.name)


def choose_tensors(
    checkpoint: Checkpoint,
    form: BaseForm,
    find_obstacle: Callable[[tuple[int, ...]], str | None],
    include: Sequence[str],
    exclude: Sequence[str],
) -> dict[str, Tensor]:
    """The tensors to quantize, by base name. find_obstacle: why a tensor of a shape is not written, or None.

    Raises ContainerError where there is no such tensor, or one has ragged rows.
    """
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
        obstacle = find_obstacle(tensor.shape)
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


def _check_inputs(given: Mapping[str, TensorScale], chosen: Mapping[str, Tensor]) -> dict[str, TensorScale]:
    found: dict[str, TensorScale] = {}
    for name, scale in given.items():
        base = name_base(name)
        if not isinstance(scale, TensorScale):
            raise TypeError(f"input_scales[{name!r}] is of type {type(scale).__name__}; pass a TensorScale")
        if base not in chosen:
            raise ContainerError(f"there is an input scale for {name}, which is not quantized; remove it")
        found[base] = scale
    return found


def _make_item(base: str, tensor: Tensor, scales: _Scales) -> Item:
    form = scales.form
    stored = form.list_stored(base, tensor.shape, scales.stored(base, known=False), form.mark_text)
    return Item(base, tensor.name, tensor, tuple(stored), partial(_list_steps, base, tensor, scales))


def _list_steps(base: str, tensor: Tensor, scales: _Scales) -> Iterator[Step]:
    form = scales.form
    for start, stop in cut(form.padded(tensor.shape), by_rows=form.by_rows):
        yield int((stop - start) * form.format.bits_per_element / 8), partial(_quantize_run, base, tensor, scales, start, stop)
    yield 0, lambda: write_scalars(base, scales.stored(base), form.mark_text)


def _quantize_run(base: str, tensor: Tensor, scales: _Scales, start: int, stop: int) -> Iterator[Chunk]:
    form, row, native = scales.form, tensor.shape[-1], scales.native(base)
    try:
        if form.grid is None:
            x = read_plain(tensor, start, stop).reshape(-1, form.format.k)
            made = quantize(x, form.format, profile=scales.profile, tensor_scale=native)
        else:
            rows = [n // form.padded(tensor.shape)[-1] for n in (start, stop)]
            x = read_plain(tensor, rows[0] * row, rows[1] * row).reshape(-1, row)
            made = quantize(x, form.format, profile=scales.profile, block=form.grid, pad=True)
    except ValueError as error:  # a profile that refuses NaN
        raise ContainerError(f"{tensor.name}, numbers {start} to {stop}: {error} (profile {scales.profile.id})") from error
    codes, found = (a.reshape(-1) if form.grid is None else a[: len(x)].reshape(-1) for a in (made.codes, made.scales))
    return write_part(form, base, tensor.shape, Part(start, codes, found))
