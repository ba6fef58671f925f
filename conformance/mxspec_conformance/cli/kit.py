"""`mxspec kit NAME -o FOLDER`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from rich.text import Text

from mxspec_conformance.cli.console import fail, make_console
from mxspec_conformance.cli.parameters import OUTPUT_FOLDER, BlockFormatType, FileCommand
from mxspec_conformance.cli.streams import until_closed
from mxspec_conformance.kits.choosing import SIZES
from mxspec_conformance.kits.products import GROUP_PAIRS, PAIRS
from mxspec_conformance.kits.writing import COMMON, KITS, LARGEST, write_kit
from mxspec_vectors.reading import UnreadableFile, read_regular
from mxspec_vectors.writing import write_files


class KitFormatType(BlockFormatType):
    """A block format, or a pair of them that there are golden calls for."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The names now."""
        return (*super().choices, *PAIRS, *GROUP_PAIRS)

    @choices.setter
    def choices(self, _: Iterable[str]) -> None:
        """click sets what it was given."""


@click.command(cls=FileCommand)
@click.argument("name", required=False)
@click.option("--out", "-o", "folder", type=OUTPUT_FOLDER, help="Folder to write the files to.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=KitFormatType(),
    help=f"Only this format, or pair of formats for products; repeatable. Default: {', '.join(COMMON)}; onnx: {', '.join(KITS['onnx'].formats)}.",
)
@click.option(
    "--size",
    type=click.IntRange(1, SIZES[-1]),
    help=f"Blocks of each format. Default: pytest, c, json: as many as fit into {LARGEST:,} bytes; others: {SIZES[-1]}.",
)
@click.option("--force", is_flag=True, help="Replace files that exist and are others.")
def kit(name: str | None, folder: Path | None, formats: tuple[str, ...], size: int | None, force: bool) -> None:
    """Write golden blocks as files for another project's tests.

    NAME is a kit; without one, list them.
    """
    if name is None:
        console = make_console()
        with until_closed():
            for known, kind in KITS.items():
                console.print(Text(known, style="bold").append(f"  {kind.what}", style="not bold"), soft_wrap=True)
        return
    if folder is None:
        fail("name a folder for the files: -o FOLDER")
    files = write_kit(name, formats, size)
    contents = {folder / file: data for file, data in files.items()}
    other = [path for path, data in contents.items() if path.exists() and not _holds(path, data)]
    if other and not force:
        fail(f"{other[0]} exists and is another file; name another folder, or pass --force to replace it")
    write_files(contents)
    with until_closed():
        for file, data in files.items():
            click.echo(f"{folder / file}  {len(data)} bytes")
        for file, data in files.items():
            if file.endswith(".x.hex"):  # which begins with what its blocks find
                click.echo(data.decode("ascii").splitlines()[0].removeprefix("// "))


def _holds(path: Path, data: bytes) -> bool:
    try:
        return read_regular(path) == data
    except (UnreadableFile, OSError):
        return False
