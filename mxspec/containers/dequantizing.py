"""Quantized checkpoints back to plain numbers: in pieces, resumable, to the same bytes every time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mxspec.blocks import dequantize
from mxspec.containers import contract
from mxspec.containers.checkpoint import Checkpoint, StoredScales, open_checkpoint, read_scales
from mxspec.containers.configuring import set_config
from mxspec.containers.conventions import MARK_KEY
from mxspec.containers.groups import Group, StoredGroup
from mxspec.containers.header import Header, Preamble, Tensor
from mxspec.containers.parts import Chunk, cut, read_part
from mxspec.containers.pipeline import Item, Job, Progress, Step, is_folder, list_foreign
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.containers.problems import ContainerError
from mxspec.profiles import get_profile

#: Names of output dtypes, and safetensors' for them.
OUTPUT_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


@dataclass(frozen=True, slots=True)
class Dequantization:
    """What a dequantization did."""

    #: Names of the tensors of plain numbers that were made.
    made: tuple[str, ...]
    elements: int
    #: Tensors that were carried along bit for bit.
    carried: tuple[str, ...]
    #: Scales of layers' inputs, which plain checkpoints have no place for.
    dropped: tuple[str, ...]
    files: tuple[Path, ...]
    #: Whether it went on with what a killed run had left.
    resumed: bool


G = TypeVar("G", bound=StoredGroup[Any])
#: First and last number of a run of a tensor, and what decodes it.
Run = tuple[int, int, Callable[[], np.ndarray[Any, Any]]]


def dequantize_checkpoint(
    source: str | Path,
    out: str | Path,
    *,
    dtype: str = "bfloat16",
    formats: Collection[str] = (),
    force: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> Dequantization:
    """Write the numbers of a block-quantized checkpoint as safetensors; everything else is carried along bit for bit.

    Args:
        source: A safetensors or GGUF file, an index of shards, or a folder with one of these.
        out: A .safetensors file, or for shards and folders a new folder.
        dtype: "bfloat16", "float16" or "float32". Numbers are those of `Checkpoint.read(base).dequantize(dtype)`: the library's
            own arithmetic, rounded once at the end.
        formats: Block formats that the input holds, where it leaves them open.
        force, restart, progress: As for `quantize_checkpoint`.

    A tensor of base B is called `B.weight`, or as the input's contract says. Raises ContainerError, in one message, for what
    cannot be read or written, and ValueError for an unknown dtype or format.
    """
    check_dtype(dtype)
    checkpoint = open_checkpoint(source, formats=formats)
    groups = checkpoint.require_groups("dequantize")
    folder = is_folder(checkpoint, Path(out), "safetensors", "plain numbers are written as")
    dropped = [t.name for g in groups for s, t in g.scalars.items() if g.form.tensor_scale is None or s != g.form.tensor_scale.suffix]
    return write_numbers(
        checkpoint, Path(out), groups, checkpoint.grouping.others, lambda group: _list_runs(group, dtype),
        {"what": "dequantize", "groups": [[g.base, g.form.convention, g.form.format_name, g.form.profile] for g in groups]},
        dtype=dtype, folder=folder, dropped=dropped, left_out="hf_quant_config.json", force=force, restart=restart, progress=progress,
    )  # fmt: skip


def check_dtype(dtype: str) -> None:
    """Raise ValueError for a dtype that is not written."""
    if dtype not in OUTPUT_DTYPES:
        raise ValueError(f"dtype = {dtype!r} is not written; allowed are {', '.join(OUTPUT_DTYPES)}")


def write_numbers(
    checkpoint: Checkpoint, out: Path, groups: Sequence[G], others: Sequence[Tensor], list_runs: Callable[[G], Iterator[Run]],
    request: Mapping[str, Any], *, dtype: str, folder: bool, dropped: Sequence[str] = (), left_out: str, force: bool, restart: bool,
    progress: Progress | None,
) -> Dequantization:  # fmt: skip
    """Write the numbers of quantized tensors, and what is carried along.

    A tensor of base B is called `B.weight`, or as the input's contract says. Raises ContainerError where two would have one name.
    """
    names: dict[str, str] = {}
    for header in checkpoint.headers:
        said = contract.parse_contract(header.metadata.get(contract.KEY), header.path)
        names.update(said.names if said else {})
    kind = PLAIN_DTYPES[OUTPUT_DTYPES[dtype]]

    def list_steps(group: G, name: str) -> Iterator[Step]:
        for start, stop, decode in list_runs(group):
            yield kind.itemsize * (stop - start), partial(_decode, name, kind.itemsize * start, decode)

    items = []
    for group in groups:
        name = names.get(group.base, f"{group.base}.weight")
        stored = Tensor(name, OUTPUT_DTYPES[dtype], group.shape, 0, kind.itemsize * group.elements, Path())
        items.append(Item(group.base, name, group.codes, (stored,), partial(list_steps, group, name)))

    def describe(headers: Sequence[Header], _: Sequence[Item]) -> Preamble:
        return Preamble("safetensors", {k: v for k, v in list_foreign(headers).items() if k != MARK_KEY})

    written = Job(
        checkpoint=checkpoint, out=out, folder=folder, items=items, others=others, describe=describe, left_out=left_out,
        configure=lambda config: set_config(config, None), request={**request, "dtype": dtype},
    ).write(force=force, restart=restart, progress=progress)  # fmt: skip
    made, elements = tuple(i.label for i in items), sum(g.elements for g in groups)
    return Dequantization(made, elements, tuple(t.name for t in others), tuple(dropped), written.files, written.resumed)


def _decode(name: str, start: int, decode: Callable[[], np.ndarray[Any, Any]]) -> Iterator[Chunk]:
    data = np.ascontiguousarray(decode()).reshape(-1)
    if sys.byteorder == "big":
        data = data.byteswap()
    yield name, start, data.view(np.uint8)


def _list_runs(group: Group, dtype: str) -> Iterator[Run]:
    scales = read_scales(group)
    count = 1 if scales.tensor is None else len(scales.tensor[1])
    # Each of a stack may have a tensor scale of its own.
    size = group.elements // count if count else 0
    for item in range(count):
        for start, stop in cut(group.padded, by_rows=group.form.by_rows) if count == 1 else cut((size,), by_rows=False):
            first = item * size
            decode = partial(_decode_run, group, scales, item, first + start, first + stop, dtype)
            row, padded = group.shape[-1], group.padded[-1]
            # A run of whole rows may have padding that is not written.
            ends = (first + start, first + stop) if row == padded else (start // padded * row, stop // padded * row)
            yield *ends, decode


def _decode_run(group: Group, scales: StoredScales, item: int, start: int, stop: int, dtype: str) -> np.ndarray[Any, Any]:
    form, part = group.form, read_part(group, start, stop)
    scale = scales.of_item(item)
    profile = get_profile(form.decoding_profile(scaled=scale is not None), form.format)
    codes = part.codes.reshape(-1, form.format.k)
    try:
        values = dequantize(codes, part.scales.reshape(-1, 1), form.format, profile=profile, tensor_scale=scale, dtype=dtype)
    except ValueError as error:  # bytes that no code or scale of the format has
        raise ContainerError(f"{group.codes.path}, {group.base}: {error}") from error
    return values.reshape(-1, group.padded[-1])[:, : group.shape[-1]] if form.grid is not None else values
