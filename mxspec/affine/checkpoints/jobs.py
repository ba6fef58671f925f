"""Checkpoints of affine integers: made from plain numbers, decoded to these, and moved from one convention to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.affine.checkpoints.bands import cut, list_pieces, locate, pack
from mxspec.affine.checkpoints.contracts import digest_affine
from mxspec.affine.checkpoints.forms import CONVENTION_KEY, AffineForm, Extra, Floats, Packed, find_form
from mxspec.affine.checkpoints.groups import AffineCheckpoint, AffineGroup, open_affine
from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.affine.profiles import default_affine_profile, get_affine_profile
from mxspec.affine.schema import AffineProfile
from mxspec.affine.tensor import AffineTensor, quantize
from mxspec.containers import contract
from mxspec.containers.checkpoint import FORMAT_KEY, Checkpoint, open_checkpoint
from mxspec.containers.configuring import describe_compressed, set_config
from mxspec.containers.dequantizing import Dequantization, Run, check_dtype, write_numbers
from mxspec.containers.header import Header, Preamble, Tensor, read_at
from mxspec.containers.parts import Chunk
from mxspec.containers.pipeline import Item, Job, Progress, Step, Written, is_folder, list_foreign
from mxspec.containers.plain import read_plain
from mxspec.containers.problems import ContainerError
from mxspec.containers.quantizing import Quantization, QuantizedTensor, choose_tensors, list_ignored, list_others, name_originals
from mxspec.containers.refused import describe_refused
from mxspec.expressions import leaves

#: A configuration that describes GPTQ's form alone.
GPTQ_CONFIG = "quantize_config.json"


@dataclass(frozen=True, slots=True)
class Weight:
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

    def as_item(self) -> Item:
        """What is to be written, in bands."""
        stored = self.form.list_stored(self.base, self.format, self.shape, symmetric=self.symmetric)
        return Item(self.base, self.source.name, self.source, tuple(stored), self.list_steps)

    def list_steps(self) -> Iterator[Step]:
        """The steps that write it."""
        for rows in cut(self.shape):
            yield int((rows[1] - rows[0]) * self.shape[1] * self.format.bits_per_element / 8), partial(self.write_band, rows)
        yield 0, self.write_extras

    def write_band(self, rows: tuple[int, int]) -> Iterator[Chunk]:
        """Make the rows; what is stored of them."""
        found, fmt, (n, k) = self.make(rows), self.format, self.shape
        groups = k // fmt.group
        parts: list[tuple[Packed | Floats, Any, int]] = [(self.form.codes, found.codes, k), (self.form.scales, found.scales, groups)]
        if not (self.symmetric and self.form.symmetric):
            parts.append((self.form.offsets, found.offsets, groups))
        for part, numbers, across in parts:
            if isinstance(part, Packed):
                if part.minus_one and numbers.size and int(numbers.min()) == 0:
                    raise ContainerError(
                        f"{self.base} has a zero point of 0, for which {self.form.convention} has no agreed form (it stores the zero "
                        "point less one, and loaders differ); write gptq-v2, or choose another profile"
                    )
                stored = pack(numbers, part, fmt.bits)
            else:
                stored = np.asarray(numbers).astype(fmt.numpy_dtype.newbyteorder("<"), copy=False)
                stored = stored.T if part.transposed else stored
            for start, data in list_pieces(stored, locate(part, rows, n, across, fmt)):
                yield self.base + part.suffix, start, data

    def write_extras(self) -> Iterator[Chunk]:
        """What is stored with them."""
        for extra, suffix in self.form.extras:
            if extra is Extra.SHAPE:
                data = np.array(self.shape, "<i8").tobytes()
            else:
                data = self.index or (np.arange(self.shape[1]) // self.format.group).astype("<i4").tobytes()
            yield self.base + suffix, 0, data


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


def wants_folder(checkpoint: Checkpoint, out: Path) -> bool:
    """Whether a folder is written. Raises ContainerError for a name of another container."""
    return is_folder(checkpoint, out, "safetensors", "affine integers are written as")


def write_weights(
    checkpoint: Checkpoint, out: Path, weights: Sequence[Weight], others: Sequence[Tensor], said: Mapping[str, str],
    request: Mapping[str, Any], *, folder: bool, force: bool, restart: bool = False, progress: Progress | None,
) -> Written:  # fmt: skip
    """Write tensors, and what is carried along. said: what each file says in addition to the input's metadata."""

    def describe(headers: Sequence[Header], here: Sequence[Item]) -> Preamble:
        sources, own = {i.source.name for i in here}, dict[str, str]()
        formats = {w.format.name for w in weights if w.source.name in sources}
        if formats:  # all are of one form
            own = {**said, CONVENTION_KEY: weights[0].form.convention, FORMAT_KEY: " ".join(sorted(formats))}
        return Preamble("safetensors", {**list_foreign(headers), **own})

    def configure(config: dict[str, Any]) -> str:
        wanted = describe_config(weights, list_ignored(others))
        set_config(config, wanted)
        return "no quantization_config" if wanted is None else "quantization_config is written anew"

    return Job(
        checkpoint=checkpoint, out=out, folder=folder, items=[w.as_item() for w in weights], others=others, describe=describe,
        configure=configure, left_out=GPTQ_CONFIG, request=request,
    ).write(force=force, restart=restart, progress=progress)  # fmt: skip


