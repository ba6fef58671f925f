"""GGUF headers (version 2 and 3, little-endian), read within bounds and written.

Format: "GGUF", u32 version, u64 tensors, u64 keys; keys (string, u32 type, value); infos (string, u32 rank, u64 sizes with the
fastest axis first, u32 type, u64 offset); padding to `general.alignment`; data, each tensor at a multiple of the alignment.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from mxspec.containers.dtypes import GGML_NUMBERS, GGML_TYPES
from mxspec.containers.header import SIZE_LIMIT, Header, Tensor, check_spans, count_items, open_file, round_up
from mxspec.containers.problems import Collector, ContainerError, Fault
from mxspec.containers.text import MAX_WIDE, clip

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32
#: ggml's own limits: axes of a tensor, bytes of a name with its final zero.
MAX_RANK: Final = 4
MAX_NAME: Final = 64
#: What is followed; real files stay far below.
_MAX_TENSORS: Final = 1 << 17
_MAX_KEYS: Final = 1 << 16
_MAX_STRINGS: Final = 1 << 21  # of all arrays together
_MAX_TEXT: Final = 1 << 16
_MAX_KEY_BYTES: Final = 64 << 20
#: Bytes of all texts that are kept: names of keys and tensors, own values.
_MAX_KEPT: Final = 32 << 20

#: `general.file_type` of files whose weights are mostly of one format.
_FILE_TYPES: Final = {"mxfp4": 38, "nvfp4": 39}

_STRING: Final = 8
_ARRAY: Final = 9
_WIDTHS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32: Final = 4
#: Keys of type string that are kept; their values may be long.
OWN_PREFIX: Final = "mxspec."


class _Cursor:
    """Reads forward and never past the file's end."""

    def __init__(self, file: BinaryIO, size: int, place: Collector) -> None:
        self.file, self.size, self.place, self.at = file, size, place, 0
        self.kept = self.strings = 0

    def _advance(self, count: int, what: str) -> None:
        if count > self.size - self.at:
            raise self.stop(Fault.TRUNCATED, f"{what} takes {count} bytes, {self.size - self.at} are left", self.at)
        self.at += count

    def take(self, count: int, what: str) -> bytes:
        """The next bytes."""
        self._advance(count, what)
        return self.file.read(count)

    def skip(self, count: int, what: str) -> None:
        """Pass over bytes."""
        self._advance(count, what)
        self.file.seek(self.at)

    def number(self, width: int, what: str) -> int:
        """The next unsigned number."""
        return int.from_bytes(self.take(width, what), "little")

    def text(self, what: str, limit: int = _MAX_TEXT) -> str:
        """The next string."""
        place, length = self.at, self.number(8, what)
        if length > limit:
            raise self.stop(Fault.HEADER_SIZE, f"{what} claims {length} bytes; at most {limit} are read", place)
        self.kept += length
        if self.kept > _MAX_KEPT:
            text = f"with {what} its texts have more than {_MAX_KEPT} bytes, which is all that is read"
            raise self.stop(Fault.HEADER_SIZE, text, place)
        try:
            return self.take(length, what).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.stop(Fault.HEADER_TEXT, f"{what} is not UTF-8", place + 8 + error.start) from error

    def stop(self, fault: Fault, text: str, offset: int, tensor: str | None = None) -> ContainerError:
        """The error to raise where reading cannot go on."""
        return self.place.stop(fault, text, tensor=tensor, offset=offset)


