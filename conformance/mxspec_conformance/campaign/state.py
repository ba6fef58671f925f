"""What a campaign has finished, in a file: one line of JSON for each piece, after one that says what the campaign is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from mxspec_vectors.files import canonical_json

SCHEMA = "mxspec-campaign/1"

Result = dict[str, Any]


class StateError(ValueError):
    """A state file is of another campaign, or none. The message says what to do."""


def digest_identity(identity: Mapping[str, Any]) -> str:
    """16 hex digits that name a campaign."""
    return hashlib.sha256(canonical_json(identity).encode("ascii")).hexdigest()[:16]


class State:
    """Finished pieces by key. A key that is entered twice counts once."""

    def __init__(self, finished: dict[str, Result], file: IO[bytes] | None = None) -> None:
        self.finished = finished
        #: Results that arrived although their key had one.
        self.repeated = 0
        self._file = file

    def enter(self, key: str, result: Result) -> bool:
        """Keep a piece's result; False where there is one already, which stays."""
        if key in self.finished:
            self.repeated += 1
            return False
        self.finished[key] = result
        # A call that had no answer is asked again by the next run: the reason may have been this machine's.
        if self._file is not None and not result.get("no_answer"):
            self._file.write(json.dumps({"key": key, "result": result}, separators=(",", ":")).encode("ascii") + b"\n")
            self._file.flush()
        return True


@contextmanager
def open_state(path: Path | None, identity: Mapping[str, Any], *, fresh: bool = False) -> Iterator[State]:
    """The state of the campaign with this identity, kept in a file if one is named.

    A last line that was cut short (the process was killed while it wrote) is dropped. fresh: begin anew.
    Raises StateError where the file is of another campaign.
    """
    if path is None:
        yield State({})
        return
    finished: dict[str, Result] = {}
    kept = b""
    if path.exists() and not fresh:
        finished, kept = _read(path, identity)
    head = {"schema": SCHEMA, "campaign": digest_identity(identity), "identity": dict(identity)}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(kept or json.dumps(head, separators=(",", ":")).encode("ascii") + b"\n")
    temporary.replace(path)
    with path.open("ab") as file:
        yield State(finished, file)


def _read(path: Path, identity: Mapping[str, Any]) -> tuple[dict[str, Result], bytes]:
    """Finished pieces, and the bytes of the lines that are whole."""
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    try:
        head = json.loads(lines[0])
        if head["schema"] != SCHEMA:
            raise ValueError
    except (IndexError, ValueError, KeyError, TypeError):
        raise StateError(
            f"{path} is not the state file of a campaign; name another file, or start over with --restart"
        ) from None
    if head["campaign"] != digest_identity(identity):
        now = json.loads(canonical_json(identity))
        other = sorted(k for k in {*head["identity"], *now} if head["identity"].get(k) != now.get(k))
        raise StateError(
            f"{path} belongs to a campaign that differs in {', '.join(other)}; "
            "name another file, or start over with --restart"
        )
    finished: dict[str, Result] = {}
    whole = lines[0]
    for line in lines[1:]:
        try:
            entry = json.loads(line)
            finished.setdefault(entry["key"], entry["result"])
        except (ValueError, KeyError, TypeError):
            break  # the line that was being written when the process ended
        if not line.endswith(b"\n"):
            break
        whole += line
    return finished, whole
