"""Where a target's code runs: in this process, or in a child whose crash or hang is a verdict and not ours."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any, Protocol

from mxspec_conformance.targets import BadReturn, Caller, Capabilities, TargetError, describe_target, load_target


class CallFailure(Exception):
    """One call did not give a usable answer."""

    def __init__(self, kind: str, message: str, detail: str = "", *, final: bool = False) -> None:
        super().__init__(message)
        #: `error`, `timeout`, `crash`, `bad-return` or `unsupported`.
        self.kind = kind
        self.detail = detail
        #: Whether calling the function again is of no use.
        self.final = final


#: What a function may cost before it is given up, each a wait of up to `timeout` seconds or a new process: a function that
#: has never answered, and any function over the whole run.
MAX_UNANSWERED = {"timeout": 3, "crash": 16}
MAX_IN_ALL = {"timeout": 12, "crash": 64}
WORDS = {"timeout": "time-outs", "crash": "crashes"}


class Executor(Protocol):
    """Calls a target."""

    capabilities: Capabilities
    road: str

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallFailure."""

    def close(self) -> None:
        """Free what the executor holds."""


def _run(caller: Caller, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, str]:
    """(kind, value or message, detail): what a call came to."""
    try:
        return "ok", caller.call(function, *args, **kwargs), ""
    except BadReturn as error:
        return "bad-return", str(error), ""
    except NotImplementedError as error:
        return "unsupported", str(error) or "not implemented", ""
    except (Exception, SystemExit) as error:
        frames = traceback.format_exception(error)
        return "error", f"{type(error).__name__}: {_words_of(error)}", "".join(frames[-3:])


def _words_of(error: BaseException) -> str:
    try:
        return str(error)[:200]
    except Exception:  # the target's exceptions are its own code too
        return "its message cannot be read"


class InProcess:
    """Calls a target that is loaded here. A crash or a hang of the target is the caller's too."""

    road = "python"

    def __init__(self, module: Any, spec: str) -> None:
        self.capabilities = describe_target(module, spec)
        self._caller = Caller(module, self.capabilities)

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallFailure."""
        kind, value, detail = _run(self._caller, function, args, kwargs)
        if kind != "ok":
            raise CallFailure(kind, value, detail)
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
    except TargetError as error:
        pipe.send(("target-error", str(error), ""))
        return
    except BaseException as error:
        pipe.send(("target-error", f"{spec} does not import: {type(error).__name__}: {error}", ""))
        return
    pipe.send(("ok", capabilities, ""))
    caller = Caller(module, capabilities)
    while True:
        try:
            function, args, kwargs = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_run(caller, function, args, kwargs))


class ChildProcess:
    """Calls a target in a child process, restarted after a crash or a hang.

    Raises TargetError where the target does not load.
    """

    road = "python-child"

    def __init__(self, spec: str, *, timeout: float = 60.0, start_timeout: float = 600.0) -> None:
        self._spec, self._timeout, self._start_timeout = spec, timeout, start_timeout
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Any = None
        self._answered: set[str] = set()
        self._failed: Counter[tuple[str, str]] = Counter()
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
            raise TargetError(f"{self._spec} ended the process while it was loaded (exit code {code})") from None
        if kind != "ok":
            self.close()
            raise TargetError(value)
        capabilities: Capabilities = value
        return capabilities

    def _exit_code(self) -> int | None:
        self._process.join(5)
        code: int | None = self._process.exitcode
        return code

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallFailure."""
        for kind, words in WORDS.items():
            failed = self._failed[function, kind]
            if failed >= (MAX_IN_ALL if function in self._answered else MAX_UNANSWERED)[kind]:
                raise CallFailure(kind, f"{function} was given up after {failed} {words}", final=True)
        try:
            if self._process is None:
                self._start()
            self._pipe.send((function, args, kwargs))
            if not self._pipe.poll(self._timeout):
                self.close()
                self._failed[function, "timeout"] += 1
                raise CallFailure("timeout", f"no answer within {self._timeout:g} s")
            kind, value, detail = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            code = self._exit_code()
            self.close()
            self._failed[function, "crash"] += 1
            raise CallFailure("crash", f"the process died (exit code {code})") from None
        except TargetError as error:
            raise CallFailure("crash", f"after a failure the target did not start again: {error}", final=True) from None
        self._answered.add(function)
        if kind != "ok":
            raise CallFailure(kind, value, detail)
        return value

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.kill()
            self._process.join(5)
            self._pipe.close()
            self._process = None


def open_target(target: Any, *, in_process: bool = False, timeout: float = 60.0) -> Executor:
    """An executor for a target: a spec string or a path (run in a child unless `in_process`), or an object (run here).

    Raises TargetError where it does not load.
    """
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    if isinstance(target, str):
        if in_process:
            return InProcess(load_target(target), target)
        return ChildProcess(target, timeout=timeout)
    return InProcess(target, str(getattr(target, "NAME", type(target).__name__)))
