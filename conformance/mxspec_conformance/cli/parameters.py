"""Options, and types of options, that several commands share, and the commands that read and write files."""

from __future__ import annotations

import math
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mxspec.adjacent import ADJACENT, register_named
from mxspec.formats import BLOCKS
from mxspec.suggestions import did_you_mean

if TYPE_CHECKING:
    _Choice = click.Choice[str]
    _Path = click.Path[Any]
    _Type = click.ParamType[Any]
else:  # click before 8.4 has no type parameter here
    _Choice = click.Choice
    _Path = click.Path
    _Type = click.ParamType


class BlockFormatType(_Choice):
    """The name of a block format: of those that are known when the command is called, not when it was defined."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        """The names now, and those that are registered by being named."""
        return tuple(dict.fromkeys((*BLOCKS, *ADJACENT)))

    @choices.setter
    def choices(self, _: Iterable[str]) -> None:
        """click sets what it was given."""

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Some names, and where the others are: with all a line of help would be too long."""
        return "[mxfp4|mxfp8_e4m3|nvfp4|...; all: mxspec formats]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; an adjacent format is registered by it."""
        register_named([value])
        if value not in self.choices and (meant := did_you_mean(value, self.choices)):
            self.fail(f"{value!r} is no block format; {meant} `mxspec formats` lists all", param, ctx)
        return super().convert(value, param, ctx)


BLOCK_FORMAT = BlockFormatType()


#: Why there is no HTML.
NO_JINJA2 = "HTML is written by the package jinja2, which is not installed: pip install jinja2"


def need_jinja2(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """For what is written as HTML: a plain installation lacks jinja2, which is said before anything is judged."""
    if value is not None and find_spec("jinja2") is None:
        raise click.UsageError(NO_JINJA2)
    return value


class DurationType(click.FloatRange):
    """A positive, finite time: no clock can wait for NaN, infinity or 1e300."""

    def __init__(self, most: float) -> None:
        super().__init__(min=0, max=most, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a time; allowed is more than 0 and at most {self.max:g}", param, ctx)
        return number


SECONDS, MINUTES = DurationType(1e7), DurationType(1e6)


class TargetType(_Type):
    """A target as on the command line; where it is a file, the command reads it."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text."""
        return value


class InputPath(_Path):
    """A file or folder that the command reads."""


class OutputPath(_Path):
    """A file or folder that the command writes. prints: '-' stands for stdout."""

    def __init__(self, *, prints: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self.prints = prints

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if str(value) == "-" and not self.prints:
            self.fail("'-' is not a file; name one ('-' prints where the help says so)", param, ctx)
        if "\0" in str(value):
            self.fail("a file name holds no NUL", param, ctx)
        return super().convert(value, param, ctx)


TARGET = TargetType()
INPUT = InputPath(path_type=Path)
INPUT_FILE = InputPath(dir_okay=False, path_type=Path)
INPUT_FOLDER = InputPath(file_okay=False, path_type=Path)
EXISTING = InputPath(exists=True, path_type=Path)
EXISTING_FILE = InputPath(exists=True, dir_okay=False, path_type=Path)
EXISTING_FOLDER = InputPath(exists=True, file_okay=False, path_type=Path)
OUTPUT = OutputPath(path_type=Path)
OUTPUT_FILE = OutputPath(dir_okay=False, path_type=Path)
PRINTED_FILE = OutputPath(dir_okay=False, path_type=Path, prints=True)
OUTPUT_FOLDER = OutputPath(file_okay=False, path_type=Path)


class FileCommand(click.Command):
    """A command that refuses, before it does anything, to write over what it reads, or two results into one file."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        inputs = [p for kind, name, p in _list_paths(self, ctx) if kind is not OutputPath and p.exists()]
        outputs = [(name, p) for kind, name, p in _list_paths(self, ctx) if kind is OutputPath and str(p) != "-"]
        for number, (name, path) in enumerate(outputs):
            for read in inputs:
                if is_same_file(path, read):
                    raise click.UsageError(f"{name} {path} is what this command reads; nothing was written; name another file")
            for other, earlier in outputs[:number]:
                if is_same_file(path, earlier):
                    raise click.UsageError(f"{other} and {name} both name {path}; name a file for each")
        return super().invoke(ctx)


def _list_paths(command: click.Command, ctx: click.Context) -> Iterator[tuple[type, str, Path]]:
    for parameter in command.params:
        given = ctx.params.get(parameter.name or "")
        if given is None or not isinstance(parameter.type, (InputPath, OutputPath, TargetType)):
            continue
        name = parameter.opts[0] if isinstance(parameter, click.Option) else (parameter.metavar or parameter.human_readable_name)
        for value in given if isinstance(given, tuple) else (given,):
            words = [str(value)]
            if isinstance(parameter.type, TargetType) and words[0].startswith("cmd:"):
                words = _split(words[0].removeprefix("cmd:"))
            for word in words:
                if word and "\0" not in word:
                    yield type(parameter.type), name, Path(word)


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command, posix=os.name != "nt")
    except ValueError:  # it will be refused when it is started
        return []


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two names stand for one file, through links and however they are written; devices are shared by anybody."""
    try:
        if not one.exists() or not other.exists():
            return one.resolve() == other.resolve()
        found = one.stat()
        return os.path.samestat(found, other.stat()) and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
    except (OSError, ValueError, RuntimeError):  # a loop of links, a name that cannot be
        return False


F = TypeVar("F", bound=Callable[..., Any])


def campaign_options(timeout: float, about_state: str) -> Callable[[F], F]:
    """The options of long computations: state, workers, result, and how the target runs.

    timeout: the default of --timeout, in seconds.
    about_state: what --state does in addition to resuming, for its help.
    """
    options = (
        click.option("--state", type=OUTPUT_FILE, help=about_state),
        click.option("--restart", is_flag=True, help="Ignore the state file and start over."),
        click.option("--jobs", type=click.IntRange(1), help="Worker processes; default: one per core."),
        click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler."),
        click.option("--json", "-o", "json_file", type=OUTPUT_FILE, help="Write the result as JSON."),
        click.option("--timeout", type=SECONDS, default=timeout, show_default=True, help="Timeout of one call, in seconds."),
        click.option("--in-process", is_flag=True, help="Run the target inside the workers; a crash ends the worker."),
    )

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def parse_shard(text: str) -> tuple[int, int]:
    """I/N as two numbers.

    Raises ValueError for anything else.
    """
    share, slash, shares = text.partition("/")
    if not (slash and share.isdecimal() and shares.isdecimal() and 1 <= int(share) <= int(shares)):
        raise ValueError(f"--shard {text!r} is not I/N with 1 <= I <= N, such as 2/8")
    return int(share), int(shares)


def read_shard(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int]:
    """`parse_shard` for an option."""
    return parse_shard(value)
