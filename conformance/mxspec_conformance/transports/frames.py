"""Messages between the judge and a target's process: data only, every length checked, every wait with an end.

A message is a magic number, two lengths, a header of JSON, and the bytes of its arrays. Nothing in it is executed, and nothing
that is read from it is larger than what was announced. The header names the call that it belongs to.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.transports.wire import MAX_BYTES, PLAIN_DTYPES, dump_line, parse_line, take_array

_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"mxw1"
#: The longest header. Texts in it are cut before they are written (`targets/texts.py`).
MAX_HEADER = 1 << 20
#: How often a wait looks whether the other process still runs.
_SLICE = 0.25
#: Arrays smaller than this are written together with the header.
_SMALL = 1 << 16


class FrameError(Exception):
    """The bytes received are no message."""


class WireClosed(Exception):
    """The other end is gone."""


class WireTimeout(Exception):
    """Nothing whole came in time. `begun`: bytes of a message that did."""

    def __init__(self, begun: int) -> None:
        super().__init__(f"{begun} bytes")
        self.begun = begun


def pack_value(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    """A value as JSON that refers to arrays by number; what is neither data nor a container of it raises TypeError."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.ndarray):
        arrays.append(np.asarray(value))
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        arrays.append(np.asarray(value))
        return {"scalar": len(arrays) - 1}
    if isinstance(value, (bytes, bytearray)):
        arrays.append(np.frombuffer(value, np.uint8))
        return {"bytes": len(arrays) - 1}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):  # by its bits: a NaN has some
        return {"float": struct.pack("<d", value).hex()}
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [pack_value(v, arrays) for v in value]}
    if isinstance(value, Mapping):
        return {"dict": [[str(k), pack_value(v, arrays)] for k, v in value.items()]}
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def unpack_value(document: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    """The value that `pack_value` wrote. Raises FrameError for anything else."""
    if document is None or isinstance(document, (bool, int, str)):
        return document
    if not isinstance(document, dict) or len(document) != 1:
        raise FrameError(f"a value is a {type(document).__name__}")
    ((kind, held),) = document.items()
    if kind in ("array", "scalar", "bytes"):
        if not isinstance(held, int) or not 0 <= held < len(arrays):
            raise FrameError(f"there is no array {held!r}")
        array = arrays[held]
        if kind == "scalar" and array.size != 1:
            raise FrameError(f"a scalar has {array.size} values")
        return array if kind == "array" else array.reshape(-1)[0] if kind == "scalar" else array.tobytes()
    if kind == "float" and isinstance(held, str) and len(held) == 16:
        try:
            return struct.unpack("<d", bytes.fromhex(held))[0]
        except (ValueError, struct.error):
            raise FrameError("a float is no 16 hex digits") from None
    if kind in ("tuple", "list") and isinstance(held, list):
        items = [unpack_value(v, arrays) for v in held]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict" and isinstance(held, list) and all(isinstance(p, list) and len(p) == 2 for p in held):
        return {str(k): unpack_value(v, arrays) for k, v in held}
    raise FrameError(f"a value has the kind {kind[:20]!r}")


def write_frame(wire: socket.socket, call: str, kind: str, value: Any, seconds: float | None = None) -> None:
    """Send a message.

    Raises WireTimeout where the other end does not take it in time, WireClosed where it is gone, TypeError for what is no data.
    """
    arrays: list[npt.NDArray[Any]] = []
    packed = pack_value(value, arrays)
    for a in arrays:
        if a.dtype.name not in PLAIN_DTYPES:
            raise TypeError(f"an array of dtype {a.dtype} cannot be sent")
    described = [[a.dtype.name, list(a.shape)] for a in arrays]
    whole = [np.ascontiguousarray(a, PLAIN_DTYPES[a.dtype.name]) for a in arrays]
    header = dump_line({"call": call, "kind": kind, "value": packed, "arrays": described})
    if len(header) > MAX_HEADER:
        raise TypeError(f"a message's header has {len(header)} bytes; at most {MAX_HEADER} are sent")
    size = sum(a.nbytes for a in whole)
    if size > MAX_BYTES:
        raise TypeError(f"a message's arrays have {size} bytes; at most {MAX_BYTES} are sent")
    views = [a.reshape(-1).view(np.uint8).data for a in whole if a.nbytes]
    head = _PREFIX.pack(_MAGIC, len(header), size) + header
    if size <= _SMALL:
        head, views = head + b"".join(views), []
    deadline = None if seconds is None else time.monotonic() + seconds
    sent = 0
    try:
        for view in (memoryview(head), *views):
            wire.settimeout(None if deadline is None else max(deadline - time.monotonic(), 0.001))
            wire.sendall(view)
            sent += view.nbytes
    except TimeoutError:
        raise WireTimeout(sent) from None
    except OSError:
        raise WireClosed from None


def read_frame(wire: socket.socket, seconds: float | None = None, is_alive: Callable[[], bool] = lambda: True) -> tuple[str, str, Any]:
    """The next message: its call, its kind, its value.

    seconds: for all of it. is_alive: whether the process at the other end runs; a dead one's pipe may be held by another.
    Raises FrameError, WireClosed or WireTimeout.
    """
    reader = _Reader(wire, None if seconds is None else time.monotonic() + seconds, is_alive)
    magic, length, size = _PREFIX.unpack(reader.read(_PREFIX.size))
    if magic != _MAGIC or length > MAX_HEADER or size > MAX_BYTES:
        raise FrameError("it does not begin as a message does")
    try:
        header = parse_line(bytes(reader.read(length)))
    except ValueError as error:
        raise FrameError(f"its header is not JSON ({error})") from None
    if not isinstance(header, dict) or set(header) != {"call", "kind", "value", "arrays"}:
        raise FrameError("its header is not a message's")
    call, kind, described = header["call"], header["kind"], header["arrays"]
    if not (isinstance(call, str) and isinstance(kind, str) and isinstance(described, list)):
        raise FrameError("its header is not a message's")
    data, arrays, offset = reader.read(size), [], 0
    for entry in described:
        array = take_array(data[offset:], entry)
        if array is None:
            raise FrameError("its arrays are not as its header says")
        arrays.append(array)
        offset += array.nbytes
    if offset != size:
        raise FrameError(f"it holds {size} bytes of arrays; its header says {offset}")
    return call, kind, unpack_value(header["value"], arrays)


class _Reader:
    def __init__(self, wire: socket.socket, deadline: float | None, is_alive: Callable[[], bool]) -> None:
        self._wire, self._deadline, self._is_alive = wire, deadline, is_alive
        self._begun = 0

    def read(self, size: int) -> memoryview:
        """So many bytes. Memory that nothing was written to is only addresses: an announced gigabyte costs none."""
        whole = np.empty(size, np.uint8).data
        done = 0
        while done < size:
            left = _SLICE if self._deadline is None else self._deadline - time.monotonic()
            if left <= 0:
                raise WireTimeout(self._begun)
            self._wire.settimeout(min(left, _SLICE))
            alive = self._is_alive()
            try:
                count = self._wire.recv_into(whole[done:])
            except TimeoutError:
                if not alive:  # it had ended before the wait, so nothing was on its way
                    raise WireClosed from None
                continue
            except OSError:
                raise WireClosed from None
            if count == 0:
                raise WireClosed
            done += count
            self._begun += count
        return whole


def has_unread(wire: socket.socket) -> bool:
    """Whether the wire holds bytes that were not requested."""
    wire.settimeout(0)
    try:
        return bool(wire.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
