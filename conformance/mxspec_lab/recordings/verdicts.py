"""`python -m mxspec_lab record` and `verdicts`: answers of libraries as files, and what the judge says of them, as lines of one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from mxspec_conformance.cli.console import make_console
from mxspec_conformance.results.report import Report
from mxspec_lab.recordings.asking import judge, record as record_target
from mxspec_lab.recordings.recording import SUFFIX, Recording, read_recording, write_recording
from mxspec_lab.recordings.replaying import ReplaySession
from mxspec_vectors.writing import write_file

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS, TABLE = ROOT / "reports" / "recordings", ROOT / "reports" / "verdicts.tsv"
HEADER = "\t".join(("target", "version", "requirement", "verdict", "failing", "cases"))


def replay(recording: Recording) -> Report:
    """What the judge says of a recording.

    Raises ChangedModelError where the model no longer gives the answers that the recording takes from it.
    """
    session = ReplaySession(recording)
    report = judge(session)
    session.verify()
    return report


def list_lines(report: Report) -> list[str]:
    """The lines of a report, in order."""
    name, version = report.target["name"], report.target["version"]
    rows = ((name, version, r.id, r.verdict.value, str(r.failing), str(r.cases)) for r in report.requirements)
    return sorted("\t".join(row) for row in rows)


def list_recordings(folder: Path = RECORDINGS) -> list[Path]:
    """The recordings of a folder, in order."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def judge_recordings(paths: Sequence[Path]) -> Iterator[str]:
    """The lines of recordings, one after the other."""
    for path in paths:
        yield from list_lines(replay(read_recording(path)))


def read_table(path: Path = TABLE) -> list[str]:
    """The lines of a table, without its header; none where there is no such file."""
    return path.read_text("ascii").splitlines()[1:] if path.is_file() else []


def render_table(lines: Iterable[str]) -> bytes:
    """The table of lines."""
    return "".join(f"{line}\n" for line in (HEADER, *sorted(lines))).encode("ascii")


def compare_lines(before: Iterable[str], now: Iterable[str]) -> list[str]:
    """The lines that are gone, with -, and those that are new, with +; the two of a requirement below each other."""
    old, new = set(before), set(now)
    marked = [("-", line) for line in old - new] + [("+", line) for line in new - old]
    return [mark + line for mark, line in sorted(marked, key=lambda m: (m[1].split("\t")[:3], m[0] == "+"))]


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
            raise click.UsageError(f"{path} exists, and a recording is never changed; delete it to record this version again")
        if replay(recording).requirements != report.requirements:
            raise click.UsageError(f"{target} answers one item in several ways: no recording can stand for it, and nothing was written")
        write_recording(path, recording)
        click.echo(f"{path}: {path.stat().st_size:,} bytes")


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; print the lines that differ, and exit with 1 if there are any.")
@click.option(
    "--recordings", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=RECORDINGS,
    help="Folder of recordings; default: reports/recordings.",
)  # fmt: skip
@click.option(
    "-o", "--out", "table", type=click.Path(dir_okay=False, path_type=Path), default=TABLE, help="The table; default: reports/verdicts.tsv."
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
