"""Shared by all commands: a console of the right width, progress on stderr, and one way to fail."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TextIO, cast

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from mxspec_conformance.results.environment import describe_environment
from mxspec_conformance.targets.errors import InternalError, describe_error
from mxspec_conformance.targets.texts import DETAIL, MESSAGE, clean_text

#: Exit code for a command that could not do its work (bad input, missing files, a full disk).
EXIT_ERROR = 2
#: Exit code for a defect of mxspec.
EXIT_DEFECT = 3
#: How the profile of a result was chosen -> text.
CHOSEN_BY = {"asked": "requested", "claimed": "claimed", "nearest": "nearest", "default": "default"}


class _Trimmed(io.TextIOBase):
    """A stream without the blanks with which tables fill their lines; only whole lines are printed."""

    _BLANKS = re.compile(r"[ \t]+((?:\x1b\[[0-9;]*m)*)(?=\r?\n)")

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed declares an attribute, io has a property
        """The encoding of the stream, by which rich chooses its characters."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write a text without the blanks before its line ends."""
        self._stream.write(self._BLANKS.sub(r"\1", text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream; Python 3.13 asks for it when this object goes, and says so where the stream went before."""
        if not getattr(self._stream, "closed", False):
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The stream's own."""
        return self._stream.fileno()


def make_console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or 80 columns where there is none; lines end without blanks."""
    columns = os.environ.get("COLUMNS", "")
    requested = int(columns) if columns.isdecimal() else 0
    width = None if sys.stdout.isatty() and not requested else min(max(requested, 40), 1000) if requested else 80
    stream = sys.stderr if stderr else sys.stdout
    return CleanConsole(file=cast(TextIO, _Trimmed(stream)), width=width, highlight=False, soft_wrap=False, markup=False)


class CleanConsole(Console):
    """A console that applies its own styles alone: names of files and tensors may hold escape sequences.

    It cuts nothing off: numbers and code that are longer than a line go on in the terminal's next one.
    """

    def print(self, *objects: Any, crop: bool = False, **options: Any) -> None:
        """Print whole lines."""
        super().print(*objects, crop=crop, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments without control characters."""
        for segment in super().render(renderable, options):
            cleaned = segment.text if segment.control else clean_text(segment.text, len(segment.text))
            yield segment if cleaned == segment.text else Segment(cleaned, segment.style)


@contextlib.contextmanager
def show_progress(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr that names the current step; without a terminal a line after each silent minute."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        with _say_each_minute(what) as note:
            yield note
        return
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), console=console, transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=None)
        yield lambda step: progress.update(task, description=f"{what}: {step}")


@contextlib.contextmanager
def _say_each_minute(what: str) -> Iterator[Callable[[str], None]]:
    """What runs, for runners that end a job which says nothing."""
    begun, steps, over = time.monotonic(), [what], threading.Event()

    def say() -> None:
        while not over.wait(60):
            with contextlib.suppress(OSError, ValueError):  # stderr may be closed
                click.echo(clean_text(f"mxspec: {steps[-1]}, {time.monotonic() - begun:.0f} s so far", MESSAGE), err=True)

    threading.Thread(target=say, daemon=True).start()
    try:
        yield lambda step: steps.append(f"{what}: {step}")
    finally:
        over.set()


@contextlib.contextmanager
def show_count(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on stderr that counts steps up to a total and names the current one; silent if stderr is not a terminal."""
    console = make_console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        transient=True, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=total)

        def step(name: str) -> None:
            progress.update(task, description=f"{what} {name}", advance=1)

        yield step


def fail(message: str, *, code: int = EXIT_ERROR) -> NoReturn:
    """Print one message on stderr and exit."""
    click.echo(f"mxspec: {clean_text(message, MESSAGE)}", err=True)
    raise click.exceptions.Exit(code)


def report_defect(error: Exception, arguments: Sequence[str]) -> None:
    """Say on stderr that mxspec itself failed, and print what a report of the defect needs."""
    what, *frames = (str(error) if isinstance(error, InternalError) else describe_error(error)).split("\n")
    place = describe_environment()
    versions = ", ".join(f"{name} {place[name]}" for name in ("mxspec", "python", "numpy", "ml_dtypes", "platform", "machine"))
    lines = [
        f"mxspec failed: {what}",
        "This is a defect of mxspec and no verdict on what was given to it. Please report it, with these lines:",
        *(f"  {line.strip()}" for line in (versions, shlex.join(["mxspec", *arguments]))),
        "  Traceback (most recent call last):",
        *(f"    {line.strip()}" for line in frames),
    ]
    click.echo(clean_text("\n".join(lines), DETAIL), err=True)
