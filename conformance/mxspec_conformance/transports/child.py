"""Targets that run in a child process, whose crash or hang is a verdict and not ours."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from typing import Any

from mxspec_conformance.targets.answers import is_answer
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.declared import read_capabilities
from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.sessions import TOTAL_SECONDS, FailureBudget, describe_exit, names_calls, start_limit
from mxspec_conformance.targets.texts import DETAIL, clean_json, clean_text
from mxspec_conformance.transports.frames import FrameError, WireClosed, WireTimeout, has_unread, read_frame, write_frame
from mxspec_conformance.transports.launching import Launched, launch_server
from mxspec_conformance.transports.serving import LOST, OK, TARGET_ERROR

#: The outcomes of a call that a reply may state.
_FAILED = {FailureKind.ERROR.value, FailureKind.BAD_RETURN.value, FailureKind.UNSUPPORTED.value, FailureKind.CRASH.value,
           FailureKind.TIMEOUT.value, FailureKind.GARBAGE.value}  # fmt: skip


class SubprocessSession:
    """Calls a target in a child process, restarted after a crash or a hang.

    timeout: seconds that one call may take, the import of the target `start_timeout`, and all together `total`.
    Raises TargetError where the target does not load.
    """

    def __init__(
        self, spec: str, *, timeout: float = 60.0, start_timeout: float | None = None, total: float = TOTAL_SECONDS,
        transport: str = "python-child",
    ) -> None:  # fmt: skip
        self.transport = transport
        self.environment: dict[str, Any] = {}
        self._spec, self._timeout = spec, timeout
        self._start_timeout = start_limit(timeout) if start_timeout is None else start_timeout
        self._process: Launched | None = None
        self._wire: socket.socket | None = None
        self._budget = FailureBudget(total)
        #: Why the target did not start again; it is not tried twice.
        self._lost = ""
        self.capabilities = self._start()

    def _start(self) -> Capabilities:
        try:
            self._process, self._wire = launch_server()
        except OSError as error:
            raise TargetError(f"no process can be started for {self._spec}: {error}") from None
        try:
            kind, value = self._exchange(self._spec, self._start_timeout)
            if kind == TARGET_ERROR:
                raise TargetError(value[0] if _is_failure(value) else "the target does not load")
            if kind != OK or not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict)):
                raise FrameError("it does not say what the target is")
            capabilities = read_capabilities(value[0], self._spec)
            self.environment = clean_json(value[1])
        except WireTimeout:
            raise self._failed_start(f"{self._spec} did not load within {self._start_timeout:g} s") from None
        except WireClosed:
            code = describe_exit(self._process.wait(5))
            raise self._failed_start(f"{self._spec} ended the process while it was loaded ({code})") from None
        except FrameError as error:
            raise self._failed_start(f"{self._spec} corrupted the judge's protocol stream while it was loaded: {error}") from None
        except BaseException:
            self.close()
            raise
        return capabilities

    def _failed_start(self, message: str) -> TargetError:
        self.close()
        return TargetError(message)

    def _exchange(self, value: Any, seconds: float) -> tuple[str, Any]:
        """Send one message and receive one. Its name is random, so that no reply to another call is taken for this one's."""
        assert self._wire is not None
        assert self._process is not None
        process, call = self._process, secrets.token_hex(8)
        deadline = time.monotonic() + seconds
        if has_unread(self._wire):
            raise FrameError("bytes came before any request")
        write_frame(self._wire, call, "call", value, seconds)
        named, kind, answer = read_frame(self._wire, deadline - time.monotonic(), lambda: process.poll() is None)
        if named != call:
            raise FrameError("it answers another call")
        return kind, answer

    @names_calls
    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        self._budget.check(function)
        with self._budget.spend():
            if self._process is None:
                self._restart()
            return self._ask(function, args, kwargs)

    def _ask(self, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seconds = self._budget.allow(self._timeout)
        try:
            kind, value = self._exchange((function, args, kwargs), seconds)
            if kind != OK and not (kind in (*_FAILED, LOST) and _is_failure(value)):
                raise FrameError(f"its kind is {kind[:20]!r}")
            if kind == OK and not is_answer(function, args, kwargs, value):
                raise FrameError(f"it is no answer to {function}")
        except WireTimeout as late:
            half = f"; {late.begun} bytes of a reply without its end had come" if late.begun else ""
            raise self._fail(function, FailureKind.TIMEOUT, f"no answer within {seconds:.3g} s{half}") from None
        except WireClosed:
            code = describe_exit(None if self._process is None else self._process.wait(5))
            raise self._fail(function, FailureKind.CRASH, f"the process died ({code})") from None
        except FrameError as error:
            message = f"the target wrote into the judge's wire: a message is none ({error})"
            raise self._fail(function, FailureKind.GARBAGE, message) from None
        except BaseException:  # Ctrl-C in the middle of a message
            self.close()
            raise
        if kind == LOST:
            lost = self._fail(function, FailureKind.CRASH, value[0])
            lost.detail = clean_text(value[1], DETAIL)
            raise lost
        self._budget.succeed(function)
        if kind != OK:
            raise CallError(FailureKind(kind), *value)
        return value

    def _restart(self) -> None:
        if not self._lost:
            try:
                self._start()
                return
            except TargetError as error:
                self._lost = f"after a failure the target did not start again: {error}"
        raise CallError(FailureKind.CRASH, self._lost, final=True)

    def _fail(self, function: str, kind: FailureKind, message: str) -> CallError:
        self.close()
        failure = CallError(kind, message)
        self._budget.fail(function, failure)
        return failure

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # what was built in part, at the end of the interpreter
            self.close()

    def close(self) -> None:
        """End the child, and whatever it started."""
        wire, process = self._wire, self._process
        self._wire = self._process = None
        if process is not None:
            process.kill()
        if wire is not None:
            wire.close()


def _is_failure(value: Any) -> bool:
    return isinstance(value, tuple) and tuple(map(type, value)) == (str, str, bool)
