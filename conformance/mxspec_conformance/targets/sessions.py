"""Where a target's code runs: in this process, or in a child whose crash or hang is a verdict and not ours."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any, Protocol, runtime_checkable

from mxspec_conformance.results.environment import describe_surroundings
from mxspec_conformance.targets.capabilities import (
    LIBRARY_SUFFIXES,
    BadReturn,
    Capabilities,
    RemoteError,
    TargetError,
    describe_target,
    load_target,
)
from mxspec_conformance.targets.marshalling import Marshaller


class CallError(Exception):
    """One call did not give a usable answer."""

    def __init__(self, kind: str, message: str, detail: str = "", *, final: bool = False) -> None:
        super().__init__(message)
        #: `error`, `timeout`, `crash`, `garbage`, `bad-return` or `unsupported`.
        self.kind = kind
        self.detail = detail
        #: Whether calling the function again is of no use.
        self.final = final


#: What a function may cost before it is given up, each a wait of up to `timeout` seconds or a new process: a function that
#: has never answered, and any function over the whole run.
MAX_UNANSWERED = {"timeout": 3, "crash": 16, "garbage": 16}
MAX_IN_ALL = {"timeout": 12, "crash": 64, "garbage": 64}
WORDS = {"timeout": "time-outs", "crash": "crashes", "garbage": "replies that were none"}


class FailureBudget:
    """Counts what each function has cost, and ends it when that is enough."""

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._failed: Counter[tuple[str, str]] = Counter()
        self._last: dict[str, str] = {}

    def check(self, function: str) -> None:
        """Raises CallError where the function is given up."""
        for kind, limit in (MAX_IN_ALL if function in self._answered else MAX_UNANSWERED).items():
            failed = self._failed[function, kind]
            if failed >= limit:
                raise CallError(
                    kind, f"{function} was given up after {failed} {WORDS[kind]}: {self._last[function]}", final=True
                )

    def fail(self, function: str, failure: CallError) -> None:
        """Count a time-out, a crash or garbage."""
        self._failed[function, failure.kind] += 1
        self._last[function] = str(failure)

    def succeed(self, function: str) -> None:
        """The function has answered."""
        self._answered.add(function)


def describe_exit(code: int | None) -> str:
    """An exit code in words, with the name of the signal where there was one."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"


@runtime_checkable
class TargetSession(Protocol):
    """Calls a target."""

    capabilities: Capabilities
    road: str

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""

    def close(self) -> None:
        """Free what the session holds."""


def run_call(marshaller: Marshaller, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, str]:
    """(kind, value or message, detail): what a call came to."""
    try:
        return "ok", marshaller.call(function, *args, **kwargs), ""
    except BadReturn as error:
        return "bad-return", str(error), ""
    except NotImplementedError as error:
        return "unsupported", str(error) or "not implemented", ""
    except CallError:  # of a road that talks to its target from here
        raise
    except RemoteError as error:
        return "error", str(error)[:200], error.detail
    except (Exception, SystemExit) as error:
        frames = traceback.format_exception(error, limit=-2, chain=False)
        return "error", f"{type(error).__name__}: {_words_of(error)}", "".join(frames[-3:])


def _words_of(error: BaseException) -> str:
    try:
        return str(error)[:200]
    except Exception:  # the target's exceptions are its own code too
        return "its message cannot be read"


class InProcessSession:
    """Calls a target that is loaded here. A crash or a hang of the target is the marshaller's too."""

    road = "python"

    def __init__(self, module: Any, spec: str, *, road: str | None = None) -> None:
        self.road = road or self.road
        self.capabilities = describe_target(module, spec)
        self.environment = describe_surroundings(module, self.capabilities)
        self._marshaller = Marshaller(module, self.capabilities)

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        kind, value, detail = run_call(self._marshaller, function, args, kwargs)
        if kind != "ok":
            raise CallError(kind, value, detail)
        return value

    def close(self) -> None:
        """Nothing to free."""


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
        pipe.send(run_call(marshaller, function, args, kwargs))


class SubprocessSession:
    """Calls a target in a child process, restarted after a crash or a hang.

    Raises TargetError where the target does not load.
    """

    def __init__(
        self, spec: str, *, timeout: float = 60.0, start_timeout: float = 600.0, road: str = "python-child"
    ) -> None:
        self.road = road
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
                failure = CallError("timeout", f"no answer within {self._timeout:g} s")
                self._budget.fail(function, failure)
                raise failure
            kind, value, detail = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            code = self._exit_code()
            self.close()
            failure = CallError("crash", f"the process died ({describe_exit(code)})")
            self._budget.fail(function, failure)
            raise failure from None
        except TargetError as error:
            raise CallError("crash", f"after a failure the target did not start again: {error}", final=True) from None
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


#: What a spec starts with that is a command line, and what names of results files end in.
COMMAND = "cmd:"
RESULTS_SUFFIXES = (".json", ".jsonl")


def open_target(target: Any, *, in_process: bool = False, timeout: float = 60.0) -> TargetSession:
    """An session for a target: a spec string or a path (run in a child unless `in_process`), or an object (run here).

    An session is taken as it is.
    A spec that starts with `cmd:` is a program, one that ends in `.json` or `.jsonl` a results file; these run nothing in
    this process.

    Raises TargetError where it does not load.
    """
    if isinstance(target, TargetSession):
        return target
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    if isinstance(target, str):
        if target.startswith(COMMAND):
            from mxspec_conformance.transports.process import ProcessTarget

            return ProcessTarget(target.removeprefix(COMMAND), timeout=timeout)
        if target.endswith(RESULTS_SUFFIXES):
            from mxspec_conformance.transports.recorded import ResultsFile

            return ResultsFile(target)
        if target.endswith(LIBRARY_SUFFIXES):
            if in_process:
                return InProcessSession(load_target(target), target, road="library")
            return SubprocessSession(target, timeout=timeout, road="library-child")
        if in_process:
            return InProcessSession(load_target(target), target)
        return SubprocessSession(target, timeout=timeout)
    return InProcessSession(target, str(getattr(target, "NAME", type(target).__name__)))