def describe_config(weights: Sequence[Weight], ignored: Sequence[str]) -> dict[str, Any] | None:
    """The least `quantization_config` with which the convention's loaders know the tensors; None where formats differ."""
    formats = {w.format for w in weights}
    if len(formats) != 1:
        return None
    ((fmt, form),) = {(w.format, w.form) for w in weights}
    symmetric = all(w.symmetric for w in weights)
    sizes = {"bits": fmt.bits, "group_size": fmt.group}
    if form.method == "mlx":
        return {**sizes, "mode": "affine"}
    if form.method != "compressed-tensors":
        own = {"sym": symmetric} if form.method == "gptq" else {"modules_to_not_convert": list(ignored)}
        return {"quant_method": form.method, **sizes, **dict(form.config), **own}
    args = {"num_bits": fmt.bits, "type": "int", "group_size": fmt.group, "strategy": "group", "symmetric": symmetric, "dynamic": False}
    return describe_compressed(form.convention, {"weights": args}, list(ignored))


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
    find_obstacle = partial(form.find_obstacle, fmt=affine, symmetric=symmetric)
    chosen = choose_tensors(checkpoint, form, find_obstacle, include, exclude)
    weights = [
        Weight(base, t, form, affine, (t.shape[0], t.shape[1]), partial(_quantize_band, t, affine, chosen_profile), symmetric)
        for base, t in chosen.items()
    ]
    others = list_others(checkpoint, chosen)
    digest = digest_affine(affine.name, chosen_profile.id)
    said = contract.Contract(affine.name, chosen_profile.id, digest, names=name_originals(chosen)).as_text()
    request = {
        "what": "quantize-affine", "format": affine.name, "convention": convention, "profile": chosen_profile.id, "digest": digest,
        "chosen": sorted(chosen),
    }  # fmt: skip
    written = write_weights(
        checkpoint, out, weights, others, {contract.KEY: said}, request, folder=folder, force=force, restart=restart, progress=progress
    )
    made = tuple(QuantizedTensor(w.base, w.source.name, w.shape[0] * w.shape[1], None) for w in weights)
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
        raise ContainerError(
            f"{checkpoint.checkpoint.path} holds no affine integers of a known convention{describe_refused(checkpoint.checkpoint.tensors)}"
        )


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
    if order is None:
        return made.dequantize(dtype, contract=made.format.dtype)
    values = replace(made, codes=np.ascontiguousarray(made.codes[:, order])).dequantize(dtype, contract=made.format.dtype)
    return values[:, np.argsort(order)]


def convert_affine(
    source: str | Path | AffineCheckpoint, out: str | Path, convention: str, *, force: bool = False, progress: Progress | None = None
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
    weights = [_plan(group, form) for group in groups]
    said = {h.metadata[contract.KEY] for h in checkpoint.headers if contract.KEY in h.metadata}
    written = write_weights(
        checkpoint, out, weights, found.others, {contract.KEY: said.pop()} if len(said) == 1 else {},
        {"what": "convert-affine", "convention": convention}, folder=folder, force=force, progress=progress,
    )  # fmt: skip
    return AffineConversion(
        tuple(g.base for g in groups), tuple(sorted({g.form.convention for g in groups})), sum(g.elements for g in groups),
        tuple(t.name for t in found.others), written.files, written.notes,
    )  # fmt: skip


def _plan(group: AffineGroup, form: AffineForm) -> Weight:
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
    return Weight(group.base, group.codes, form, group.format, group.shape, group.read_band, symmetric, index)


def is_symmetric_tensor(group: AffineGroup) -> bool:
    """Whether every zero point is 2^(bits - 1)."""
    if group.symmetric:
        return True
    if not isinstance(group.form.offsets, Packed):
        return False
    middle = 1 << (group.format.bits - 1)
    return all(bool(np.all(group.read_band(rows).offsets == middle)) for rows in cut(group.shape))
