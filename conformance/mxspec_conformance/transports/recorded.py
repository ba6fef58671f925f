"""A bundle of requests to run anywhere, and the file of replies to it as a target.

A bundle holds the lines that the judge would send to a process; a results file holds the lines that came back. Calls that
depend on earlier answers (a failing block made smaller, halves of a batch that failed) are not in the first bundle: the judge
writes them as a further one, and replies to it are appended to the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import run_call
from mxspec_conformance.transports.description import (
    PROTOCOL,
    describe_surroundings,
    find_reply_violation,
    read_description,
)
from mxspec_conformance.transports.remote import RemoteModule
from mxspec_conformance.transports.wire import dump_line, parse_line, write_request
from mxspec_vectors.files import write_file

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
        self.environment = describe_surroundings(description)
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
                FailureKind.ERROR,
                f"the results hold no answer to this call (--missing-calls FILE writes such calls){after}",
                final=True,
            )
        if "error" in reply:
            self._failed[function] = reply["error"]["message"]
        return reply

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        return run_call(self._marshaller, function, args, kwargs)

    def close(self) -> None:
        """Nothing to free."""


def _read_results(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TargetError(
            f"{path} does not exist; pass a results file: the replies to a bundle, one JSON line each"
        ) from None
    description: dict[str, Any] | None = None
    replies: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            document = parse_line(line)
        except ValueError as error:
            if number == 1 and _is_verdicts(data):
                raise TargetError(f"{path} holds verdicts; `mxspec report {path} -o DIR` shows them") from None
            cut = "; the file is cut short" if not data.endswith(b"\n") and number == data.count(b"\n") + 1 else ""
            raise TargetError(f"{place} is not JSON ({str(error).partition(': line')[0]}){cut}") from None
        if isinstance(document, dict) and "mxspec" in document:
            if description is not None and description != document:
                raise TargetError(f"{place} describes another target than before; keep the results of each apart")
            description = document
            continue
        violation = find_reply_violation(document)
        if violation is not None:
            raise TargetError(f"{place} is no reply: {violation}")
        if description is None:
            raise TargetError(f"{place} comes before the reply to start, which describes the target")
        known = replies.setdefault(document["id"], document)
        if known != document:
            raise TargetError(f"{place} answers {document['id']} otherwise than an earlier line")
    if description is None:
        raise TargetError(f"{path} is empty; its first line is the reply to start")
    return description, replies


def _is_verdicts(data: bytes) -> bool:
    try:
        document = json.loads(data)
    except ValueError:
        return False
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and str(first.get("schema", "")).startswith("mxspec-result/")


def write_bundle(path: Path, requests: Iterable[Request], encoding: str = "base64") -> int:
    """Write requests, between start and stop, and return how many there are."""
    lines = [dump_line({"cmd": "start", "mxspec": PROTOCOL})]
    lines += [dump_line(write_request(*request, encoding)) for request in requests]
    lines.append(dump_line({"cmd": "stop"}))
    write_file(path, b"".join(lines))
    return len(lines) - 2
