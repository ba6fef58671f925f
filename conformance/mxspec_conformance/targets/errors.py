"""What can go wrong with a target: it cannot be loaded, a call has no answer, an answer is none. And what goes wrong here."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dis import opmap
from pathlib import Path
from types import TracebackType

from mxspec.enums import StrEnum
from mxspec_conformance.targets.texts import DETAIL, clean_text


class FailureKind(StrEnum):
    """Why a call has no usable answer."""

    #: The target raised, or said that it failed.
    ERROR = "error"
    TIMEOUT = "timeout"
    #: The process that ran the target died.
    CRASH = "crash"
    #: A reply that the protocol does not have.
    GARBAGE = "garbage"
    #: An answer of another type, dtype or shape than the interface requires.
    BAD_RETURN = "bad-return"
    #: A file of results does not hold one.
    MISSING = "missing"
    #: A recording does not hold one: the call is newer than it.
    NOT_ASKED = "not-asked"
    #: The target says that it cannot do this.
    UNSUPPORTED = "unsupported"


#: What counts as a refusal; a malformed answer is none, nor is a crash.
REFUSALS = (FailureKind.ERROR, FailureKind.UNSUPPORTED)


#: What Python raises for a defect in the code. A refusal raises ValueError, TypeError,
#: RuntimeError, NotImplementedError, an assertion or an exception of its own.
_DEFECTS = (ZeroDivisionError, LookupError, AttributeError, NameError, StopIteration)


def is_defect(error: BaseException) -> bool:
    """Whether an exception says that code failed, and not that a call is refused. NumPy's AxisError is a ValueError, too."""
    return isinstance(error, _DEFECTS) and not isinstance(error, (ValueError, RuntimeError))


class TargetError(Exception):
    """A target cannot be loaded, or what it says of itself is wrong. The message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(clean_text(message))


class Refusal(ValueError):
    """Another process refused what it was given."""


class InternalError(Exception):
    """A defect of mxspec, not of a target or of what was given. The text is the exception and its last frames."""


#: Frames of an exception that are worth reporting.
_FRAMES = 12


def describe_error(error: BaseException) -> str:
    """An exception and its last frames, a line for each; paths begin at the package."""
    lines = [f"{type(error).__name__}: {error}".rstrip(": ")]
    for frame in traceback.extract_tb(error.__traceback__)[-_FRAMES:]:
        parts = Path(frame.filename).parts
        start = next((i for i, part in enumerate(parts) if part.startswith("mxspec")), len(parts) - 1)
        lines.append(f"  {'/'.join(parts[start:])}:{frame.lineno} in {frame.name}: {frame.line}")
    return "\n".join(lines)


def is_refusal(error: BaseException) -> bool:
    """Whether mxspec raised an exception for what it was given: it has a type of mxspec's own, or a `raise` of mxspec's raised it.

    What NumPy or Python raise within a computation has the same types, and is a defect.
    """
    last = _find_last(error)
    if _is_own(type(error).__module__) or last is None:
        return _is_own(type(error).__module__)
    return _is_own(last.tb_frame.f_globals.get("__name__", "")) and is_raised(error)


def is_raised(error: BaseException, besides: tuple[str, ...] = ()) -> bool:
    """Whether a `raise` raised an exception, and not what Python or a library in C does within an expression.

    besides: packages whose own statements do not count.
    """
    last = _find_last(error)
    if last is None or str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0] in besides:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == opmap["RAISE_VARARGS"]


def _find_last(error: BaseException) -> TracebackType | None:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last


def _is_own(module: str) -> bool:
    return module.startswith("mxspec")


@contextmanager
def own_errors() -> Iterator[None]:
    """Where arguments have been checked: from here on Python's own exceptions are a defect, also where mxspec's model raises them.

    Raises:
        InternalError: In place of such an exception.
    """
    try:
        yield
    except Exception as error:
        if _is_own(type(error).__module__) or isinstance(error, (OSError, MemoryError)):
            raise
        raise InternalError(describe_error(error)) from error


def without_frames(error: Exception) -> Exception:
    """What a process raises in place of an exception that is sent to another one: it loses the frames that show what it is."""
    if isinstance(error, (OSError, MemoryError)) or _is_own(type(error).__module__):
        return error
    return Refusal(str(error)) if is_refusal(error) else InternalError(describe_error(error))


class BadReturn(Exception):
    """A target returned something else than the interface requires."""


class RemoteError(Exception):
    """A target that is no Python object says that it failed."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class CallError(Exception):
    """One call did not give a usable answer."""

    def __init__(self, kind: FailureKind, message: str, detail: str = "", is_defect: bool = False, *, final: bool = False) -> None:
        super().__init__(clean_text(message))
        self.kind = FailureKind(kind)
        self.detail = clean_text(detail, DETAIL)
        #: Whether the target's code failed, where it did not refuse: `is_defect`.
        self.is_defect = is_defect
        #: Whether calling the function again is of no use.
        self.final = final
        #: The call in words: `sessions.names_calls`.
        self.call = ""
