"""The wire between the judge and a target's process: what was sent comes, and nothing else is taken for a message."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from mxspec_conformance.transports import frames
from mxspec_conformance.transports.frames import FrameError, WireClosed, WireTimeout, read_frame, write_frame


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(v, b[k]) for k, v in a.items())
    if isinstance(a, float):
        return isinstance(b, float) and struct.pack("<d", a) == struct.pack("<d", b)
    return bool(a == b)


def test_values_come_as_they_were_sent(wire: tuple[socket.socket, socket.socket]) -> None:
    value = {
        "none": None, "bool": True, "text": "\ud800 and [/red]", "int": -(2**70), "bytes": b"\x00\xff", "empty": (),
        "floats": [float("nan"), -0.0, float("inf"), 5e-324, 0.1],
        "arrays": tuple(
            np.arange(6).reshape(2, 3).astype(d) for d in ("u1", "i1", "<f4", "<f2", "u4", "?", ml_dtypes.bfloat16)
        ),
        "shapes": [np.zeros((0, 32), np.float32), np.float32(3).reshape(()), np.zeros((3, 0, 2), np.uint8)],
        "nested": [("a", {"b": [None]})],
    }  # fmt: skip
    write_frame(wire[0], "call", "ok", value)
    call, kind, got = read_frame(wire[1], 5)
    assert (call, kind) == ("call", "ok")
    assert same(value, got)


def test_views_and_scalars_lose_their_strides_and_nothing_else(wire: tuple[socket.socket, socket.socket]) -> None:
    base = np.arange(64, dtype=np.float32).reshape(8, 8)
    write_frame(wire[0], "c", "ok", (base[::-2, 1::3], base.T, np.broadcast_to(np.uint8(7), (3, 4)), np.float32(1.5)))
    _, _, (view, turned, wide, scalar) = read_frame(wire[1], 5)
    assert same(view, np.ascontiguousarray(base[::-2, 1::3]))
    assert same(turned, np.ascontiguousarray(base.T))
    assert wide.shape == (3, 4)
    assert isinstance(scalar, np.float32)
    assert scalar == 1.5


def test_large_arrays_cross(wire: tuple[socket.socket, socket.socket]) -> None:
    x = np.arange(1 << 22, dtype=np.uint32)
    sender = threading.Thread(target=write_frame, args=(wire[0], "c", "ok", x, 20))
    sender.start()
    _, _, got = read_frame(wire[1], 20)
    sender.join()
    assert same(x, got)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, np.array([object()]), np.array(["text"]), len])
def test_what_is_no_data_is_not_sent(wire: tuple[socket.socket, socket.socket], value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        write_frame(wire[0], "c", "ok", value)


def frame(header: bytes, data: bytes = b"", *, magic: bytes = b"mxw1", size: int | None = None, length: int | None = None) -> bytes:
    lengths = len(header) if length is None else length, len(data) if size is None else size
    return struct.pack("<4sIQ", magic, *lengths) + header + data


HEAD = b'{"call":"c","kind":"ok","value":%s,"arrays":%s}'
FORGED = {
    "no message": b"x" * 64,
    "another magic number": frame(b"{}", magic=b"mxw2"),
    "a pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix",
    "a header of 4 GB": frame(b"", length=0xFFFFFFFF),
    "arrays of 2^62 bytes": frame(b"{}", size=1 << 62),
    "no JSON": frame(b"{"),
    "no object": frame(b"7"),
    "deep": frame(b"[" * 100_000),
    "many values": frame(b"[" + b"1," * 200_000 + b"1]"),
    "an integer of many digits": frame(b'{"call":"c","kind":"ok","arrays":[],"value":' + b"9" * 9000 + b"}"),
    "other keys": frame(b'{"call":"c"}'),
    "no name": frame(b'{"call":1,"kind":"ok","value":null,"arrays":[]}'),
    "NaN": frame(HEAD % (b"NaN", b"[]")),
    "a bare list": frame(HEAD % (b"[1]", b"[]")),
    "an unknown kind of value": frame(HEAD % (b'{"pickle":"x"}', b"[]")),
    "an array that is not there": frame(HEAD % (b'{"array":0}', b"[]")),
    "an array of number -1": frame(HEAD % (b'{"array":-1}', b'[["uint8",[1]]]'), b"x"),
    "an unknown dtype": frame(HEAD % (b"null", b'[["object",[1]]]'), b"x" * 8),
    "a negative size": frame(HEAD % (b"null", b'[["uint8",[-1]]]'), b"x"),
    "a size that is a float": frame(HEAD % (b"null", b'[["uint8",[1.0]]]'), b"x"),
    "sizes whose product overflows": frame(HEAD % (b"null", b'[["uint8",[2147483648,2147483648,4]]]'), b"x"),
    "100 axes": frame(HEAD % (b"null", b'[["uint8",[' + b"1," * 99 + b"1]]]"), b"x"),
    "arrays that are longer than their bytes": frame(HEAD % (b"null", b'[["uint8",[9]]]'), b"x"),
    "bytes that no array claims": frame(HEAD % (b"null", b"[]"), b"x"),
    "a scalar of two values": frame(HEAD % (b'{"scalar":0}', b'[["uint8",[2]]]'), b"xy"),
    "half a float": frame(HEAD % (b'{"float":"00"}', b"[]")),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_what_is_no_message_is_refused(wire: tuple[socket.socket, socket.socket], what: str) -> None:
    sender = threading.Thread(target=wire[0].sendall, args=(FORGED[what],))
    sender.start()
    with pytest.raises(FrameError):
        read_frame(wire[1], 5)
    sender.join(5)
    assert not sender.is_alive()


@given(data=st.binary(max_size=200), at=st.integers(0, 80), kept=st.integers(0, 80))
def test_a_damaged_message_is_refused_or_read_whole(data: bytes, at: int, kept: int) -> None:
    good = frame(HEAD % (b'{"array":0}', b'[["uint8",[4]]]'), b"abcd")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(good[:at] + data + good[at + kept :])
        ours.shutdown(socket.SHUT_WR)
        with contextlib.suppress(FrameError, WireClosed):
            read_frame(theirs, 5)


def test_a_partial_message_has_a_deadline_and_costs_no_memory(wire: tuple[socket.socket, socket.socket]) -> None:
    announced = frame(HEAD % (b"null", b'[["uint8",[1073741824]]]'), b"abc", size=1 << 30)
    wire[0].sendall(announced)
    started = time.monotonic()
    with pytest.raises(WireTimeout) as caught:
        read_frame(wire[1], 0.2)
    assert caught.value.begun == len(announced)
    assert time.monotonic() - started < 5


def test_a_slow_writer_does_not_move_the_deadline(wire: tuple[socket.socket, socket.socket]) -> None:
    stop = threading.Event()

    def drip() -> None:
        message = frame(b" " * 1000)
        for i in range(1000):
            if stop.wait(0.01):
                return
            wire[0].sendall(message[i : i + 1])

    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(WireTimeout):
        read_frame(wire[1], 0.3)
    stop.set()
    thread.join()


def test_a_reader_that_does_not_read_has_a_deadline(wire: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(WireTimeout):
        write_frame(wire[0], "c", "call", np.zeros(1 << 24, np.uint8), 0.2)


def test_a_closed_wire_is_seen(wire: tuple[socket.socket, socket.socket]) -> None:
    wire[0].close()
    with pytest.raises(WireClosed):
        read_frame(wire[1], 5)
    with pytest.raises(WireClosed):
        write_frame(wire[1], "c", "ok", np.zeros(1 << 22, np.uint8), 5)


def test_a_dead_process_is_seen_although_its_wire_is_open(wire: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(WireClosed):
        read_frame(wire[1], 60, is_alive=lambda: False)


def test_the_longest_header_is_bounded(wire: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(TypeError, match="header has"):
        write_frame(wire[0], "c", "ok", "x" * (frames.MAX_HEADER + 1))
