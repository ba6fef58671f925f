"""What an entry of this set is, and how it is shown to be what it says: a script of calls, and what they give."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.corpora.calls.engine_bits import Bits
from tests.corpora.calls.engine_tables import Tables
from tests.corpora.calls.formats import Array
from tests.corpora.calls.kernel import ARGUMENTS, Engine, Hooks, Kernel, Offer, make_target

#: What a target raises where it does not take a call.
REFUSALS = (ValueError, TypeError, NotImplementedError)


@dataclass(frozen=True)
class Ask:
    """One call of a script."""

    function: str
    name: str
    #: Makes the arrays anew, with the strides that they have for the target.
    arrays: Callable[[], Sequence[Any]]
    options: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    #: The arrays of this earlier call of the script hold the new numbers.
    into: int | None = None
    #: Made so often; all answers count.
    times: int = 1


@dataclass(frozen=True)
class Script:
    """Calls of one target, one after the other, or each in a thread of its own."""

    asks: tuple[Ask, ...]
    #: How often the threads ask.
    rounds: int = 0


def script(*asks: Ask, rounds: int = 0) -> Script:
    """A script of calls."""
    return Script(asks, rounds)


@dataclass(frozen=True)
class Entry:
    """A bug or another right implementation."""

    id: str
    group: str
    story: str
    offer: Offer
    #: Fresh hooks for each target: state is theirs.
    hooks: Callable[[], Hooks]
    #: Of a bug: calls whose answers are not those of the right kernel. Of a right one: calls beyond the common ones.
    shows: Script | None = None
    right: bool = False
    #: Of a right one: it may refuse calls that others answer.
    refuses: bool = False

    @property
    def key(self) -> str:
        """group/id."""
        return f"{self.group}/{self.id}"

    def engine(self, other: bool = False) -> Engine:
        """One of the two engines, by the id; or the one that it is compared with."""
        number = hashlib.sha256(self.key.encode()).digest()[0] + other
        return Tables() if number % 2 else Bits()

    def build(self) -> Any:
        """The target."""
        return make_target(self.id, self.offer, Kernel(self.engine(), self.offer.profile, self.hooks()))

    def reference(self) -> Any:
        """The same target without the change, around the other engine."""
        return make_target("right", self.offer, Kernel(self.engine(other=True), self.offer.profile))


def _parts(answer: Any) -> list[Array]:
    members = answer if isinstance(answer, (tuple, list)) else [answer]
    return [np.asarray(a) for a in members]


def _digest(answer: Any) -> str:
    """Shapes and bits of an answer; any NaN is one NaN."""
    if isinstance(answer, str):
        return answer
    digest = hashlib.sha256()
    for part in _parts(answer):
        values = np.ascontiguousarray(part).reshape(part.shape)
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        digest.update(f"{values.dtype}{values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()[:16]


def _memory(arrays: Sequence[Any]) -> list[Any]:
    """The whole memory that arrays are views of: nothing around an input may change either."""
    owners: list[Any] = []
    for array in arrays:
        while isinstance(getattr(array, "base", None), np.ndarray):
            array = array.base
        owners.append(array)
    return owners


def call_target(target: Any, ask: Ask, arrays: Sequence[Any]) -> Any:
    """The answer, or the word for how it was refused."""
    given = dict(zip((n for n in ARGUMENTS[ask.function] if n not in ("fmt", "element", "layout", "shape")), arrays, strict=True))
    named = next(n for n in ARGUMENTS[ask.function] if n in ("fmt", "element", "layout"))
    shape = {"shape": ask.shape} if ask.shape else {}
    try:
        return getattr(target, ask.function)(**given, **{named: ask.name}, **shape, **ask.options)
    except REFUSALS:
        return "refused"
    except Exception as error:
        return f"raised {type(error).__name__}"


def _in_turn(target: Any, asks: tuple[Ask, ...]) -> list[str]:
    """What each call gives, read after all calls and after the inputs have been overwritten."""
    seen: list[Any] = []
    inputs: list[Sequence[Any]] = []
    for ask in asks:
        arrays = ask.arrays()
        if ask.into is not None:
            for old, new in zip(inputs[ask.into], arrays, strict=True):
                old[...] = new
            arrays = inputs[ask.into]
        inputs.append(arrays)
        before = _digest(_memory(arrays))
        for _ in range(ask.times - 1):
            seen.append(_digest(call_target(target, ask, arrays)))
        seen.append(call_target(target, ask, arrays))
        seen.append("input kept" if _digest(_memory(arrays)) == before else "input changed")
    for array in (a for arrays in inputs for a in arrays if isinstance(a, np.ndarray) and a.flags.writeable):
        array[...] = 0x15
    return [_digest(s) for s in seen]


def _at_once(target: Any, asks: tuple[Ask, ...], rounds: int) -> list[str]:
    """The different answers that each thread saw."""
    barrier = threading.Barrier(len(asks))
    answers: list[set[str]] = [set() for _ in asks]

    def work(number: int) -> None:
        ask = asks[number]
        for _ in range(rounds):
            arrays = ask.arrays()
            barrier.wait()
            with np.errstate(all="ignore"):
                answers[number].add(_digest(call_target(target, ask, arrays)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(asks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return [" ".join(sorted(a)) for a in answers]


def observe(target: Any, asked: Script) -> list[str]:
    """What a script gives, comparable between targets."""
    return _at_once(target, asked.asks, asked.rounds) if asked.rounds else _in_turn(target, asked.asks)
