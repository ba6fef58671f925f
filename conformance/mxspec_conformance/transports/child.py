"""Targets that run in a child process, whose crash or hang is a verdict and not ours."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from typing import Any

from mxspec_conformance.targets.capabilities import Capabilities, describe_target
from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import FailureBudget, describe_exit, run_call
from mxspec_conformance.targets.surroundings import describe_surroundings
from mxspec_conformance.transports.loading import load_target


def _serve(spec: str, path: list[str], pipe: Connection) -> None:
    """The child: load the target, then answer calls until the pipe closes."""
    sys.path[:] = path
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        module = load_target(spec)
        capabilities = describe_target(module, spec)
        environment = describe_surroundings(module, capabilities)
    except TargetError as error:
        pipe.send(("target-error", str(error), ""))
        return
    except BaseException as error:
        pipe.send(("target-error", f"{spec} does not import: {type(error).__name__}: {error}", ""))
        return
    pipe.send(("ok", (capabilities, environment), ""))
    marshaller = Marshaller(module, capabilities)
    while True:
        try:
            function, args, kwargs = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send(("ok", run_call(marshaller, function, args, kwargs), ""))
        except CallError as error:
            pipe.send((error.kind, str(error), error.detail))


class SubprocessSession:
    """Calls a target in a child process, restarted after a crash or a hang.

    Raises TargetError where the target does not load.
    """

    def __init__(
        self, spec: str, *, timeout: float = 60.0, start_timeout: float = 600.0, transport: str = "python-child"
    ) -> None:
        self.transport = transport
        self.environment: dict[str, Any] = {}
        self._spec, self._timeout, self._start_timeout = spec, timeout, start_timeout
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Any = None
        self._budget = FailureBudget()
        self.capabilities = self._start()

    def _start(self) -> Capabilities:
        self._pipe, child = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(self._spec, list(sys.path), child), daemon=True)
        self._process.start()
        child.close()
        if not self._pipe.poll(self._start_timeout):
            self.close()
            raise TargetError(f"{self._spec} did not load within {self._start_timeout:g} s")
        try:
            kind, value, _ = self._pipe.recv()
        except EOFError:
            code = self._exit_code()
            raise TargetError(f"{self._spec} ended the process while it was loaded ({describe_exit(code)})") from None
        if kind != "ok":
            self.close()
            raise TargetError(value)
        capabilities: Capabilities
        capabilities, self.environment = value
        return capabilities

    def _exit_code(self) -> int | None:
        self._process.join(5)
        code: int | None = self._process.exitcode
        return code

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        self._budget.check(function)
        try:
            if self._process is None:
                self._start()
            self._pipe.send((function, args, kwargs))
            if not self._pipe.poll(self._timeout):
                self.close()
                failure = CallError(FailureKind.TIMEOUT, f"no answer within {self._timeout:g} s")
                self._budget.fail(function, failure)
                raise failure
            kind, value, detail = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            code = self._exit_code()
            self.close()
            failure = CallError(FailureKind.CRASH, f"the process died ({describe_exit(code)})")
            self._budget.fail(function, failure)
            raise failure from None
        except TargetError as error:
            raise CallError(FailureKind.CRASH, f"after a failure the target did not start again: {error}", final=True) from None
        self._budget.succeed(function)
        if kind != "ok":
            raise CallError(kind, value, detail)
        return value

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.kill()
            self._process.join(5)
            self._pipe.close()
            self._process = None
