"""Files of unknown origin: only regular ones are read, only as much as is allowed, and their JSON within bounds."""

from __future__ import annotations

import codecs
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

#: Bytes of a document that is read whole, and how many values its JSON may hold.
MAX_DOCUMENT = 64 << 20
MAX_VALUES = 4_000_000


class UnreadableFile(ValueError):
    """A file that is no regular one, too long, or not what it has to be. The message names it."""


class NotJson(ValueError):
    """Text that is no JSON, or more than is read. The message says where or how much."""


@contextmanager
def open_regular(path: Path, limit: int | None = None) -> Iterator[IO[bytes]]:
    """A regular file to read; a FIFO, a device or a folder is refused before anything is read from it.

    Raises UnreadableFile for these and for more than `limit` bytes, OSError where it cannot be opened.
    """
    if "\0" in str(path):
        raise UnreadableFile(f"{str(path)!r} is no file name: it holds a NUL")
    try:  # without waiting for a FIFO's other end
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except UnicodeEncodeError:
        raise UnreadableFile(f"{str(path)!r} is no file name: it holds half a character") from None
    except PermissionError:
        if path.is_dir():  # Windows says this of folders
            raise UnreadableFile(f"{path} is a folder, not a file") from None
        raise
    with os.fdopen(_checked(handle, path, limit), "rb") as file:
        yield file


def _checked(handle: int, path: Path, limit: int | None) -> int:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise UnreadableFile(f"{path} is {kind}, not a regular file; name a file")
    if limit is not None and found.st_size > limit:
        os.close(handle)
        raise UnreadableFile(f"{path} has {found.st_size} bytes; at most {limit} are read")
    return handle


_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def read_regular(path: Path, limit: int = MAX_DOCUMENT) -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    Raises UnreadableFile for anything else, FileNotFoundError and other OSErrors with the file's name.
    """
    with open_regular(path, limit) as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it has grown since
        raise UnreadableFile(f"{path} has more than {limit} bytes; at most {limit} are read")
    return data


def parse_json(data: bytes, *, values: int = MAX_VALUES, constants: bool = True, twice: bool = True) -> Any:
    """The JSON that bytes hold.

    values: how many commas and opening brackets are taken. constants: whether NaN and Infinity are. twice: whether an object may
    hold a name twice, of which the last counts.
    Raises NotJson for what is no UTF-8 or JSON, is nested too deeply, or has numbers of thousands of digits.
    """
    found = data.count(b",") + data.count(b"{") + data.count(b"[")
    if found > values:
        raise NotJson(f"it holds {found} values; at most {values} are read")
    if data.startswith(codecs.BOM_UTF8):
        raise NotJson("it begins with a byte order mark (the bytes EF BB BF); save it as UTF-8 without one")
    try:
        return json.loads(
            data.decode("utf-8"), parse_constant=None if constants else _refuse, object_pairs_hook=None if twice else _refuse_twice
        )
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise NotJson(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg}: line {error.lineno}, column {error.colno}") from None
    except NotJson:
        raise
    except ValueError:  # int() is the only one that says so, and advises what is no affair of a file's
        raise NotJson(f"it holds a whole number of more than {sys.get_int_max_str_digits()} digits") from None


def _refuse(name: str) -> Any:
    raise NotJson(f"{name} is no JSON number")


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise NotJson(f"an object holds {name[:40]!r} twice; write each name once")
        found[name] = value
    return found


def read_json(path: Path, limit: int = MAX_DOCUMENT, *, twice: bool = True) -> Any:
    """The JSON of a regular file; twice: as `parse_json` has it.

    Raises UnreadableFile, which says what is wrong, and OSError.
    """
    data = read_regular(path, limit)
    try:
        return parse_json(data, twice=twice)
    except NotJson as error:
        raise UnreadableFile(f"{path} is not JSON ({error})") from None
