"""Verdicts that the judge computes from recordings, as lines of one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mxspec_conformance.results.report import Report
from mxspec_lab.recordings.asking import judge
from mxspec_lab.recordings.recording import SUFFIX, Recording, read_recording
from mxspec_lab.recordings.replaying import ReplaySession

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
