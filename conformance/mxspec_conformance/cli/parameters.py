"""Types of options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

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
