"""Waivers: failures that are known and accepted, each with a reason, a link and a date on which it ends.

A waiver that matches nothing, has expired, or covers what passes is a failure itself: the list cannot outlive its causes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mxspec_conformance.results.report import FULL, QUICK, Report, Requirement, Verdict, WaiverState
from mxspec_vectors.reading import UnreadableFile, read_regular

#: Verdicts that a waiver can excuse.
EXCUSABLE = (Verdict.FAIL, Verdict.DEVIATION, Verdict.ERROR, Verdict.TIMEOUT)

#: Days until a waiver ends that `render_waivers` makes.
DEFAULT_DAYS = 90

#: Bytes of a waiver file, and parts of a key or levels of brackets in it.
MAX_BYTES, MAX_DEPTH = 1 << 22, 50

_KEYS = ("id", "reason", "link", "expires", "version", "device", "failing")
_REQUIRED = _KEYS[:4]
#: What reason and link of a new waiver begin with, until somebody completes them.
_TODO = "TODO"
#: Unfinished entries that a message names.
NAMED = 5


class WaiverError(ValueError):
    """A waiver file is not what it has to be. The message names the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One entry of a waiver file."""

    #: A requirement id, or a glob of them.
    id: str
    reason: str
    link: str
    #: The last day on which it holds.
    expires: date
    #: Globs of the target's version and device; None: any.
    version: str | None = None
    device: str | None = None
    #: How many cases fail; None: any number.
    failing: int | None = None
    #: The level at which its file was written, quick or full; empty where the file does not say.
    level: str = ""

    @property
    def is_unfinished(self) -> bool:
        """Whether `--write-waivers` made it and nobody has completed it."""
        return any(text.lstrip().upper().startswith(_TODO) for text in (self.reason, self.link))

    def concerns_version(self, target: Mapping[str, Any]) -> bool:
        """Whether the target's version is meant."""
        return self.version is None or fnmatchcase(str(target.get("version", "")), self.version)

    def concerns(self, target: Mapping[str, Any], environment: Mapping[str, Any]) -> bool:
        """Whether the judged version and device are meant."""
        if not self.concerns_version(target):
            return False
        return self.device is None or fnmatchcase(str(environment.get("device", "")), self.device)


