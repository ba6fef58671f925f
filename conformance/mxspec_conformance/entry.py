"""Where the command `mxspec` begins. Its imports take a tenth of a second: Ctrl-C within it ends them without a traceback."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def _stop(number: int, _: FrameType | None) -> NoReturn:
    """End at once: nothing was begun, and modules that are half imported are no place to raise."""
    os.write(2, b"mxspec: stopped\n")
    os._exit(128 + number)


def main() -> None:
    """Run the command line as a process."""
    before = signal.getsignal(signal.SIGINT)
    heeded = before is signal.default_int_handler  # where it is ignored, it stays so
    if heeded:
        signal.signal(signal.SIGINT, _stop)
    from mxspec_conformance.cli.main import main as command

    if heeded:
        signal.signal(signal.SIGINT, before)
    command()
