"""A session with a target: calls, what each came to, and how many failures a function may cost."""

from __future__ import annotations

import signal
import traceback
from collections import Counter
from typing import Any, Protocol, runtime_checkable

from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.errors import BadReturn, CallError, FailureKind, RemoteError
from mxspec_conformance.targets.marshalling import Marshaller

#: What a function may cost before it is given up, each a wait of up to `timeout` seconds or a new process: a function that
#: has never answered, and any function over the whole run.
MAX_UNANSWERED = {FailureKind.TIMEOUT: 3, FailureKind.CRASH: 16, FailureKind.GARBAGE: 16}
MAX_IN_ALL = {FailureKind.TIMEOUT: 12, FailureKind.CRASH: 64, FailureKind.GARBAGE: 64}
FAILURE_WORDS = {
    FailureKind.TIMEOUT: "time-outs",
    FailureKind.CRASH: "crashes",
    FailureKind.GARBAGE: "invalid replies",
}


class FailureBudget:
    """Counts what each function has cost, and ends it when that is enough."""

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._failed: Counter[tuple[str, FailureKind]] = Counter()
        self._last: dict[str, str] = {}

    def check(self, function: str) -> None:
        """Raises CallError where the function is given up."""
        for kind, limit in (MAX_IN_ALL if function in self._answered else MAX_UNANSWERED).items():
            failed = self._failed[function, kind]
            if failed >= limit:
                raise CallError(
                    kind, f"{function} was given up after {failed} {FAILURE_WORDS[kind]}: {self._last[function]}", final=True
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
    transport: str

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""

    def close(self) -> None:
        """Free what the session holds."""


def run_call(marshaller: Marshaller, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of a loaded target to one call.

    Raises CallError for whatever else comes of it.
    """
    try:
        return marshaller.call(function, *args, **kwargs)
    except CallError:  # of a transport that talks to its target from here
        raise
    except BadReturn as error:
        raise CallError(FailureKind.BAD_RETURN, str(error)) from None
    except NotImplementedError as error:
        raise CallError(FailureKind.UNSUPPORTED, str(error) or "not implemented") from None
    except RemoteError as error:
        raise CallError(FailureKind.ERROR, str(error)[:200], error.detail) from None
    except (Exception, SystemExit) as error:
        frames = traceback.format_exception(error, limit=-2, chain=False)
        message = f"{type(error).__name__}: {_message_of(error)}"
        raise CallError(FailureKind.ERROR, message, "".join(frames[-3:])) from None


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:200]
    except Exception:  # the target's exceptions are its own code too
        return "its message cannot be read"