def read_waivers(path: Path) -> list[Waiver]:
    """The entries of a TOML file.

    Raises WaiverError naming the file, the entry and what is allowed.
    """
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8")
        _check_depth(text, path)
        document = _parse_toml(text, path)
    except UnreadableFile as error:
        raise WaiverError(str(error)) from None
    except FileNotFoundError:
        raise WaiverError(f"{path} does not exist; `mxspec check TARGET --write-waivers {path}` makes one") from None
    except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits
        if isinstance(error, WaiverError):
            raise
        raise WaiverError(f"{path} is not TOML: {error}") from None
    unknown = set(document) - {"waiver", "level"}
    if unknown:
        raise WaiverError(f"{path}: unknown table {sorted(unknown)[0]!r}; a waiver file holds level and [[waiver]] alone")
    level = document.get("level", "")
    if level not in ("", QUICK, FULL):
        raise WaiverError(f"{path}: level = {level!r}; write {QUICK!r} or {FULL!r}, or leave it out")
    entries = document.get("waiver", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise WaiverError(f"{path}: write [[waiver]] with two brackets: there can be several")
    waivers = [_read_entry(entry, f"{path}, waiver {number}", level) for number, entry in enumerate(entries, 1)]
    _check_finished(waivers, path)
    return waivers


#: Texts and comments, in which dots and brackets are no syntax.
_TEXTS = re.compile(r'"""(?:[^\\]|\\.)*?"""' + r"|'''.*?'''" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'|#[^\n]*", re.DOTALL)


def _parse_toml(text: str, path: Path) -> dict[str, Any]:
    """Raises WaiverError where Python has no reader of TOML."""
    if sys.version_info >= (3, 11):
        from tomllib import loads
    else:
        try:
            from tomli import loads
        except ModuleNotFoundError:
            raise WaiverError(f"{path} is TOML, which Python 3.10 cannot read; install tomli, or a newer Python") from None
    return loads(text)


def _check_depth(text: str, path: Path) -> None:
    """Raise WaiverError for keys of many parts and for deep nesting: reading them takes memory by the square of their number."""
    depth = 0
    for number, line in enumerate(_TEXTS.sub(lambda found: "\n" * found[0].count("\n"), text).splitlines(), 1):
        depth += line.count("[") + line.count("{") - line.count("]") - line.count("}")
        if line.count(".") > MAX_DEPTH or line.count("[") + line.count("{") > MAX_DEPTH or depth > MAX_DEPTH:
            raise WaiverError(f"{path}, line {number} is nested too deeply; a waiver file holds [[waiver]] alone")


def _check_finished(waivers: Sequence[Waiver], path: Path) -> None:
    """Raise WaiverError for what `render_waivers` made and nobody has completed: a failure without an explanation is not accepted."""
    unfinished = [w.id for w in waivers if w.is_unfinished]
    if unfinished:
        more = f" and {len(unfinished) - NAMED} more" if len(unfinished) > NAMED else ""
        raise WaiverError(
            f"{path}: {', '.join(unfinished[:NAMED])}{more} still {'say' if len(unfinished) > 1 else 'says'} {_TODO}; write in reason why "
            "the failure is accepted, and in link where that can be checked, or delete the entry"
        )


def _read_entry(entry: dict[str, Any], place: str, level: str) -> Waiver:
    for key in _REQUIRED:
        if key not in entry:
            raise WaiverError(f"{place} has no {key}; {', '.join(_REQUIRED)} are needed")
    for key, value in entry.items():
        if key not in _KEYS:
            raise WaiverError(f"{place}: unknown key {key!r}; allowed are {', '.join(_KEYS)}")
        if key == "expires":
            if type(value) is not date:
                raise WaiverError(f"{place}: expires = {value!r}; write a date without quotes, such as 2027-03-31")
        elif key == "failing":
            if type(value) is not int or value < 1:
                raise WaiverError(f"{place}: failing = {value!r}; write how many cases fail, 1 or more")
        elif not isinstance(value, str) or not value.strip():
            raise WaiverError(f"{place}: {key} = {value!r}; write a text that is not empty")
    return Waiver(**entry, level=level)


def apply_waivers(report: Report, waivers: Sequence[Waiver], *, today: date) -> None:
    """Change the verdicts of the requirements that waivers cover, and record what became of each waiver.

    A failing requirement under a valid waiver is `waived`; a passing one under any is a `stale waiver`. A waiver of another level
    (quick, full) holds by its id, and its count is not compared; a quick run does not make one of the full level stale.
    """
    for waiver in waivers:
        state, matched = _apply(report, waiver, today)
        report.waivers.append(
            {
                "id": waiver.id, "reason": waiver.reason, "link": waiver.link, "expires": waiver.expires.isoformat(),
                "state": state.value, "requirements": [r.id for r in matched],
                **({"level": waiver.level} if waiver.level not in ("", report.level) else {}),
            }
        )  # fmt: skip


def _apply(report: Report, waiver: Waiver, today: date) -> tuple[WaiverState, list[Requirement]]:
    if not waiver.concerns(report.target, report.environment):
        return WaiverState.ELSEWHERE, []
    other_level = waiver.level not in ("", report.level)
    fewer_cases = other_level and waiver.level == FULL
    judged = [r for r in report.requirements if r.verdict is not Verdict.UNSUPPORTED]
    matched = [r for r in judged if fnmatchcase(r.id, waiver.id)]
    if not matched:
        return WaiverState.OTHER_LEVEL if fewer_cases else WaiverState.UNMATCHED, []
    if today > waiver.expires:
        for r in matched:
            r.note = _join(r.note, f"the waiver ended on {waiver.expires}")
        return WaiverState.EXPIRED, matched
    excused = [r for r in matched if r.verdict in (*EXCUSABLE, Verdict.WAIVED, Verdict.OPEN)]
    failing = sum(r.failing for r in excused)
    if waiver.failing is not None and excused and failing != waiver.failing and not other_level:
        unsaid = "" if waiver.level else f"; the file does not say its level, this run is {report.level}"
        for r in excused:
            r.note = _join(r.note, f"{waiver.failing} failing cases are waived, {failing} fail{unsaid}")
        return WaiverState.OTHER_COUNT, matched
    for r in matched:
        if r.verdict is Verdict.PASS and not fewer_cases:
            r.verdict = Verdict.STALE_WAIVER
            r.note = "passes, but a waiver covers it: narrow or delete the waiver"
        elif r.verdict in EXCUSABLE:
            r.verdict = Verdict.WAIVED
            r.note = _join(r.note, waiver.reason)
    if fewer_cases and not excused:
        return WaiverState.OTHER_LEVEL, matched
    if len(excused) < len(matched) and not fewer_cases:
        return WaiverState.NOT_NEEDED, matched
    return WaiverState.USED, matched


def _join(note: str, more: str) -> str:
    return f"{note}; {more}" if note else more


def render_waivers(reports: Sequence[Report], *, today: date) -> str:
    """A waiver file for today's failures, to be completed with reasons and links."""
    expires = today + timedelta(days=DEFAULT_DAYS)
    blocks = [
        "# Known failures. Each needs a reason and a link that somebody can check; all end on a date.\n"
        "# A waiver that matches nothing, has expired, or covers what passes makes the run fail.\n"
        "# At another level (quick, full) waivers hold by id, and counts are not compared.\n"
    ]
    blocks += [f'level = "{reports[0].level}"\n'] * bool(reports)
    for report in reports:
        name, version = report.target["name"], report.target["version"]
        for r in report.requirements:
            if r.verdict not in EXCUSABLE:
                continue
            cases = f"{r.failing} of {r.cases} cases fail" + (f": {r.note}" if r.note else "")
            # A note may quote the target's own words, and a comment holds no control characters.
            comment = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", " ", f"# {name} {version}: {cases}")
            lines = [comment, "[[waiver]]"]
            for key, value in (("id", r.id), ("reason", f"{_TODO}: why this is accepted"), ("link", f"{_TODO}: an issue"), ("version", version)):  # fmt: skip
                lines.append(f"{key} = {_toml_text(value)}")
            lines += [f"failing = {r.failing}"] * bool(r.failing)
            lines += [f"expires = {expires.isoformat()}"]
            blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _toml_text(value: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, and DEL is escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
