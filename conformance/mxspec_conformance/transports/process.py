"""A program that answers JSON lines on stdout to JSON lines on stdin; whatever it does wrong is a verdict."""

from __future__ import annotations

import codecs
import contextlib
import os
import queue
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import TOTAL_SECONDS, FailureBudget, describe_exit, names_calls, run_call, start_limit
from mxspec_conformance.targets.texts import DETAIL, clean_json, clean_text
from mxspec_conformance.transports.description import (
    PROTOCOL,
    describe_surroundings,
    find_reply_violation,
    find_violation,
    read_description,
)
from mxspec_conformance.transports.launching import launch_program
from mxspec_conformance.transports.remote import RemoteModule
from mxspec_conformance.transports.wire import dump_line, parse_line, write_request

#: The longest line that is taken for a reply, and how many may wait: a program that writes more than was requested is not read on.
MAX_LINE = 1 << 28
MAX_UNASKED = 64
#: How much of a target's stderr is passed on, and how much of its end is kept to be quoted.
MAX_STDERR = 1 << 16
KEPT_STDERR = 4096


class Conversation:
    """One run of a program: lines out, lines in, stderr drained.

    Threads read and write, so that a program that neither reads nor writes cannot hang the judge.
    """

    def __init__(self, command: str, *, pass_stderr: bool = True) -> None:
        self._pass_stderr = pass_stderr
        try:
            self._launched = launch_program(
                split_command(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except (OSError, ValueError) as error:
            raise TargetError(f"{command!r} does not start: {error}") from error
        self._process = self._launched.process
        self._outgoing: queue.Queue[bytes | None] = queue.Queue()
        self._lines: queue.Queue[bytes] = queue.Queue()
        #: Bytes of a line that has begun; for the message of a failure.
        self._begun = 0
        self._stderr: deque[bytes] = deque()
        self._threads = [threading.Thread(target=f, daemon=True) for f in (self._write, self._read, self._drain)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (data := self._outgoing.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[self._process.stdin.write(view) :]
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        parts: list[bytes] = []
        with contextlib.suppress(OSError, ValueError):
            while data := self._process.stdout.read(1 << 20):
                head, *rest = data.split(b"\n")
                parts.append(head)
                for part in rest:
                    self._lines.put(b"".join(parts))
                    parts = [part]
                self._begun = sum(map(len, parts))
                if self._begun > MAX_LINE or self._lines.qsize() > MAX_UNASKED:
                    break
        # The end, marked by a line without one: never empty, as no line that ends is b"\n".
        self._lines.put(b"\n")

    def _drain(self) -> None:
        assert self._process.stderr is not None
        passed, decoder = 0, codecs.getincrementaldecoder("utf-8")("replace")
        with contextlib.suppress(OSError, ValueError):
            while data := self._process.stderr.read(4096):
                self._stderr.append(data)
                while len(self._stderr) > 1 and sum(map(len, self._stderr)) - len(self._stderr[0]) >= KEPT_STDERR:
                    self._stderr.popleft()
                if self._pass_stderr and passed < MAX_STDERR:
                    text = clean_text(decoder.decode(data[: MAX_STDERR - passed]), len(data))
                    passed += len(data)
                    sys.stderr.write(text if passed < MAX_STDERR else f"{text}\n[mxspec: the rest of stderr is dropped]\n")

    def stderr_tail(self) -> str:
        """The end of what the program has written to stderr."""
        return b"".join(list(self._stderr))[-KEPT_STDERR:].decode("utf-8", errors="replace")

    def send(self, document: Mapping[str, Any]) -> None:
        """Queue a line."""
        self._outgoing.put(dump_line(document))

    def receive(self, seconds: float, limit: float) -> Any:
        """The next line's JSON; seconds: how long to wait, of a limit that the failure's message names.

        Raises CallError: `timeout`, `crash` or `garbage`.
        """
        try:
            line = self._lines.get(timeout=max(seconds, 0))
        except queue.Empty:
            half = f"; {self._begun} bytes of a reply without its end had come" if self._begun else ""
            raise CallError(FailureKind.TIMEOUT, f"no answer within {limit:g} s{half}") from None
        if line == b"\n":
            if self._begun > MAX_LINE:
                raise CallError(FailureKind.GARBAGE, f"a line on stdout is longer than {MAX_LINE} bytes")
            raise CallError(FailureKind.CRASH, self._describe_end())
        try:
            return parse_line(line)
        except ValueError as error:
            shown = line[:60].decode("utf-8", errors="replace") + ("..." if len(line) > 60 else "")
            problem = str(error).partition(": line")[0]
            raise CallError(FailureKind.GARBAGE, f"a line on stdout is no reply: {shown!r} ({problem}); print notes to stderr") from None

    def _describe_end(self) -> str:
        if self._launched.wait(1) is None:
            return "it closed its stdout, and goes on"
        self._threads[2].join(1)  # the last words may still be on their way
        half = f" in the middle of a reply, after {self._begun} bytes of it" if self._begun else ""
        words = [w for w in self.stderr_tail().splitlines() if w.strip()]
        quoted = f"; its last words: {words[-1].strip()[:120]!r}" if words else ""
        return f"the process ended{half} ({describe_exit(self._process.poll())}){quoted}"

    def finish(self, seconds: float) -> int | None:
        """Ask the program to stop; its exit code, or None if it does not end in time (it is killed then)."""
        self.send({"cmd": "stop"})
        self._outgoing.put(None)
        try:
            return self._launched.wait(seconds)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the program at once."""
        self._launched.kill()
        self._outgoing.put(None)
        for thread in self._threads:
            thread.join(1)
        for pipe, thread in zip((self._process.stdin, self._process.stdout, self._process.stderr), self._threads, strict=True):
            # A process that escaped may hold a pipe open; its thread then ends with it.
            if pipe is not None and not thread.is_alive():
                with contextlib.suppress(OSError):
                    pipe.close()


#: What a time-out at the start most often means.
_UNFLUSHED = "; a reply that stays in the program's buffer is no reply: flush stdout after each line"


def split_command(command: str) -> list[str]:
    """A command line as program and arguments.

    Raises ValueError, saying what to do, for an empty one, for quotes without an end and for what is no program.
    """
    parts = shlex.split(command, posix=os.name != "nt")
    if not parts:
        raise ValueError("it names no program; write cmd:PROGRAM ARGUMENTS")
    if any("\0" in part for part in parts):
        raise ValueError("it holds a NUL")
    if shutil.which(parts[0]) is None:
        raise ValueError(f"there is no program {parts[0]!r} that can be run")
    return parts


#: After these nothing is known of what the program still says.
_ENDS_THE_PROGRAM = (FailureKind.TIMEOUT, FailureKind.CRASH, FailureKind.GARBAGE)


class ProcessTarget:
    """Calls a target that is a program; it is started again after a crash, a hang or garbage.

    timeout: seconds that one call may take, the start `start_timeout`, and all together `total`.
    Raises TargetError where it does not start, or describes itself wrongly.
    """

    transport = "process"

    def __init__(
        self, command: str, *, timeout: float = 60.0, start_timeout: float | None = None, total: float = TOTAL_SECONDS,
        pass_stderr: bool = True,
    ) -> None:  # fmt: skip
        self._command, self._timeout = command, timeout
        self._start_timeout = start_limit(timeout) if start_timeout is None else start_timeout
        self._pass_stderr = pass_stderr
        self._budget = FailureBudget(total)
        #: Why the program did not start again; it is not tried twice.
        self._lost = ""
        self._talk: Conversation | None = None
        self._deadline = self._seconds = 0.0
        document = self._start()
        try:
            self.capabilities = read_description(document, command)
        except TargetError:
            self._end()
            raise
        self.environment = clean_json(describe_surroundings(document))
        self._encoding = document.get("encoding", "base64")
        self._marshaller = Marshaller(RemoteModule(self.capabilities, self._ask), self.capabilities)

    def _start(self) -> dict[str, Any]:
        self._talk = Conversation(self._command, pass_stderr=self._pass_stderr)
        self._talk.send({"cmd": "start", "mxspec": PROTOCOL})
        try:
            document = self._talk.receive(self._start_timeout, self._start_timeout)
        except CallError as failure:
            self._end()
            hint = _UNFLUSHED if failure.kind is FailureKind.TIMEOUT else ""
            raise TargetError(f"{self._command!r} did not answer start: {failure}{hint}") from None
        except BaseException:
            self._end()
            raise
        violation = find_violation(document, "description")
        if violation is not None:
            self._end()
            raise TargetError(f"{self._command!r} describes itself wrongly: {violation}")
        description: dict[str, Any] = document
        return description

    def _ask(self, identifier: str, function: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._talk is not None
        request = write_request(identifier, function, arguments, self._encoding)
        violation = find_violation(request, "request")
        assert violation is None, violation
        self._talk.send(request)
        reply = self._talk.receive(self._deadline - time.monotonic(), self._seconds)
        violation = find_reply_violation(reply)
        if violation is not None:
            raise CallError(FailureKind.GARBAGE, f"a reply is not as the protocol says: {violation}")
        if reply.get("id") != identifier:
            raise CallError(FailureKind.GARBAGE, f"the reply is to {reply.get('id')!r}; the request was {identifier!r}")
        answer: Mapping[str, Any] = reply
        return answer

    @names_calls
    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        self._budget.check(function)
        with self._budget.spend():
            if self._talk is None:
                self._restart()
            return self._call(function, args, kwargs)

    def _call(self, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._seconds = self._budget.allow(self._timeout)
        self._deadline = time.monotonic() + self._seconds
        try:
            answer = run_call(self._marshaller, function, args, kwargs)
        except CallError as failure:
            if failure.kind in _ENDS_THE_PROGRAM:
                failure.detail = "" if self._talk is None else clean_text(self._talk.stderr_tail(), DETAIL)
                self._end()
                self._budget.fail(function, failure)
            else:
                self._budget.succeed(function)
            raise
        except BaseException:  # Ctrl-C: its reply may still come
            self._end()
            raise
        self._budget.succeed(function)
        return answer

    def _restart(self) -> None:
        if not self._lost:
            try:
                self._start()
                return
            except TargetError as error:
                self._lost = f"after a failure the target did not start again: {error}"
        raise CallError(FailureKind.CRASH, self._lost, final=True)

    def _end(self) -> None:
        if self._talk is not None:
            self._talk.kill()
            self._talk = None

    def close(self) -> None:
        """Ask the program to stop; end it where it does not."""
        if self._talk is not None:
            self._talk.finish(2.0)
            self._talk = None
