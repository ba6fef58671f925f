"""`mxspec kit NAME -o FOLDER`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from mxspec_conformance.cli.console import fail, make_console
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, OUTPUT_FOLDER, FileCommand
from mxspec_conformance.cli.streams import until_closed
from mxspec_conformance.kits.choosing import SIZES
from mxspec_conformance.kits.writing import COMMON, KITS, write_kit
from mxspec_vectors.reading import UnreadableFile, read_regular
from mxspec_vectors.writing import write_files


@click.command(cls=FileCommand)
@click.argument("name", required=False)
@click.option("--out", "-o", "folder", type=OUTPUT_FOLDER, help="Folder to write the files to.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=BLOCK_FORMAT,
    help=f"Only this format; repeatable. Default: {', '.join(COMMON)}; onnx: {', '.join(KITS['onnx'].formats)}.",
)
@click.option(
    "--size", type=click.Choice([str(s) for s in SIZES]), default=str(SIZES[-1]), show_default=True, help="Blocks of each format."
)
@click.option("--force", is_flag=True, help="Replace files that exist and are others.")
def kit(name: str | None, folder: Path | None, formats: tuple[str, ...], size: str, force: bool) -> None:
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
    files = write_kit(name, formats, int(size))
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
