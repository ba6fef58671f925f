"""A checkpoint: one file, or the shards of an index, as block-quantized tensors and others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.blocks import BlockTensor
from mxspec.containers import gguf, safetensors
from mxspec.containers.conventions import Form, Scalar
from mxspec.containers.groups import Doubt, Group, Grouping, group_tensors
from mxspec.containers.header import Header, Tensor, open_file, read_at
from mxspec.containers.marks import read_marks
from mxspec.containers.parts import read_part
from mxspec.containers.problems import Collector, ContainerError, Fault
from mxspec.containers.refused import describe_refused
from mxspec.containers.text import MAX_ASCII, clip, parse_object
from mxspec.formats import get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale

INDEX_SUFFIX = ".index.json"
#: Metadata in which a conversion says which formats a file holds, where its convention does not.
FORMAT_KEY = "mxspec.format"


def read_header(path: Path) -> Header:
    """The header of a GGUF or safetensors file, with what is wrong with it; the content decides which it is.

    Raises ContainerError where it is neither, or its header cannot be made out.
    """
    file, size = open_file(path)
    with file:
        start = file.read(9)
    if start[:4] == gguf.MAGIC:
        return gguf.read_header(path)
    if safetensors.looks_like(start) or path.suffix == ".safetensors":
        return safetensors.read_header(path)
    if path.suffix == ".gguf":
        return gguf.read_header(path)
    raise Collector(path).stop(Fault.MAGIC if size else Fault.TRUNCATED, "is neither GGUF nor safetensors, by its first bytes", offset=0)


def read_json(path: Path, what: str) -> dict[str, Any]:
    """A JSON object in a file of unknown origin.

    Raises ContainerError.
    """
    file, size = open_file(path)
    with file:
        if size > MAX_ASCII:
            raise Collector(path).stop(Fault.HEADER_SIZE, f"{what} has {size} bytes; at most {MAX_ASCII} are read")
        return parse_object(file.read(), Collector(path), what=what)


@dataclass(frozen=True, slots=True)
class Index:
    """A `*.safetensors.index.json`: which file holds which tensor."""

    path: Path
    weight_map: Mapping[str, str]
    metadata: Mapping[str, Any]


def read_index(path: Path) -> Index:
    """The index of a sharded checkpoint.

    Raises ContainerError where it is no index, or names files outside its folder.
    """
    place = Collector(path)
    found = read_json(path, "the index")
    weights = found.get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(v, str) for v in weights.values()):
        raise place.stop(Fault.INDEX, "an index has a weight_map of tensor names to file names")
    for name in set(weights.values()):
        if not name or Path(name).name != name or name in (".", ".."):
            raise place.stop(Fault.INDEX, f"the file name {clip(name)!r} is not one in the index's own folder")
    metadata = found.get("metadata")
    return Index(path, weights, metadata if isinstance(metadata, dict) else {})


def find_files(path: Path) -> tuple[list[Path], Index | None]:
    """The files of a checkpoint: of a file, an index, or a folder.

    Raises ContainerError where a folder holds none, or more than one checkpoint.
    """
    if path.name.endswith(INDEX_SUFFIX):
        index = read_index(path)
        return [path.parent / name for name in sorted(set(index.weight_map.values()))], index
    if not path.is_dir():
        return [path], None
    indices = sorted(path.glob(f"*.safetensors{INDEX_SUFFIX}"))
    if len(indices) == 1:
        return find_files(indices[0])
    files = sorted(path.glob("*.safetensors")) or sorted(path.glob("*.gguf"))
    if len(indices) > 1 or not files or (files[0].suffix == ".gguf" and len(files) > 1):
        what = "no .safetensors or .gguf file" if not files else "more than one checkpoint"
        raise ContainerError(f"{path} holds {what}; name the file or the index")
    return files, None


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a checkpoint, sorted into block-quantized ones and others."""

    path: Path
    headers: tuple[Header, ...]
    index: Index | None
    #: Formats that the file is known to hold, where it leaves that open.
    formats: tuple[str, ...] = ()

    @property
    def container(self) -> str:
        """ "safetensors" or "gguf"."""
        return self.headers[0].container

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """All stored tensors by name."""
        return {t.name: t for h in self.headers for t in h.tensors}

    @cached_property
    def grouping(self) -> Grouping:
        """The stored tensors, sorted out."""
        said = {t for h in self.headers for t in h.metadata.get(FORMAT_KEY, "").split() if t}
        return group_tensors(self.tensors, self.container, self.formats or said, read_marks(self.headers))

    @cached_property
    def blocks(self) -> Mapping[str, Group]:
        """Block-quantized tensors by base name."""
        return {g.base: g for g in self.grouping.groups}

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Tensors that look block-quantized and do not fit."""
        return self.grouping.doubts

    def require_groups(self, wanted: str) -> list[Group]:
        """All block-quantized tensors. Raises ContainerError where one does not fit, or there is nothing to do what is wanted with."""
        if self.doubts:
            fault = self.doubts[0].faults[0]
            raise ContainerError(f"{fault.tensor}: {fault.text}; `mxspec lint` lists every fault")
        if not self.blocks:
            why = f"nothing to {wanted}{describe_refused(self.tensors)}"
            raise ContainerError(f"{self.path} holds no block-quantized tensor of a known convention; {why}")
        return list(self.blocks.values())

    def read(self, base: str, item: int | None = None) -> BlockTensor:
        """One tensor, whole, in memory.

        item: which of a stack along the first axis, where each has a tensor scale of its own (GGUF's experts).
        Raises ContainerError for an unknown name, a damaged file, or a stack without `item`.
        """
        if base not in self.blocks:
            raise ContainerError(f"{self.path} has no block-quantized tensor {clip(str(base))!r}; `.blocks` lists them")
        if item is not None and (isinstance(item, bool) or not hasattr(item, "__index__")):
            raise TypeError(f"item is of type {type(item).__name__}; pass an integer")
        group = self.blocks[base]
        scales, form, shape, start, which = read_scales(group), group.form, group.shape, 0, 0
        count = 1 if scales.tensor is None else len(scales.tensor[1])
        if item is not None or count > 1:
            if item is None or len(shape) < 2 or not 0 <= item < shape[0]:
                raise ContainerError(f"{base} is a stack of {shape[0]} with a tensor scale each; pass item = 0 to {shape[0] - 1}")
            shape, which = shape[1:], item if count > 1 else 0
            start = item * prod(shape)
        padded = form.padded(shape)
        part, scale = read_part(group, start, start + prod(padded)), scales.of_item(which)
        profile = get_profile(form.decoding_profile(scaled=scale is not None), form.format)
        try:
            return BlockTensor(
                format=form.format, profile=profile, codes=part.codes.reshape(padded),
                scales=part.scales.reshape(*padded[:-1], padded[-1] // form.format.k), tensor_scale=scale, shape=shape, axis=len(shape) - 1,
            )  # fmt: skip
        except ValueError as error:  # bytes that no code or scale of the format has
            raise ContainerError(f"{self.path}, {clip(base)}: {error}") from error


Scale = tuple[TensorScaleKind, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StoredScales:
    """float32 scales of a group, with what they mean: kind, and bits of one or of each of a stack."""

    tensor: Scale | None
    inputs: Scale | None
    alpha: tuple[int, ...] | None = None

    @classmethod
    def of(cls, tensor: TensorScale | None, inputs: TensorScale | None) -> StoredScales:
        """Of one tensor."""
        one, other = (None if s is None else (s.kind, (s.bits,)) for s in (tensor, inputs))
        return cls(one, other)

    def of_item(self, item: int = 0) -> TensorScale | None:
        """The tensor scale of one of a stack, or of a tensor that is none."""
        return None if self.tensor is None else TensorScale(self.tensor[0], self.tensor[1][item])


def read_bits(tensor: Tensor) -> tuple[int, ...]:
    """float32 bits of a small stored tensor of float32 or bfloat16."""
    if tensor.dtype == "BF16":
        return tuple(int(b) << 16 for b in np.frombuffer(read_at(tensor, 0, tensor.size), "<u2"))
    return tuple(int(b) for b in np.frombuffer(read_at(tensor, 0, tensor.size), "<u4"))


def read_scales(group: Group) -> StoredScales:
    """The float32 scales of a group."""
    return interpret_scales(group.form, {suffix: read_bits(t) for suffix, t in group.scalars.items()})


def interpret_scales(form: Form, bits: Mapping[str, tuple[int, ...]]) -> StoredScales:
    """What the float32 scales of these suffixes mean in a form."""

    def pick(*places: Scalar | None) -> Scale | None:
        return next(((p.kind, bits[p.suffix]) for p in places if p is not None and p.suffix in bits), None)

    return StoredScales(pick(form.tensor_scale), pick(*form.input_scales), bits.get(form.alpha or ""))


def open_checkpoint(path: str | Path, *, formats: Collection[str] = ()) -> Checkpoint:
    """A checkpoint: a GGUF or safetensors file, an index of shards, or a folder that holds one of these.

    formats: names of the block formats that it holds, where names, dtypes and shapes leave it open.
    Only headers are read. Raises ContainerError at the first fault, naming file, tensor and byte, and ValueError for an unknown
    format.
    """
    known = (formats,) if isinstance(formats, str) else tuple(formats)
    for name in known:
        get_block(name)
    files, index = find_files(Path(path))
    headers = []
    for file in files:
        headers.append(read_header(file))
        if headers[-1].problems:
            raise ContainerError.of(file, headers[-1].problems[0])
    problems = check_index(headers, index)
    if problems:
        raise ContainerError(problems[0])
    if len({h.container for h in headers}) > 1:
        raise ContainerError(f"{path} mixes GGUF and safetensors files; name one")
    return Checkpoint(Path(path), tuple(headers), index, known)


def check_index(headers: list[Header], index: Index | None) -> list[str]:
    """What does not agree between an index and its shards, or between shards."""
    problems = []
    holders: dict[str, str] = {}
    for header in headers:
        for tensor in header.tensors:
            if tensor.name in holders:
                problems.append(f"tensor {clip(tensor.name)} is in {holders[tensor.name]} and in {header.path.name}")
            holders[tensor.name] = header.path.name
    if index is not None:
        said = index.weight_map
        problems += [
            f"the index puts tensor {clip(n)} in {clip(f)}, which does not hold it" for n, f in said.items() if holders.get(n) != f
        ]
        problems += [f"tensor {clip(n)} of {f} is not in the index" for n, f in holders.items() if n not in said]
    return problems
