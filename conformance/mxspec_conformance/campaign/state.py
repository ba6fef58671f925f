"""What a campaign has finished, in a file: one line of JSON for each piece, after one that says what the campaign is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mxspec_vectors.files import canonical_json, write_file
from mxspec_vectors.reading import NotJson, UnreadableFile, open_regular, parse_json

SCHEMA = "mxspec-campaign/2"
#: Bytes of a state file and of a line, and lines that may be broken before the file is taken for none.
MAX_STATE, MAX_LINE, MAX_BROKEN = 1 << 30, 64 << 20, 100

Result = dict[str, Any]


class StateError(ValueError):
    """A state file is of another campaign, or none. The message says what to do."""


def digest_identity(identity: Mapping[str, Any]) -> str:
    """16 hex digits that name a campaign."""
    return hashlib.sha256(canonical_json(identity).encode("ascii")).hexdigest()[:16]


class State:
    """Finished pieces by key. A key that is entered twice counts once."""

    def __init__(self, finished: dict[str, Result], file: IO[bytes] | None = None, path: Path | None = None) -> None:
        self.finished = finished
        #: Results that arrived although their key had one.
        self.repeated = 0
        self._file, self._path = file, path

    def enter(self, key: str, result: Result) -> bool:
        """Keep a piece's result; False where there is one already, which stays.

        Raises StateError where the file takes no more.
        """
        if key in self.finished:
            self.repeated += 1
            return False
        self.finished[key] = result
        # A call that had no answer is made again by the next run: the reason may have been this machine's.
        if self._file is not None and not result.get("no_answer"):
            try:
                self._file.write(_write_line(key, result))
                self._file.flush()
            except OSError as error:
                raise StateError(
                    f"{self._path}: {error.strerror}; what was finished before is kept, and the same command resumes from there"
                ) from None
        return True


@contextmanager
def open_state(path: Path | None, identity: Mapping[str, Any], *, fresh: bool = False) -> Iterator[State]:
    """The state of the campaign with this identity, kept in a file if one is named.

    A line that is not whole as it was written (the process was killed, somebody edited it) is dropped, and its piece is
    computed again. fresh: begin anew. Raises StateError where the file is of another campaign, or none.
    """
    if path is None:
        yield State({})
        return
    head = {"schema": SCHEMA, "campaign": digest_identity(identity), "identity": dict(identity)}
    finished: dict[str, Result] = {}
    kept = [_dump(head)]
    if not fresh and (path.exists() or path.is_symlink()):
        try:
            with open_regular(path, MAX_STATE) as file:
                finished, kept = _read(file, path, identity)
        except UnreadableFile as error:
            raise StateError(str(error)) from None
        except FileNotFoundError:
            pass
    write_file(path, b"".join(kept))
    with path.open("ab") as out:
        state = State(finished, out, path)
        try:
            yield state
        finally:
            with suppress(OSError):  # what could not be written has been reported
                out.close()


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii") + b"\n"


def _write_line(key: str, result: Result) -> bytes:
    return _dump({"key": key, "result": result, "sum": _sum(key, result)})


def _sum(key: str, result: Any) -> str:
    """What tells a line that was written here from any other."""
    return hashlib.sha256(canonical_json([key, result]).encode("ascii")).hexdigest()[:16]


def _read(file: IO[bytes], path: Path, identity: Mapping[str, Any]) -> tuple[dict[str, Result], list[bytes]]:
    """Finished pieces, and the lines that are whole, the head among them."""
    first = file.readline(MAX_LINE)
    head = _parse(first)
    if not (isinstance(head, dict) and head.get("schema") == SCHEMA and isinstance(head.get("identity"), dict)):
        raise StateError(f"{path} is not the state file of a campaign; name another file, or start over with --restart")
    if head.get("campaign") != digest_identity(identity):
        now = json.loads(canonical_json(identity))
        other = sorted(k for k in {*head["identity"], *now} if head["identity"].get(k) != now.get(k))
        raise StateError(
            f"{path} belongs to a campaign that differs in {', '.join(other) or 'its name'}; "
            "name another file, or start over with --restart"
        )
    finished: dict[str, Result] = {}
    kept, broken = [first], 0
    while line := file.readline(MAX_LINE):
        entry = _parse(line) if line.endswith(b"\n") else None
        if (
            not (isinstance(entry, dict) and set(entry) == {"key", "result", "sum"} and isinstance(entry["key"], str))
            or not isinstance(entry["result"], dict)
            or entry["sum"] != _sum(entry["key"], entry["result"])
        ):
            broken += 1
        elif entry["key"] not in finished:
            finished[entry["key"]] = entry["result"]
            kept.append(line)
        if broken > MAX_BROKEN:
            raise StateError(f"{path} has more than {MAX_BROKEN} lines that this command did not write; start over with --restart")
    return finished, kept


def _parse(line: bytes) -> Any:
    try:
        return parse_json(line)
    except NotJson:
        return None
