"""A bundle of requests to run anywhere, and the file of replies to it as a target.

A bundle holds the lines that the judge would send to a process; a results file holds the lines that came back. Calls that
depend on earlier answers (a failing block made smaller, halves of a batch that failed) are not in the first bundle: the judge
writes them as a further one, and replies to it are appended to the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import IO, Any

from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import names_calls, run_call
from mxspec_conformance.targets.texts import clean_json
from mxspec_conformance.transports.description import PROTOCOL, describe_surroundings, find_reply_violation, read_description
from mxspec_conformance.transports.remote import RemoteModule
from mxspec_conformance.transports.wire import dump_line, parse_line, write_request
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import MAX_DOCUMENT, NotJson, UnreadableFile, open_regular, parse_json

#: Bytes of a results file, and of one of its lines.
MAX_RESULTS, MAX_LINE = 1 << 31, 1 << 28
#: (id, function, arguments).
Request = tuple[str, str, Mapping[str, Any]]


class ResultsFile:
    """Answers calls with recorded replies.

    Raises TargetError where the file is no results file, naming the line.
    """

    transport = "results-file"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        description, self._replies = _read_results(self._path)
        self.capabilities = read_description(description, str(path))
        self.environment = clean_json(describe_surroundings(description))
        #: Calls without an answer, for a further bundle.
        self.missing: list[Request] = []
        self._failed: dict[str, str] = {}
        self._marshaller = Marshaller(RemoteModule(self.capabilities, self._ask), self.capabilities)

    def _ask(self, identifier: str, function: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        reply = self._replies.get(identifier)
        if reply is None:
            self.missing.append((identifier, function, arguments))
            after = f"; of a larger call: {self._failed[function]}" if function in self._failed else ""
            raise CallError(
                FailureKind.MISSING, f"the results hold no answer to this call (--missing-calls FILE writes such calls){after}", final=True
            )
        if "error" in reply:
            self._failed[function] = reply["error"]["message"]
        return reply

    @names_calls
    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        return run_call(self._marshaller, function, args, kwargs)

    def close(self) -> None:
        """Nothing to free."""


def _read_results(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    try:
        with open_regular(path, MAX_RESULTS) as file:
            return _read_lines(file, path)
    except FileNotFoundError:
        raise TargetError(f"{path} does not exist; pass a results file: the replies to a bundle, one JSON line each") from None
    except UnreadableFile as error:
        raise TargetError(str(error)) from None
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}") from None


def _read_lines(file: IO[bytes], path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    description: dict[str, Any] | None = None
    replies: dict[str, dict[str, Any]] = {}
    for number in count(1):
        line = file.readline(MAX_LINE + 1)
        if not line:
            break
        place = f"{path}, line {number}"
        if len(line) > MAX_LINE:
            raise TargetError(f"{place} has more than {MAX_LINE} bytes; a reply has fewer")
        if not line.strip():
            continue
        try:
            document = parse_line(line)
        except ValueError as error:
            if number == 1 and _is_verdicts(line, file):
                raise TargetError(_VERDICTS.format(path)) from None
            if b"\r" in line.rstrip(b"\r\n"):
                raise TargetError(
                    f"{place} holds carriage returns (CR) alone; end each line with a line feed (LF), or with CR and LF"
                ) from None
            cut = "" if line.endswith(b"\n") else "; the file is cut short"
            raise TargetError(f"{place} is not JSON ({str(error).partition(': line')[0]}){cut}") from None
        if isinstance(document, dict) and "mxspec" in document:
            if description is not None and description != document:
                raise TargetError(f"{place} describes another target than before; keep the results of each apart")
            description = document
            continue
        violation = find_reply_violation(document)
        if violation is not None:
            if number == 1 and _is_result(document):
                raise TargetError(_VERDICTS.format(path))
            raise TargetError(f"{place} is no reply: {violation}")
        if description is None:
            raise TargetError(f"{place} comes before the reply to start, which describes the target")
        known = replies.setdefault(document["id"], document)
        if known != document:
            raise TargetError(f"{place} answers {document['id']} otherwise than an earlier line")
    if description is None:
        raise TargetError(f"{path} is empty; its first line is the reply to start")
    return description, replies


_VERDICTS = "{0} holds verdicts; `mxspec report {0} -o DIR` shows them"


def _is_verdicts(line: bytes, file: IO[bytes]) -> bool:
    """Whether the file, of which one line was read, is what `check --json` wrote."""
    if not line.lstrip().startswith((b"{", b"[")):
        return False
    try:
        return _is_result(parse_json(line + file.read(MAX_DOCUMENT)))
    except NotJson:
        return False


def _is_result(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and str(first.get("schema", "")).startswith("mxspec-result/")


def write_bundle(path: Path, requests: Iterable[Request], encoding: str = "base64") -> int:
    """Write requests, between start and stop, and return how many there are."""
    lines = [dump_line({"cmd": "start", "mxspec": PROTOCOL})]
    lines += [dump_line(write_request(*request, encoding)) for request in requests]
    lines.append(dump_line({"cmd": "stop"}))
    write_file(path, b"".join(lines))
    return len(lines) - 2
