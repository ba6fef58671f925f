"""How a checkpoint is written, whatever is done to it.

A job says which tensors are written, as `Item`s: what is stored of each, and the steps that make its bytes. From these follow the
files, which are planned, and refused, before a byte is written; then they grow step by step, and last come the index, the
configuration and the other files of a folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    #: The name that progress reports.
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


def _carry(tensor: Tensor, container: str, kept: Mapping[str, tuple[int, ...]]) -> Item:
    """A tensor as it is, or in the shape that it had before. Raises ContainerError for what the container does not have."""
    shape = tensor.shape
    if container == "gguf":
        if tensor.dtype not in SHARED:
            raise ContainerError(f"{tensor.name} is {tensor.dtype}, for which GGUF has no type; it has {', '.join(SHARED)}")
        _check_gguf_name(tensor.name)
        if len(shape) > gguf.MAX_RANK:
            raise ContainerError(f"{tensor.name} has {len(shape)} axes; GGUF has at most {gguf.MAX_RANK}: reshape it first")
        shape = shape or (1,)
    elif tensor.dtype not in SAFETENSORS_BITS:
        raise ContainerError(f"{tensor.name} is {tensor.dtype}, a type of ggml that safetensors does not have")
    before = kept.get(tensor.name)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The result of processing a checkpoint."""

    checkpoint: Checkpoint
    #: The file or folder to write, and the container of files.
    out: Path
    folder: bool
    container: str = "safetensors"
    items: Sequence[Item]
    #: Tensors that are carried along, and shapes that they had before.
    others: Sequence[Tensor]
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: What a file says that follows these of the input, with these tensors.
    describe: Callable[[Sequence[Header], Sequence[Item]], Preamble]
    #: Changes config.json; what is to be said of that.
    configure: Callable[[dict[str, Any]], str | None]
    #: Whether what becomes of a GGUF file in a folder keeps the stem of its name; else it is `model.safetensors`.
    keeps_stem: bool = False
    #: A file of a folder that describes the old form alone.
    left_out: str = ""
    #: Whether files whose names begin with a dot are copied.
    hidden: bool = False
    #: What follows from the options, by which a run is known that a killed one began; None: a run that is stopped leaves nothing.
    request: Mapping[str, Any] | None

    def write(self, *, force: bool, restart: bool = False, progress: Progress | None = None) -> Written:
        """Plan the files and write them; `out` has its name when all is done."""
        files, request = self._plan(), self.request
        check_target(self.out, source=self.checkpoint.path, force=force)
        if request is not None:
            inputs, headers = describe_input([h.path for h in self.checkpoint.headers]), [[f.name, f.header.hex()] for f in files]
            request = {**request, "inputs": inputs, "headers": headers, "folder": self.folder}
        with staged(self.out) if request is None else resumable(self.out, request, restart=restart) as journal:
            place = journal.folder / self.out.name if self.folder else journal.folder
            place.mkdir(exist_ok=True)
            write_files(files, place, journal, progress)
            notes = self._write_rest(files, place) if self.folder else []
        return Written(tuple(self.out / f.name for f in files) if self.folder else (self.out,), tuple(notes), journal.done > 0)

    def _plan(self) -> list[FilePlan]:
        items = [*self.items, *(_carry(t, self.container, self.kept) for t in self.others)]
        files = []
        for name, headers in self._split():
            own = {h.path for h in headers}
            here = [i for i in items if i.source.path in own]
            files.append(plan_file(name, self.describe(headers, here), here))
        return files

    def _split(self) -> list[tuple[str, tuple[Header, ...]]]:
        """Names of the files to write, and which of the input's each follows: one for each in a folder of safetensors."""
        headers = self.checkpoint.headers
        if not self.folder:
            return [(self.out.name, headers)]
        if self.container == "gguf" or (headers[0].container == "gguf" and not self.keeps_stem):
            return [(f"model.{self.container}", headers)]
        return [(h.path.name if h.path.suffix == ".safetensors" else f"{h.path.stem}.safetensors", (h,)) for h in headers]

    def _write_rest(self, files: Sequence[FilePlan], place: Path) -> list[str]:
        """The index, the configuration and the other files of a folder; what is to be said of them."""
        index, folder = self.checkpoint.index, self.checkpoint.path
        if index is not None and self.container != "gguf":
            size, weights = sum(t.size for f in files for t in f.placed), {t.name: f.name for f in files for t in f.placed}
            _write_json(place / index.path.name, {"metadata": {**index.metadata, "total_size": size}, "weight_map": weights})
        if not folder.is_dir():
            return []
        for file in sorted(folder.iterdir()):
            tensors = file.suffix in (".safetensors", ".gguf") or file.name.endswith(INDEX_SUFFIX)
            wanted = file.name not in (_CONFIG, self.left_out) and (self.hidden or not file.name.startswith("."))
            if file.is_file() and wanted and not tensors:
                shutil.copyfile(file, place / file.name)
        if not (folder / _CONFIG).is_file():
            return []
        config = read_json(folder / _CONFIG, "the configuration")
        note = self.configure(config)
        _write_json(place / _CONFIG, config)
        return [f"{_CONFIG}: {note}"] if note else []


def _write_json(path: Path, table: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n", "utf-8")
