"""How a checkpoint is written, whatever is done to it.

A job says which tensors are written, as `Item`s: what is stored of each, and the steps that make its bytes. From these follow the
files, which are planned, and refused, before a byte is written; then they grow step by step, and last come the index, the
configuration and the other files of a folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mxspec.containers import gguf, safetensors
from mxspec.containers.checkpoint import INDEX_SUFFIX, Checkpoint, read_json
from mxspec.containers.dtypes import SAFETENSORS_BITS, SHARED
from mxspec.containers.header import Header, Preamble, Tensor, count_items, read_at, round_up
from mxspec.containers.parts import RUN, Chunk
from mxspec.containers.problems import ContainerError
from mxspec.containers.resuming import Journal, OutputFile, check_target, describe_input, resumable, staged

#: Bytes done, bytes in all, the tensor at hand.
Progress = Callable[[int, int, str], None]
#: About how many bytes a step writes, and what makes them: they follow from the input and the options alone.
Step = tuple[int, Callable[[], Iterable[Chunk]]]
#: What metadata of our own begin with.
OWN = "mxspec."
_CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Item:
    """One tensor to write, quantized or plain."""

    base: str
    #: What progress is told.
    label: str
    #: The tensor of the input that decides in which file it is.
    source: Tensor
    #: What is stored of it; offsets are not known yet.
    stored: tuple[Tensor, ...]
    steps: Callable[[], Iterator[Step]]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One file to write."""

    name: str
    header: bytes
    placed: tuple[Tensor, ...]
    size: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """What becomes of the files of a folder that hold no tensors."""

    #: Changes config.json; what is to be said of that.
    configure: Callable[[dict[str, Any]], str | None]
    #: Files that describe the old form alone.
    left_out: tuple[str, ...] = ()
    #: Whether files whose names begin with a dot are copied.
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    files: tuple[Path, ...]
    #: What is to be said of it.
    notes: tuple[str, ...]
    #: Whether it went on with what a killed run had left.
    resumed: bool


def is_folder(checkpoint: Checkpoint, out: Path, container: str, said: str) -> bool:
    """Whether a folder is written. Raises ContainerError, which begins with what is said, for the name of a file of another container."""
    single = out.suffix in (".safetensors", ".gguf")
    if single and out.suffix != f".{container}":
        raise ContainerError(f"{said} {container}; name an output that ends in .{container}, not {out.name}")
    return (checkpoint.path.is_dir() or checkpoint.index is not None) and not single


def carry(
    tensor: Tensor, container: str, kept: Mapping[str, tuple[int, ...]] | None = None, lost: dict[str, tuple[int, ...]] | None = None
) -> Item:
    """A tensor as it is. kept: shapes that tensors had before; lost: takes the shape where the container cannot hold it.

    Raises ContainerError for a type, name or shape that the container does not have.
    """
    shape = tensor.shape
    if container == "gguf":
        if tensor.dtype not in SHARED:
            raise ContainerError(f"{tensor.name} is {tensor.dtype}, for which GGUF has no type; it has {', '.join(SHARED)}")
        _check_gguf_name(tensor.name)
        if len(shape) > gguf.MAX_RANK:
            raise ContainerError(f"{tensor.name} has {len(shape)} axes; GGUF has at most {gguf.MAX_RANK}: reshape it first")
        if not shape:
            shape = (1,)
            if lost is not None:
                lost[tensor.name] = ()
    elif tensor.dtype not in SAFETENSORS_BITS:
        raise ContainerError(f"{tensor.name} is {tensor.dtype}, a type of ggml that safetensors does not have")
    before = (kept or {}).get(tensor.name)
    if before is not None and count_items(before) == count_items(tensor.shape):
        shape = before
    return Item(tensor.name, tensor.name, tensor, (replace(tensor, shape=shape),), partial(_copy, tensor))


def _copy(tensor: Tensor) -> Iterator[Step]:
    for start in range(0, tensor.size, RUN):
        size = min(RUN, tensor.size - start)
        yield size, partial(_read, tensor, start, size)


def _read(tensor: Tensor, start: int, size: int) -> Iterator[Chunk]:
    yield tensor.name, start, read_at(tensor, start, size)


def _check_gguf_name(name: str) -> None:
    """Raise ContainerError for a name that ggml would not read."""
    if len(name.encode()) >= gguf.MAX_NAME:
        raise ContainerError(
            f"the name {name} has {len(name.encode())} bytes; ggml reads names of at most {gguf.MAX_NAME - 1}: rename it first"
        )


def split_files(
    checkpoint: Checkpoint, name: str, container: str, *, folder: bool, stem: bool = False
) -> list[tuple[str, tuple[Header, ...]]]:
    """Names of the files to write, and which of the input's each follows: one for each in a folder of safetensors.

    stem: a GGUF file keeps the stem of its name; otherwise it becomes `model.safetensors`.
    """
    if not folder:
        return [(name, checkpoint.headers)]
    if container == "gguf" or (checkpoint.container == "gguf" and not stem):
        return [(f"model.{container}", checkpoint.headers)]
    return [(h.path.name if h.path.suffix == ".safetensors" else f"{h.path.stem}.safetensors", (h,)) for h in checkpoint.headers]


