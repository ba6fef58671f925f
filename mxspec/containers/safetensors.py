"""safetensors headers, read within bounds and written as the library itself would.

Format: u64 length of the header, the header (a JSON object, padded with spaces), the data. An entry has dtype, shape and the
two ends of its bytes, relative to the data; data are contiguous. The shapes of F4 and F6 count codes, not bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from mxspec.containers.dtypes import SAFETENSORS_BITS, SAFETENSORS_ORDER
from mxspec.containers.header import SIZE_LIMIT, Header, Tensor, check_spans, count_items, open_file, round_up
from mxspec.containers.problems import Collector, ContainerError, Fault
from mxspec.containers.text import MAX_ASCII, clip, parse_object

_METADATA = "__metadata__"
_MAX_RANK = 64
#: Characters of a tensor's name.
MAX_NAME = 4096
#: Bytes of a foreign header's text that a conversion keeps.
MAX_KEPT = 4 << 20


def looks_like(start: bytes) -> bool:
    """Whether a file's first nine bytes can be those of a safetensors file."""
    return len(start) == 9 and start[8:9] == b"{"


def read_header(path: Path) -> Header:
    """The header of a safetensors file, with what is wrong with it.

    Raises ContainerError where the header cannot be made out at all.
    """
    place = Collector(path)
    file, file_size = open_file(path)
    with file:
        start = file.read(8)
        if len(start) < 8:
            raise place.stop(Fault.TRUNCATED, f"the file has {file_size} bytes; a header begins with 8", offset=0)
        length = int.from_bytes(start, "little")
        if length > MAX_ASCII:
            raise place.stop(Fault.HEADER_SIZE, f"the header claims {length} bytes; at most {MAX_ASCII} are read", offset=0)
        if 8 + length > file_size:
            text = f"the header claims {length} bytes, the file has {file_size - 8} after its length"
            raise place.stop(Fault.TRUNCATED, text, offset=8)
        return parse_header(file.read(length), place, path, file_size)


def parse_header(data: bytes, place: Collector, path: Path, file_size: int) -> Header:
    """The header of a file of this size that begins with the length of `data`, and `data`.

    Raises ContainerError where it cannot be made out at all.
    """
    table = parse_object(data, place, what="the header", offset=8)
    data_start = 8 + len(data)
    del data
    found = table.pop(_METADATA, None)
    metadata = {} if found is None else found  # MLX writes null, and the library reads it
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        place.note(Fault.HEADER_TEXT, "__metadata__ must be an object of strings", offset=8)
        metadata = {}
    tensors = [t for name, entry in table.items() if (t := _read_entry(name, entry, path, data_start, file_size, place))]
    if len(tensors) == len(table):
        check_spans(tensors, place, start=data_start, stop=file_size, contiguous=True)
    return Header(path, "safetensors", tuple(tensors), metadata, file_size, data_start, problems=tuple(place.found))


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < SIZE_LIMIT


def _read_entry(name: str, entry: Any, path: Path, data_start: int, file_size: int, place: Collector) -> Tensor | None:
    def note(fault: Fault, text: str, offset: int | None = None) -> Tensor | None:
        place.note(fault, text, tensor=clip(name), offset=offset)
        return None

    if len(name) > MAX_NAME:
        return note(Fault.NAME, f"the name has {len(name)} characters; at most {MAX_NAME} are read")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        return note(Fault.HEADER_TEXT, "an entry has dtype, shape and data_offsets, and nothing else")
    dtype, shape, ends = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SAFETENSORS_BITS:
        return note(Fault.DTYPE, f"dtype {clip(str(dtype))!r} is not one of {', '.join(SAFETENSORS_BITS)}")
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(map(_is_size, shape)):
        return note(Fault.SHAPE, f"shape {clip(str(shape))} is not a short list of sizes below 2^63")
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(_is_size, ends)) or ends[0] > ends[1]:
        return note(Fault.OFFSET, f"data_offsets {clip(str(ends))} are not two rising positions")
    begin, end = data_start + ends[0], data_start + ends[1]
    if end > file_size:
        return note(Fault.TRUNCATED, f"its data end at byte {end}, the file at {file_size}", begin)
    items = count_items(shape)
    if items is None or items * SAFETENSORS_BITS[dtype] != 8 * (end - begin):
        bits = "beyond 2^63" if items is None else f"{items} x {SAFETENSORS_BITS[dtype]} bits"
        return note(Fault.SIZE, f"{dtype} of shape {clip(str(shape))} is {bits}; its data take {end - begin} bytes", begin)
    return Tensor(name, dtype, tuple(shape), begin, end - begin, path)


def read_foreign_text(header: Header) -> str | None:
    """The JSON text of a header where it is not what `lay_out` writes: of a writer with an order of its own, as MLX's.

    None, too, for one of more than `MAX_KEPT` bytes: the way back then gives the same tensors in the library's order.
    Raises ContainerError.
    """
    if header.data_start > MAX_KEPT:
        return None
    file, _ = open_file(header.path)
    with file:
        data = file.read(header.data_start)
    same = data == lay_out(header.tensors, header.metadata, header.path)[0]
    return None if same else data[8:].decode("utf-8")


def restore(text: str, tensors: Sequence[Tensor], metadata: Mapping[str, str], path: Path) -> tuple[bytes, list[Tensor]] | None:
    """What `lay_out` returns, with this text as the header; None where it is not a header of these tensors and metadata."""
    data = text.encode("utf-8", "surrogatepass")
    size = 8 + len(data) + sum(t.size for t in tensors)
    try:
        header = parse_header(data, Collector(path), path, size)
    except ContainerError:
        return None
    if header.problems or header.metadata != metadata or _describe(header.tensors) != _describe(tensors):
        return None
    return len(data).to_bytes(8, "little") + data, sorted(header.tensors, key=lambda t: (t.offset, t.size))


def _describe(tensors: Sequence[Tensor]) -> dict[str, tuple[str, tuple[int, ...], int]]:
    return {t.name: (t.dtype, t.shape, t.size) for t in tensors}


def lay_out(tensors: Sequence[Tensor], metadata: Mapping[str, str], path: Path) -> tuple[bytes, list[Tensor]]:
    """Header bytes, and the tensors with their places, in the order of safetensors' own writer.

    Of the given tensors name, dtype, shape and size count. Files that the library wrote come back byte for byte.
    """
    ordered = sorted(tensors, key=lambda t: (-SAFETENSORS_ORDER[t.dtype], t.name.encode()))
    ends = list(accumulate((t.size for t in ordered), initial=0))
    table: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    for t, *span in zip(ordered, ends, ends[1:], strict=False):
        table[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": span}
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (round_up(len(text), 8) - len(text))
    placed = [replace(t, offset=8 + len(text) + begin, path=path) for t, begin in zip(ordered, ends, strict=False)]
    return len(text).to_bytes(8, "little") + text, placed
