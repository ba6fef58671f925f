"""Marks: what ComfyUI's files say of single layers, in tensors of JSON or in one metadata entry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mxspec.containers.conventions import MARK_KEY, MARK_SUFFIX
from mxspec.containers.groups import Mark
from mxspec.containers.header import Header, Tensor, read_at
from mxspec.containers.problems import Collector, ContainerError
from mxspec.containers.text import parse_object

#: Bytes of a mark that are read. ComfyUI's have less than 200.
MAX_MARK = 4096
_NO_FORMAT = "is no JSON that names a format"


def read_marks(headers: Iterable[Header]) -> dict[str, Mark]:
    """The marks of a checkpoint's files by base name; a tensor goes before the metadata, as its loader has it."""
    found: dict[str, Mark] = {}
    headers = tuple(headers)
    for header in headers:
        found.update({base: Mark(says) for base, says in read_layers(header.metadata.get(MARK_KEY)).items()})
    for header in headers:
        for tensor in header.tensors:
            if tensor.name.endswith(MARK_SUFFIX) and tensor.dtype == "U8":
                found[tensor.name.removesuffix(MARK_SUFFIX)] = _read_mark(tensor)
    return found


def read_mark_text(tensor: Tensor) -> str:
    """The text of a mark. Raises ContainerError where it is too long or not UTF-8."""
    if tensor.size > MAX_MARK:
        raise ContainerError(f"{_NO_FORMAT}: it has {tensor.size} bytes; at most {MAX_MARK} are read")
    try:
        return read_at(tensor, 0, tensor.size).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ContainerError(f"{_NO_FORMAT}: it is not UTF-8") from error


def name_format(text: str) -> str:
    """The format that the text of a mark names. Raises ContainerError where it names none."""
    try:
        says = _name_format(parse_object(text.encode("utf-8", "surrogatepass"), Collector(""), what="it"))
    except ContainerError as error:
        raise ContainerError(f"{_NO_FORMAT}: {error.problem.text if error.problem else error}") from error
    if not says:
        raise ContainerError(f'{_NO_FORMAT}: it has no "format"')
    return says


def _read_mark(tensor: Tensor) -> Mark:
    try:
        return Mark(name_format(read_mark_text(tensor)), tensor)
    except ContainerError as error:
        return Mark("", tensor, str(error))


def read_layers(text: str | None) -> dict[str, str]:
    """The format of each layer that the metadata entry names; none where it is not what ComfyUI writes."""
    if text is None:
        return {}
    try:
        layers = parse_object(text.encode("utf-8", "surrogatepass"), Collector(""), what=MARK_KEY).get("layers")
    except ContainerError:
        return {}
    return {base: _name_format(entry) for base, entry in layers.items()} if isinstance(layers, dict) else {}


def _name_format(entry: Any) -> str:
    says = entry.get("format") if isinstance(entry, dict) else None
    return says if isinstance(says, str) else ""