def plan_file(name: str, preamble: Preamble, items: Sequence[Item]) -> FilePlan:
    """A file of these tensors. Raises ContainerError where two have one name, or ggml would not read one."""
    path, unit = Path(name), 1
    tensors = [t for i in items for t in i.stored]
    seen: set[str] = set()
    for tensor in tensors:
        if preamble.container == "gguf":
            _check_gguf_name(tensor.name)
        if tensor.name in seen:
            raise ContainerError(f"{tensor.name} would be written twice: another tensor has that name already")
        seen.add(tensor.name)
    if preamble.container == "gguf":
        rank, unit = {n: i for i, n in enumerate(preamble.order)}, preamble.alignment
        tensors.sort(key=lambda t: rank.get(t.name, len(rank)))
        header, placed = gguf.lay_out(tensors, preamble.keys, preamble.key_count, preamble.metadata, unit, path)
    else:
        old = safetensors.restore(preamble.text, tensors, preamble.metadata, path) if preamble.text else None
        header, placed = old or safetensors.lay_out(tensors, preamble.metadata, path)
    size = round_up(placed[-1].offset + placed[-1].size, unit) if placed else len(header)
    return FilePlan(name, header, tuple(placed), size, tuple(items))


def plan_files(
    checkpoint: Checkpoint, name: str, items: Sequence[Item], others: Iterable[Tensor],
    describe: Callable[[Sequence[Header], Sequence[Item]], Preamble], *, container: str, folder: bool, stem: bool = False,
) -> list[FilePlan]:  # fmt: skip
    """The files of `items`, and of what is carried along. describe: what a file says that follows these, of these items."""
    files, carried = [], [carry(t, container) for t in others]
    for file, headers in split_files(checkpoint, name, container, folder=folder, stem=stem):
        own = {h.path for h in headers}
        here, along = ([i for i in several if i.source.path in own] for several in (items, carried))
        files.append(plan_file(file, describe(headers, here), [*here, *along]))
    return files


def list_foreign(headers: Iterable[Header]) -> dict[str, str]:
    """The metadata of files without our own."""
    return {k: v for h in headers for k, v in h.metadata.items() if not k.startswith(OWN)}


def write_files(files: Sequence[FilePlan], place: Path, journal: Journal, progress: Progress | None = None) -> None:
    """Write files step by step: steps that the journal has are skipped."""
    total, done = sum(f.size for f in files), 0
    for file in files:
        output = OutputFile(place / file.name, file.header, file.placed, file.size, resume=journal.done > 0)
        if not output.resumed:
            journal.forget()
        try:
            for item in file.items:
                for size, make in item.steps():
                    if not journal.is_done():
                        size = sum(output.write(*chunk) for chunk in make())
                        journal.finish(size, output.sync)
                    done += size
                    if progress is not None:
                        progress(min(done, total), total, item.label)
            journal.record(output.sync)
        finally:
            output.close()


def write_checkpoint(
    checkpoint: Checkpoint, out: Path, files: Sequence[FilePlan], beside: Beside, request: Mapping[str, Any] | None, *, folder: bool,
    force: bool, restart: bool = False, progress: Progress | None = None,
) -> Written:  # fmt: skip
    """Write planned files to `out`, a folder or one file, which has its name when all is done.

    request: what follows from the options, by which a run is known that a killed one began; None: a run that is stopped leaves nothing.
    """
    check_target(out, source=checkpoint.path, force=force)
    if request is not None:
        inputs, headers = describe_input([h.path for h in checkpoint.headers]), [[f.name, f.header.hex()] for f in files]
        request = {**request, "inputs": inputs, "headers": headers, "folder": folder}
    with staged(out) if request is None else resumable(out, request, restart=restart) as journal:
        place = journal.folder / out.name if folder else journal.folder
        place.mkdir(exist_ok=True)
        write_files(files, place, journal, progress)
        notes = _write_beside(checkpoint, files, place, beside) if folder else []
    return Written(tuple(out / f.name for f in files) if folder else (out,), tuple(notes), journal.done > 0)


def _write_beside(checkpoint: Checkpoint, files: Sequence[FilePlan], place: Path, beside: Beside) -> list[str]:
    """The index, the configuration and the other files of a folder; what is to be said of them."""
    if checkpoint.index is not None and not files[0].name.endswith(".gguf"):
        size = sum(t.size for f in files for t in f.placed)
        weights = {t.name: f.name for f in files for t in f.placed}
        table = {"metadata": {**checkpoint.index.metadata, "total_size": size}, "weight_map": weights}
        _write_json(place / checkpoint.index.path.name, table)
    folder = checkpoint.path
    if not folder.is_dir():
        return []
    for file in sorted(folder.iterdir()):
        tensors = file.suffix in (".safetensors", ".gguf") or file.name.endswith(INDEX_SUFFIX)
        wanted = file.name not in (_CONFIG, *beside.left_out) and (beside.hidden or not file.name.startswith("."))
        if file.is_file() and wanted and not tensors:
            shutil.copyfile(file, place / file.name)
    if not (folder / _CONFIG).is_file():
        return []
    config = read_json(folder / _CONFIG, "the configuration")
    note = beside.configure(config)
    _write_json(place / _CONFIG, config)
    return [f"{_CONFIG}: {note}"] if note else []


def _write_json(path: Path, table: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n", "utf-8")
