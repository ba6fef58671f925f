"""A session with a target: calls, their outcomes, and how many failures a function may cost."""

from __future__ import annotations

import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np

from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.errors import BadReturn, CallError, FailureKind, RemoteError, is_defect, is_raised
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.texts import MESSAGE, clean_name, clean_text

#: What a function may cost before it is given up, each a wait of up to `timeout` seconds or a new process: a function that
#: has never answered, and any function over the whole run.
MAX_UNANSWERED = {FailureKind.TIMEOUT: 3, FailureKind.CRASH: 16, FailureKind.GARBAGE: 16}
MAX_IN_ALL = {FailureKind.TIMEOUT: 12, FailureKind.CRASH: 64, FailureKind.GARBAGE: 64}
FAILURE_WORDS = {FailureKind.TIMEOUT: "time-outs", FailureKind.CRASH: "crashes", FailureKind.GARBAGE: "invalid replies"}


P = ParamSpec("P")
S = TypeVar("S")

#: Folders of installed packages.
_INSTALLED = frozenset({"site-packages", "dist-packages"})
#: The folder that holds this package.
_ROOT = Path(__file__).parents[2]
#: Seconds that all calls of a session may take where nothing else is said.
TOTAL_SECONDS = 4 * 3600.0


def start_limit(timeout: float) -> float:
    """Seconds that a target may take to start: an import may compile. Ten calls' time, and at least half a minute."""
    return max(10 * timeout, 30.0)


class FailureBudget:
    """Counts what each function has cost, and ends it when that is enough; ends everything when the time is up."""

    def __init__(self, total: float = TOTAL_SECONDS) -> None:
        self._total, self._left = total, total
        self._answered: set[str] = set()
        self._failed: Counter[tuple[str, FailureKind]] = Counter()
        self._last: dict[str, str] = {}

    def check(self, function: str) -> None:
        """Raises CallError where the function is given up, or the time of all calls is."""
        if self._left <= 0:
            raise CallError(FailureKind.TIMEOUT, f"the target was given up: all calls together may take {self._total:g} s", final=True)
        for kind, limit in (MAX_IN_ALL if function in self._answered else MAX_UNANSWERED).items():
            failed = self._failed[function, kind]
            if failed >= limit:
                raise CallError(kind, f"{function} was given up after {failed} {FAILURE_WORDS[kind]}: {self._last[function]}", final=True)

    def allow(self, timeout: float) -> float:
        """Seconds that the next call may take."""
        return max(min(timeout, self._left), 0.001)

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Within it a call is made, whose time counts."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._left -= time.monotonic() - started

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


