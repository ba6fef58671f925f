"""Options, and types of options, that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mxspec.formats import BLOCKS

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # click before 8.4 has no type parameter here
    _Choice = click.Choice


class BlockFormatType(_Choice):
    """The name of a block format: of those that are known when the command is called, not when it was defined."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        """The names now."""
        return tuple(BLOCKS)

    @choices.setter
    def choices(self, _: Iterable[str]) -> None:
        """click sets what it was given."""


BLOCK_FORMAT = BlockFormatType()
#: A file that is read or written.
FILE = click.Path(dir_okay=False, path_type=Path)

F = TypeVar("F", bound=Callable[..., Any])


def campaign_options(timeout: float, about_state: str) -> Callable[[F], F]:
    """The options of long computations: state, workers, result, and how the target runs.

    timeout: the default of --timeout, in seconds.
    about_state: what --state does beside resuming, for its help.
    """
    options = (
        click.option("--state", type=FILE, help=about_state),
        click.option("--restart", is_flag=True, help="Ignore the state file and start over."),
        click.option("--jobs", type=click.IntRange(1), help="Worker processes; default: one per core."),
        click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler."),
        click.option("--json", "-o", "json_file", type=FILE, help="Write the result as JSON."),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=timeout,
            show_default=True,
            help="Timeout of one call, in seconds.",
        ),
        click.option("--in-process", is_flag=True, help="Run the target inside the workers; a crash ends the worker."),
    )

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add
