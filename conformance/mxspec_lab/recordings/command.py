"""`python -m mxspec_lab record` and `verdicts`: answers of libraries as files, and verdicts on such files."""

from __future__ import annotations

from pathlib import Path

import click

from mxspec_conformance.cli.console import make_console
from mxspec_lab.recordings.asking import record as record_target
from mxspec_lab.recordings.recording import SUFFIX, write_recording
from mxspec_lab.recordings.verdicts import (
    RECORDINGS,
    TABLE,
    compare_lines,
    judge_recordings,
    list_recordings,
    read_table,
    render_table,
    replay,
)
from mxspec_vectors.writing import write_file


@click.command()
@click.argument("targets", metavar="LIBRARY...", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=RECORDINGS,
    help="Folder; default: reports/recordings.",
)
def record(targets: tuple[str, ...], folder: Path) -> None:
    """Ask libraries what the vectors ask, and keep what they answer.

    A recording is one version's, and is never changed: delete the file to record the version again, as when the vectors
    ask more than they did. Calls that differ in size, memory or order are not made.

    Exit code: 0.
    """
    for target in targets:
        recording, report = record_target(target)
        path = folder / f"{recording.origin['target']}-{recording.origin['version']}{SUFFIX}"
        if path.exists():
            raise click.UsageError(
                f"{path} exists, and a recording is never changed; delete it to record this version again"
            )
        if replay(recording).requirements != report.requirements:
            raise click.UsageError(
                f"{target} answers one item in several ways: no recording can stand for it, and nothing was written"
            )
        write_recording(path, recording)
        click.echo(f"{path}: {path.stat().st_size:,} bytes")


@click.command()
@click.option(
    "--check", is_flag=True, help="Write nothing; print the lines that differ, and exit with 1 if there are any."
)
@click.option(
    "--recordings",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=RECORDINGS,
    help="Folder of recordings; default: reports/recordings.",
)
@click.option(
    "-o",
    "--out",
    "table",
    type=click.Path(dir_okay=False, path_type=Path),
    default=TABLE,
    help="The table; default: reports/verdicts.tsv.",
)
def verdicts(check: bool, folder: Path, table: Path) -> None:
    """Judge all recordings again, without the libraries, and write the table of verdicts.

    The lines that differ from those of the table are printed: - is what it held, + what the judge says now.

    Exit code: 0, or with --check 1 if lines differ.
    """
    lines = list(judge_recordings(list_recordings(folder)))
    changes = compare_lines(read_table(table), lines)
    for line in changes:
        click.echo(line)
    make_console(stderr=True).print(f"{len(lines)} verdicts, {len(changes)} lines differ")
    if check and changes:
        raise click.exceptions.Exit(1)
    if not check:
        write_file(table, render_table(lines))