def names_calls(call: Callable[Concatenate[S, str, P], Any]) -> Callable[Concatenate[S, str, P], Any]:
    """Make a session's `call` name the call in its errors: function, dtypes, shapes, and strides that are not C's."""

    @wraps(call)
    def named(self: S, function: str, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return call(self, function, *args, **kwargs)
        except CallError as error:
            error.call = error.call or _name_call(function, args, kwargs)
            raise

    return named


def _name_call(function: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    named = [*map(_name_value, args), *(f"{name}={_name_value(value)}" for name, value in kwargs.items())]
    return f"{function}({', '.join(named)})"


def _name_value(value: object) -> str:
    if isinstance(value, np.ndarray):
        dense = value.flags.c_contiguous
        return f"{value.dtype.name} {list(value.shape)}" + ("" if dense else f", strides {list(value.strides)} bytes")
    if isinstance(value, tuple) and value and isinstance(value[0], str) and _holds_arrays(value):  # an operand
        return f"{clean_name(value[0])} {list(next(part.shape for part in value if isinstance(part, np.ndarray)))}"
    simple = value is None or isinstance(value, (str, bool, int, float, tuple))
    return clean_name(repr(value)) if simple and not _holds_arrays(value) else type(value).__name__


def _holds_arrays(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, np.ndarray) or _holds_arrays(item) for item in value)


def run_call(marshaller: Marshaller, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of a loaded target to one call.

    Raises CallError for whatever else comes of it.
    """
    try:
        return marshaller.call(function, *args, **kwargs)
    except CallError:  # of a transport that talks to its target from here
        raise
    except BadReturn as error:
        raise CallError(FailureKind.BAD_RETURN, f"{error} (docs/targets.md, Functions)") from None
    except NotImplementedError as error:
        raise CallError(FailureKind.UNSUPPORTED, _text_of(error) or "not implemented") from None
    except RemoteError as error:
        raise CallError(FailureKind.ERROR, clean_text(str(error), 200), error.detail) from None
    except (Exception, SystemExit) as error:
        hint = _suggest_level(marshaller.capabilities, function, kwargs, error) or _suggest_arrays(marshaller.capabilities.arrays, error)
        raise CallError(
            FailureKind.ERROR, message_of(error).rstrip(".") + hint if hint else message_of(error), _frames_of(error), is_defect(error)
        ) from None


def _suggest_arrays(arrays: str, error: BaseException) -> str:
    """What to declare where a library, or an attribute of its arrays, met NumPy arrays; empty elsewhere.

    What the target raises by a statement of its own is a refusal.
    """
    library = next((name for name in ("torch", "cupy") if name in sys.modules), "")
    of_array = isinstance(error, AttributeError) and isinstance(error.obj, np.ndarray)
    of_library = type(error) is TypeError and not is_raised(error, besides=("torch", "cupy"))
    if arrays != "numpy" or not library or not (of_array or of_library):
        return ""
    return f'; the arguments are NumPy arrays: ARRAYS = "{library}" in the target makes them {library} arrays'


def _suggest_level(capabilities: Capabilities, function: str, kwargs: Mapping[str, Any], error: BaseException) -> str:
    """What to do with a tensor_scale that is None, where a library met None; empty elsewhere."""
    if "NoneType" not in _text_of(error) or kwargs.get("tensor_scale") is not None or not capabilities.has(function, "tensor_scale"):
        return ""
    return (
        "; tensor_scale is None in calls of one level: handle None, or give it no default if there are none (one_level in docs/targets.md)"
    )


def message_of(error: BaseException, limit: int = 200) -> str:
    """An exception in words, its type first, cut and clean; one without a text by its place. The target's exceptions are its own
    code, which may raise again."""
    name = clean_name(type(error).__name__)
    return f"{name}: {_text_of(error, limit) or _place_of(error, limit)}"


def describe_import(error: BaseException) -> str:
    """Why a target's code does not import, and where it failed."""
    place = _place_of(error, 200)
    return message_of(error, MESSAGE) + (f" ({place})" if place else "")


def _place_of(error: BaseException, limit: int) -> str:
    """The file and line of the target's own that raised, or called what did, and what stands there; of a package the last one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if _INSTALLED.isdisjoint(Path(f.filename).parts) and not Path(f.filename).is_relative_to(_ROOT)]
    return "".join(clean_text(f"{shorten_path(f.filename)}:{f.lineno}: {f.line}", limit) for f in (own or frames)[-1:])


def _text_of(error: BaseException, limit: int = MESSAGE) -> str:
    try:
        return clean_text(str(error), limit)
    except (Exception, SystemExit):
        return "its message cannot be read"


def _frames_of(error: BaseException) -> str:
    """The last two frames of the traceback."""
    try:
        frames = "".join(traceback.format_tb(error.__traceback__, limit=-2))
        return re.sub(r'(?<=^  File ")[^"]+', lambda found: shorten_path(found[0]), frames, flags=re.MULTILINE) + message_of(error)
    except (Exception, SystemExit):
        return message_of(error)


def shorten_path(path: str) -> str:
    """A source file without the folders of the machine, which a published result must not show.

    Installed packages and this one are named from the package on, what lies below the working folder from there on.
    """
    file = Path(path)
    if not _INSTALLED.isdisjoint(file.parts):
        return file.as_posix().rpartition("-packages/")[2]
    for root in (_ROOT, Path.cwd()):
        if file.is_relative_to(root):
            return file.relative_to(root).as_posix()
    return file.name