def read_header(path: Path) -> Header:
    """The header of a GGUF file, with what is wrong with it.

    Raises ContainerError where the header cannot be made out at all.
    """
    place = Collector(path)
    file, file_size = open_file(path)
    with file:
        cursor = _Cursor(file, file_size, place)
        if cursor.take(4, "the magic") != MAGIC:
            raise cursor.stop(Fault.MAGIC, "does not begin with GGUF", 0)
        version = cursor.number(4, "the version")
        if version not in (2, 3):
            hint = "; it is big-endian, which is not read" if version in (2 << 24, 3 << 24) else ""
            raise cursor.stop(Fault.VERSION, f"version {version:#x}; 2 and 3 are read{hint}", 4)
        tensors, keys = cursor.number(8, "the number of tensors"), cursor.number(8, "the number of keys")
        for count, limit, what, at in ((tensors, _MAX_TENSORS, "tensors", 8), (keys, _MAX_KEYS, "keys", 16)):
            if count > limit:
                raise cursor.stop(Fault.COUNT, f"the header claims {count} {what}; at most {limit} are read", at)
        first = cursor.at
        metadata, alignment = _read_keys(cursor, keys)
        key_end = cursor.at
        infos = _read_infos(cursor, tensors)
        data_start = round_up(cursor.at, alignment)
        kept = b""
        if key_end - first <= _MAX_KEY_BYTES:
            file.seek(first)
            kept = file.read(key_end - first)
    found = [t for info in infos if (t := _place_tensor(*info, path, data_start, file_size, alignment, place))]
    if len(found) == len(infos):
        check_spans(found, place, start=data_start, stop=file_size, contiguous=False)
    return Header(path, "gguf", tuple(found), metadata, file_size, data_start, kept, keys, alignment, tuple(place.found))


def _read_keys(cursor: _Cursor, count: int) -> tuple[dict[str, str], int]:
    metadata: dict[str, str] = {}
    seen: set[str] = set()
    alignment = DEFAULT_ALIGNMENT
    for _ in range(count):
        start = cursor.at
        key = cursor.text("a key")
        if key in seen:
            raise cursor.stop(Fault.KEY, f"key {clip(key)!r} occurs twice", start)
        seen.add(key)
        kind = cursor.number(4, f"the type of key {clip(key)}")
        if key == "general.alignment":
            alignment = _read_alignment(cursor, kind)
        elif kind == _STRING and key.startswith(OWN_PREFIX):
            metadata[key] = cursor.text(f"key {clip(key)}", MAX_WIDE)
        else:
            _skip_value(cursor, kind, f"key {clip(key)}")
    return metadata, alignment


def _read_alignment(cursor: _Cursor, kind: int) -> int:
    at = cursor.at
    if kind != _UINT32:
        raise cursor.stop(Fault.ALIGNMENT, f"general.alignment has type {kind}; it is a uint32 (4)", at - 4)
    alignment = cursor.number(4, "general.alignment")
    if alignment == 0 or alignment & (alignment - 1):
        raise cursor.stop(Fault.ALIGNMENT, f"general.alignment is {alignment}; it is a power of two", at)
    return alignment


def _skip_value(cursor: _Cursor, kind: int, what: str) -> None:
    at, many = cursor.at, 1
    if kind == _ARRAY:
        kind, many = cursor.number(4, what), cursor.number(8, what)
        if kind != _STRING and kind not in _WIDTHS:
            raise cursor.stop(Fault.KEY, f"{what} is an array of type {kind}, which no array has", at)
        cursor.strings += many if kind == _STRING else 0
        if cursor.strings > _MAX_STRINGS:
            raise cursor.stop(Fault.COUNT, f"{what} claims {many} strings; at most {_MAX_STRINGS} in all are read", at + 4)
    if kind in _WIDTHS:
        cursor.skip(_WIDTHS[kind] * many, what)
    elif kind == _STRING:
        for _ in range(many):
            cursor.skip(cursor.number(8, what), what)
    else:
        raise cursor.stop(Fault.KEY, f"{what} has type {kind}; types are 0 to 12", at - 4)


