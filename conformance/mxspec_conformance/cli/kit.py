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
from mxspec_vectors.files import write_file


@click.command(cls=FileCommand)
@click.argument("name", required=False)
@click.option("--out", "-o", "folder", type=OUTPUT_FOLDER, help="Folder to write the files to.")
@click.option(
    "--format", "formats", multiple=True, type=BLOCK_FORMAT, help=f"Only this format; repeatable. Default: {', '.join(COMMON)}; onnx: {', '.join(KITS['onnx'].formats)}."
)
@click.option("--size", type=click.Choice([str(s) for s in SIZES]), default=str(SIZES[-1]), show_default=True, help="Blocks of each format.")
def kit(name: str | None, folder: Path | None, formats: tuple[str, ...], size: str) -> None:
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
    try:
        files = write_kit(name, formats, int(size))
    except ValueError as error:
        fail(str(error))
    for file, data in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / file, data)
    with until_closed():
        for file, data in files.items():
            click.echo(f"{folder / file}  {len(data)} bytes")
