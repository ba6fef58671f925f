"""A baseline: an earlier result, or a list of the ids that fail; compared with it only new failures make a run fail.

A list is a text file in the user's repository, one id a line, as test suites keep their expected failures. It knows no counts, so that
the quick and the full level share one. `full` after an id: it fails at the full level alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mxspec_conformance.results.report import FULL, GOOD, QUICK, Baseline, Report, Verdict, read_report
from mxspec_vectors.reading import UnreadableFile, read_json, read_regular

#: Bytes of a list of ids.
MAX_BYTES = 1 << 20
_ENTRY = re.compile(rf"\s*(?P<id>[^\s/#]+/[^\s/#]+/[^\s/#]+)(?:\s+(?P<level>{FULL}))?\s*(?:#.*)?")
_HEAD = (
    "# What fails today: a requirement a line. One that passes now makes the run fail: delete its line.\n"
    "# full after an id: it fails at the full level alone. mxspec check TARGET --write-baseline FILE renews the list.\n"
)


class BaselineError(ValueError):
    """A baseline cannot be read, or is one of another target."""


def read_baseline(path: Path) -> list[Report]:
    """The results of a file that `--json` wrote.

    Raises BaselineError for a file that holds none.
    """
    try:
        document = read_json(path)
        entries: Sequence[Mapping[str, Any]] = document if isinstance(document, list) else [document]
        return [read_report(entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BaselineError(f"{path} is no result of `mxspec check --json`: {str(error)[:200]}") from None


def apply_baseline(report: Report, earlier: Sequence[Report], path: Path) -> None:
    """Note in a report which of its failures its baseline had.

    A failure is known where the requirement failed before, in as many cases or more; over other vectors, or at another level
    (quick, full), where it failed.
    Raises BaselineError where no result is one of this target.
    """
    name = report.target["name"]
    before = next((r for r in earlier if r.target["name"] == name), None)
    if before is None:
        held = ", ".join(str(r.target["name"]) for r in earlier) or "none"
        raise BaselineError(f"{path} holds no result of {name}; it holds {held}: write one with `mxspec check {name} --json FILE`")
    same = (before.vectors, before.level) == (report.vectors, report.level)
    failed = {r.id: r for r in before.requirements if r.verdict not in GOOD}
    bad = [r for r in report.requirements if r.verdict not in GOOD]
    known = [r.id for r in bad if r.id in failed and (not same or r.failing <= failed[r.id].failing)]
    report.baseline = Baseline(
        version=str(before.target["version"]), vectors=before.vectors, known=known,
        new=[r.id for r in bad if r.id not in known], gone=sorted(set(failed) - {r.id for r in bad}),
        level="" if before.level == report.level else before.level,
    )  # fmt: skip


def read_list(path: Path) -> dict[str, str] | None:
    """Id -> the level at which alone it fails, or nothing, of a list of ids; None where the file is JSON.

    Raises BaselineError, naming the line, for what is neither.
    """
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8-sig")  # editors of Windows begin a file with U+FEFF
    except FileNotFoundError:
        raise BaselineError(f"{path} does not exist; `mxspec check TARGET --write-baseline {path}` writes one") from None
    except UnicodeDecodeError:
        raise BaselineError(f"{path} is neither a list of ids nor JSON") from None
    except UnreadableFile as error:
        raise BaselineError(str(error)) from None
    if text.lstrip()[:1] in ("{", "["):
        return None
    entries: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = _ENTRY.fullmatch(line)
        if found is not None:
            entries[found["id"]] = found["level"] or ""
        elif line.partition("#")[0].strip():
            raise BaselineError(
                f"{path}, line {number}: {line.strip()[:80]!r}; write an id such as quantize/mxfp4/tie-even, then full or nothing"
            )
    return entries


def apply_list(report: Report, entries: Mapping[str, str], *, partial: bool = False, file: str = "") -> None:
    """Note in a report which of its failures a list has; what the list has and passes becomes a stale waiver, which fails.

    partial: a part of the target was requested, so that ids which match nothing are no mistake; file: the list, for messages.
    """
    judged = {r.id: r for r in report.requirements if r.verdict is not Verdict.UNSUPPORTED}
    # With fewer cases what fails at the full level alone may pass, or not be there.
    due = {i for i, level in entries.items() if not (level == FULL and report.level == QUICK)}
    known = [i for i in entries if i in judged and judged[i].verdict is not Verdict.PASS]
    gone = [i for i in entries if i in due and i in judged and i not in known]
    new = [r.id for r in report.requirements if r.verdict not in GOOD and r.id not in known]
    for name in gone:
        judged[name].verdict, judged[name].note = (
            Verdict.STALE_WAIVER,
            f"passes, but the baseline {file or 'file'} lists it: delete the line",
        )
    unmatched = [] if partial else [i for i in entries if i in due and i not in judged]
    report.baseline = Baseline(version="", vectors="", known=known, new=new, gone=gone, unmatched=unmatched)


def list_unmatched(report: Report) -> list[str]:
    """For each id of a list that no judged requirement has a sentence, with the id that may have been meant."""
    known = {r.id: r.verdict is Verdict.UNSUPPORTED for r in report.requirements}
    sentences = []
    for name in () if report.baseline is None else report.baseline.unmatched:
        (meant,) = get_close_matches(name, known, n=1, cutoff=0.85) or [""]
        hint = f"; did you mean {meant}?" if meant else ""
        sentences.append(f"the baseline lists {name}, which {'is not judged' if name in known else f'matches nothing{hint}'}")
    return sentences


def render_list(report: Report, path: Path, *, partial: bool = False) -> str:
    """The list of a report's failures. Lines and comments of an earlier list stay where what they name still fails, was not
    judged by a run of a part, or fails at the full level alone in a quick run.

    Raises BaselineError where the file is there and is no list.
    """
    old = path.read_text("utf-8-sig") if path.exists() and read_list(path) is not None else ""
    if path.exists() and not old and path.stat().st_size:
        raise BaselineError(f"{path} is JSON, a result; name another file for the list of ids")
    failing = [r.id for r in report.requirements if report.counts_as_wrong(r)]
    judged = {r.id for r in report.requirements if r.verdict is not Verdict.UNSUPPORTED}
    lines, kept = [], set()
    for line in old.splitlines(keepends=True):
        entry = _ENTRY.fullmatch(line.rstrip("\n"))
        full = entry is not None and entry["level"] == FULL
        if entry is None or entry["id"] in failing or (partial and entry["id"] not in judged) or (full and report.level == QUICK):
            if full and entry is not None and report.level == QUICK and entry["id"] in failing:  # it fails at both
                line = re.sub(rf"(\s*\S+)\s+{FULL}\b", r"\1", line, count=1)
            lines.append(line if line.endswith("\n") else f"{line}\n")
            kept |= {entry["id"]} if entry is not None else set()
    mark = f" {FULL}" if report.level == FULL else ""
    return ((old and "".join(lines)) or _HEAD) + "".join(f"{i}{mark}\n" for i in failing if i not in kept)
