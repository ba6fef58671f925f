"""A command's standard streams, and the signals that end it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

#: Signals that end a command as Ctrl-C does: what it has begun is cleaned up, and what it has finished kept.
_ENDING = ("SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """A signal that ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__()
        #: As shells count: 128 and the signal's number.
        self.code = 128 + number


@contextlib.contextmanager
def heed_signals() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP raise Stopped in the main thread. A signal that was ignored before stays so (nohup)."""
    kept: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in _ENDING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                kept[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _stop(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: a second one would end the cleaning up
    raise Stopped(number)


def open_missing_streams() -> None:
    """Open closed standard streams on the null device: the next file opened would take their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what the terminal's encoding lacks is shown escaped, never a traceback
            stream.reconfigure(errors="backslashreplace")


def drop_odd_sizes() -> None:
    """Take a terminal's size that is no plain number out of the environment: to rich a superscript is a digit, to `int` it is none."""
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("[0-9]{1,5}", os.environ.get(name, "0")):
            del os.environ[name]


def settle_stdout() -> str:
    """Send what is still to be printed; why that failed, or an empty text. A broken pipe is no failure: the reader left."""
    words = ""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno != errno.EPIPE and number == 1:
                words = f"stdout: {error.strerror}"
            with contextlib.suppress(OSError):  # or the interpreter tries again at its end, and complains
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, number)
                os.close(nowhere)
    return words


@contextlib.contextmanager
def until_closed() -> Iterator[None]:
    """Printing that ends without a message when the reader has gone (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        settle_stdout()