def _read_infos(cursor: _Cursor, count: int) -> list[tuple[str, tuple[int, ...], int, int, int]]:
    infos: list[tuple[str, tuple[int, ...], int, int, int]] = []
    seen: set[str] = set()
    for _ in range(count):
        start = cursor.at
        name = cursor.text("a tensor's name")
        if name in seen:
            raise cursor.stop(Fault.NAME, "the name occurs twice", start, clip(name))
        seen.add(name)
        if len(name.encode()) >= MAX_NAME:
            text = f"the name has {len(name.encode())} bytes; ggml reads at most {MAX_NAME - 1}"
            cursor.place.note(Fault.NAME, text, tensor=clip(name), offset=start)
        at, rank = cursor.at, cursor.number(4, "a rank")
        if rank > MAX_RANK:
            raise cursor.stop(Fault.SHAPE, f"{rank} axes; ggml has at most {MAX_RANK}", at, clip(name))
        sizes = struct.unpack(f"<{rank}Q", cursor.take(8 * rank, "a shape"))
        infos.append((name, sizes[::-1], cursor.number(4, "a type"), cursor.number(8, "an offset"), at))
    return infos


def _place_tensor(
    name: str, shape: tuple[int, ...], number: int, offset: int, at: int, path: Path, data_start: int, file_size: int,
    alignment: int, place: Collector,
) -> Tensor | None:  # fmt: skip
    def note(fault: Fault, text: str, where: int = at) -> Tensor | None:
        place.note(fault, text, tensor=clip(name), offset=where)
        return None

    kind, items, row = GGML_TYPES.get(number), count_items(shape), shape[-1] if shape else 1
    if kind is None:
        return note(Fault.DTYPE, f"type {number} is not one of ggml's")
    if items is None or any(n >= SIZE_LIMIT for n in shape):
        return note(Fault.SIZE, f"shape {list(shape)} has 2^63 items or more")
    if row % kind.items:
        return note(Fault.SHAPE, f"its rows have {row} items; {kind.name} stores blocks of {kind.items}")
    size, begin = items // kind.items * kind.size, data_start + offset
    if offset % alignment:
        note(Fault.OFFSET, f"its data begin {offset} bytes into the data, no multiple of the alignment {alignment}", begin)
    if begin + size > file_size:
        return note(Fault.TRUNCATED, f"its data end at byte {begin + size}, the file at {file_size}", begin)
    return Tensor(name, kind.name, shape, begin, size, path)


def encode_string(text: str) -> bytes:
    """A string as GGUF stores it."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def encode_text_key(key: str, value: str) -> bytes:
    """A key with a string value."""
    return encode_string(key) + struct.pack("<I", _STRING) + encode_string(value)


def encode_number_key(key: str, value: int) -> bytes:
    """A key with a uint32 value."""
    return encode_string(key) + struct.pack("<II", _UINT32, value)


def encode_file_type(format_name: str) -> bytes:
    """The key that says of which format most weights are."""
    return encode_number_key("general.file_type", _FILE_TYPES[format_name])


def lay_out(
    tensors: Sequence[Tensor], keys: bytes, key_count: int, metadata: Mapping[str, str], alignment: int, path: Path
) -> tuple[bytes, list[Tensor]]:
    """Header bytes with the padding after them, and the tensors with their places, in the order given.

    keys: encoded pairs; metadata are added to them. `general.alignment` is the caller's to add.
    """
    pairs = keys + b"".join(encode_text_key(k, v) for k, v in metadata.items())
    infos, starts, offset = [], [], 0
    for t in tensors:
        sizes = struct.pack(f"<I{len(t.shape)}Q", len(t.shape), *t.shape[::-1])
        infos.append(encode_string(t.name) + sizes + struct.pack("<IQ", GGML_NUMBERS[t.dtype], offset))
        starts.append(offset)
        offset += round_up(t.size, alignment)
    head = MAGIC + struct.pack("<IQQ", 3, len(tensors), key_count + len(metadata)) + pairs + b"".join(infos)
    data_start = round_up(len(head), alignment)
    placed = [replace(t, offset=data_start + start, path=path) for t, start in zip(tensors, starts, strict=True)]
    return head.ljust(data_start, b"\0"), placed
