"""What was judged at the full level, kept instance by instance: hours of one core, of which a run that is stopped loses nothing.

A line of JSON for each instance. It is a scratch file: what it holds is as old as the judge that wrote it, and nothing says so; remove
it when the judge changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from mxspec_conformance.mutants.instance import Instance
from mxspec_lab.mutants.judging import Found
from mxspec_lab.mutants.level import Level, judge_level

#: Instances that are judged between two writes.
_AT_ONCE = 8


def read_kept(path: Path) -> Level:
    """The instances of a file, with their kills alone; none where there is no file. Lines that were cut short are passed over."""
    level = Level()
    if not path.exists():
        return level
    with path.open(encoding="ascii") as lines:
        for line in lines:
            with suppress(json.JSONDecodeError):
                row = json.loads(line)
                level.found[row["name"]] = Found({(kind, fmt, label): topic for kind, fmt, label, topic in row["kills"]})
    return level


def append_kept(path: Path, level: Level) -> None:
    """Add the instances of a level to a file, on lines of their own whatever was written last."""
    rows = [{"name": name, "kills": [[*label, topic] for label, topic in found.kills.items()]} for name, found in level.found.items()]
    with path.open("a", encoding="ascii") as out:
        out.writelines(f"\n{json.dumps(row)}\n" for row in rows)


def judge_kept(instances: Sequence[Instance], path: Path, progress: Callable[[str], None] = lambda _: None, jobs: int | None = None) -> Level:
    """Instances at the full level; those that the file has are not judged again."""
    level = read_kept(path)
    missing = [i for i in instances if i.name not in level.found]
    for start in range(0, len(missing), _AT_ONCE):
        judged = judge_level(missing[start : start + _AT_ONCE], jobs=jobs, progress=progress)
        append_kept(path, judged)
        level.found |= judged.found
        progress(f"{start + len(judged.found)} of {len(missing)} that were missing")
    return level
