"""Kernels that were written without a look into the judge: each has one plausible mistake, or is odd and right.

A row names the operation that a target offers, the axis on which its mistake lies, what is wrong, and calls that show it: they
are made of the kernel and of the model, whose answers differ. Right kernels agree with the model on the calls of their offer.
`python -m tests.corpora --set blind` judges them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

Function = Callable[..., Any]
BF16 = ml_dtypes.bfloat16


class Axis(StrEnum):
    """Where a mistake lies; its methods enter the kernels of a table."""

    SIZE = "size"
    MEMORY = "memory"
    HISTORY = "history"
    CONCURRENCY = "concurrency"
    CONTENT = "content"
    DTYPE = "dtype"
    OPTION = "option"
    ARITHMETIC = "arithmetic"
    ODD = "odd"  #: of right kernels: what looks wrong, and is not

    def row(
        self, id_: str, offer: Offer, what: str, show: Function | None, breaker: Callable[[Function], Function], **declared: object
    ) -> None:
        """A kernel that a function makes of each right one."""
        enter(id_, offer, self, what, show, lambda state, right: breaker(right), declared)

    def after(self, id_: str, offer: Offer, what: str, show: Function | None, edit: Function, **declared: object) -> None:
        """A kernel whose answers are edited: `edit(out, *arguments)` writes into a copy of them, or returns others."""

        def make(state: SimpleNamespace, right: Function) -> Function:
            def call(*args: Any, **options: Any) -> Any:
                out = copied(right(*args, **options))
                answer = edit(out, *args, **options)
                return answer if isinstance(answer, tuple | np.ndarray) else out

            return call

        enter(id_, offer, self, what, show, make, declared)

    def around(self, id_: str, offer: Offer, what: str, show: Function | None, kernel: Function, **declared: object) -> None:
        """A kernel that calls the right one itself: `kernel(state, right, *arguments)`."""
        enter(id_, offer, self, what, show, lambda state, right: lambda *args, **options: kernel(state, right, *args, **options), declared)


SIZE, MEMORY, HISTORY, CONCURRENCY, CONTENT, DTYPE, OPTION, ARITHMETIC, ODD = Axis


@dataclass(frozen=True)
class Offer:
    """What a target offers: right functions by their names in the interface, in the order in which calls get them.

    calls: of the first function, varied ones without NaN, on which right kernels agree with the model.
    """

    operation: str
    functions: Mapping[str, Function]
    declared: Mapping[str, object]
    calls: Sequence[Function] = ()

    def odd(self, id_: str, what: str, kernel: Function, show: Function | None = None, **declared: object) -> None:
        """Enter a right kernel that calls the model itself."""
        ODD.around(id_, self, what, show, kernel, **declared)


@dataclass(frozen=True)
class Kernel:
    """make: from a state, which the functions of a target share, and a right function to the kernel's.

    show: calls that show the mistake; of a right kernel None, or calls in place of its offer's.
    """

    id: str
    offer: Offer
    axis: Axis
    what: str
    show: Function | None
    make: Callable[[SimpleNamespace, Function], Function]
    declared: Mapping[str, object] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        return self.axis is not ODD

    def functions(self) -> dict[str, Function]:
        state = SimpleNamespace(lock=threading.Lock(), memo={}, count=0, home=threading.get_ident())
        return {name: wraps(right)(self.make(state, right)) for name, right in self.offer.functions.items()}

    def target(self) -> SimpleNamespace:
        """A new target: no kernel sees what another run did."""
        return SimpleNamespace(NAME=self.id, VERSION="1", **{**self.offer.declared, **self.declared, **self.functions()})


KERNELS: dict[str, Kernel] = {}


def enter(id_: str, offer: Offer, axis: Axis, what: str, show: Function | None, make: Function, declared: Mapping[str, object]) -> None:
    assert id_ not in KERNELS, id_
    KERNELS[id_] = Kernel(id_, offer, axis, what, show, make, declared)


def refuse(error: type[Exception] = ValueError) -> Any:
    raise error("this kernel does not take such a call")


def whole_bytes(*arrays: np.ndarray) -> Any:
    """A key that says everything."""
    return tuple(a.tobytes() for a in arrays)


def takes(function: Function, *names: str, **defaults: object) -> Function:
    """The same function with a signature, of which a target's keywords are read."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = Signature([Parameter(n, kind) for n in names] + [Parameter(n, kind, default=d) for n, d in defaults.items()])  # type: ignore[attr-defined]
    return function


def copied(value: Any) -> Any:
    """The same, sharing no memory: arrays, also in tuples and operands."""
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{name: copied(part) for name, part in vars(value).items()})
    return value.copy() if isinstance(value, np.ndarray) else value


def same(a: Any, b: Any) -> bool:
    """Whether two answers have equal numbers: NaN is NaN, and zeros of either sign are equal."""
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "fV":
        a, b = a.astype(np.float64), b.astype(np.float64)
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


# Arrays.
def draw(rows: int, k: int, seed: int = 1, dtype: Any = np.float32) -> np.ndarray:
    """Numbers of N(0, 1) times a power of two for each sixteen."""
    random = np.random.default_rng(seed)
    powers = np.exp2(random.integers(-4, 5, (rows, -(-k // 16)))).repeat(16, axis=1)[:, :k]
    return (random.standard_normal((rows, k)) * powers).astype(dtype)


def whole(high: int, *shape: int, seed: int = 1, low: int = 0) -> np.ndarray:
    """Whole numbers in uint8: codes, scales or metadata."""
    return np.random.default_rng(seed).integers(low, high, shape, dtype=np.uint8)


def put(x: np.ndarray, *entries: tuple[Any, Any]) -> np.ndarray:
    """The array itself, with entries written over."""
    for index, value in entries:
        x[index] = value
    return x


def write(x: np.ndarray, *entries: tuple[Any, Any]) -> None:
    put(x, *entries)


def pitched(x: np.ndarray) -> np.ndarray:
    """The same numbers as the left columns of a wider matrix."""
    wide = np.concatenate([x, x[..., ::-1]], axis=-1)
    return wide[..., : x.shape[-1]]


def shifted(x: np.ndarray) -> np.ndarray:
    """The same numbers at an address that is 4 beyond a multiple of 64."""
    raw = np.empty(x.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + 4
    return put(raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape), (..., x))


def backwards(x: np.ndarray) -> np.ndarray:
    """The same numbers, the last one first in memory."""
    return np.ascontiguousarray(x[..., ::-1])[..., ::-1]


# Calls that show a mistake.
def ask(*args: Any, **options: Any) -> Function:
    """One call, of copies in C's order."""
    return lambda f, *others: f(*copied(args), **{name: copied(value) for name, value in options.items()})


def as_is(*args: Any, **options: Any) -> Function:
    """One call of the arrays themselves: their memory is the point."""
    return lambda f, *others: f(*args, **options)


def second(call: Function) -> Function:
    """A call of the second function."""
    return lambda f, g, *others: call(g)


def then(*calls: Function) -> Function:
    """The last answer of some calls; those before may be refused."""

    def show(*functions: Function) -> Any:
        for call in calls[:-1]:
            with suppress(ValueError, TypeError):
                call(*functions)
        return calls[-1](*functions)

    return show


def overwritten(first: Sequence[Any], other: Sequence[Any], **options: Any) -> Function:
    """The answer of a call whose arrays held other numbers in the call before."""

    def show(f: Function, *others: Function) -> Any:
        args = copied(tuple(first))
        f(*args, **options)
        for mine, theirs in zip(list_arrays(args), list_arrays(other), strict=True):
            mine[...] = theirs
        return f(*args, **options)

    return show


def held(*calls: Function) -> Function:
    """What is left of the first answer after the other calls."""

    def show(*functions: Function) -> Any:
        answers = [call(*functions) for call in calls]
        return copied(answers[0])

    return show


def inputs_after(*args: Any, **options: Any) -> Function:
    """What a call leaves of its inputs."""

    def show(f: Function, *others: Function) -> Any:
        mine, given = copied(args), {name: copied(value) for name, value in options.items()}
        f(*mine, **given)
        return list(list_arrays((*mine, *given.values())))

    return show


def at_once(*calls: Function) -> Function:
    """All answers of calls from eight threads, thirty times."""

    def show(*functions: Function) -> Any:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda call: call(*functions), calls * 30))

    return show


def in_thread(call: Function) -> Function:
    return lambda *functions: ThreadPoolExecutor(1).submit(call, *functions).result()


# Mistakes that any operation can have.


def list_arrays(args: Sequence[Any]) -> Iterator[np.ndarray]:
    """The arrays among arguments, and those of operands."""
    for value in args:
        if isinstance(value, np.ndarray):
            yield value
        elif hasattr(value, "codes"):
            yield from list_arrays((value.codes, value.scales, value.values, value.offsets, value.metadata))


def memo(key: Function) -> Callable[[Function], Function]:
    """64 answers are kept under a key that says too little; shapes, dtypes, names and other options always belong to it."""

    def make(right: Function) -> Function:
        known: dict[Any, Any] = {}

        def call(*args: Any, **options: Any) -> Any:
            arrays = list(list_arrays((*args, *options.values())))
            rest = [str(a) for a in (*args, *options.values()) if not isinstance(a, np.ndarray) and not hasattr(a, "codes")]
            known_by = (key(*arrays), *((a.shape, str(a.dtype)) for a in arrays), *rest)
            if known_by not in known:
                while len(known) >= 64:
                    known.pop(next(iter(known)))
                known[known_by] = right(*args, **options)
            return copied(known[known_by])

        return call

    return make


def pointer(*arrays: np.ndarray) -> Any:
    return tuple((a.ctypes.data, a.strides) for a in arrays)


def sampled(step: int) -> Function:
    """Every byte at so many places from the one before."""
    return lambda *arrays: tuple(a.tobytes()[::step] for a in arrays)


def head(size: int) -> Function:
    """The first bytes."""
    return lambda *arrays: tuple(a.tobytes()[:size] for a in arrays)


def total(*arrays: np.ndarray) -> Any:
    """The sum of all bytes."""
    return tuple(int(np.frombuffer(a.tobytes(), np.uint8).sum(dtype=np.int64)) for a in arrays)


def first_only(*arrays: np.ndarray) -> Any:
    """All of the first array, nothing of the others."""
    return arrays[0].tobytes()


def ring(size: int, least: int = 0) -> Callable[[Function], Function]:
    """Answers of at least so many bytes lie in `size` buffers for each shape, which take turns."""

    def make(right: Function) -> Function:
        buffers: dict[Any, list[np.ndarray]] = {}
        turn = [0]

        def store(part: np.ndarray, place: int) -> np.ndarray:
            mine = buffers.setdefault((part.shape, str(part.dtype), place), [np.empty_like(part) for _ in range(size)])
            return part if part.nbytes < least else put(mine[turn[0] % size], (..., part))

        def call(*args: Any, **options: Any) -> Any:
            out = right(*args, **options)
            turn[0] += 1
            return tuple(store(part, i) for i, part in enumerate(out)) if isinstance(out, tuple) else store(out, 0)

        return call

    return make


def scratch(place: Function, lock: Function = lambda a: threading.get_ident(), index: int = 0) -> Callable[[Function], Function]:
    """An input is staged in memory that calls share where `place` is the same; calls of the same `lock` wait for each other."""

    def make(right: Function) -> Function:
        memory: dict[Any, np.ndarray] = {}
        locks: dict[Any, threading.Lock] = {}

        def call(*args: Any, **options: Any) -> Any:
            given = args[index]
            with locks.setdefault(lock(given), threading.Lock()):
                key = (place(given), str(given.dtype))
                if memory.setdefault(key, np.zeros(4096, given.dtype)).size < given.size:
                    memory[key] = np.zeros(given.size, given.dtype)
                mine = put(memory[key][: given.size].reshape(given.shape), (..., given))
                threading.Event().wait(2e-4)  # the device works, and other threads go on
                return copied(right(*args[:index], mine, *args[index + 1 :], **options))

        return call

    return make


def misread(change: Callable[[np.ndarray], np.ndarray], *places: int | str) -> Callable[[Function], Function]:
    """Arrays at these places and keywords are taken from memory as `change` has them."""

    def make(right: Function) -> Function:
        def call(*args: Any, **options: Any) -> Any:
            seen = {n: change(v) if n in places and v is not None else v for n, v in options.items()}
            return right(*(change(a) if i in places and a is not None else a for i, a in enumerate(args)), **seen)

        return call

    return make


def dense(a: np.ndarray) -> np.ndarray:
    """What lies behind the first number without gaps, where rows in fact have gaps."""
    if a.ndim < 2 or not a.size or a.strides[-1] != a.itemsize or a.strides[-2] <= a.shape[-1] * a.itemsize:
        return a
    return np.lib.stride_tricks.as_strided(a, strides=np.empty(a.shape, a.dtype).strides)


def forwards(a: np.ndarray) -> np.ndarray:
    """A stride below zero is taken without its sign."""
    return a[..., ::-1] if a.ndim and a.strides[-1] < 0 else a


def untransposed(a: np.ndarray) -> np.ndarray:
    """A square in Fortran's order is taken for one in C's."""
    square = a.ndim == 2 and a.shape[0] == a.shape[1] and a.flags.f_contiguous and not a.flags.c_contiguous
    return a.T if square else a


def forgets(option: str, when: Function) -> Function:
    """A kernel that leaves a keyword out where `when(*arguments)` holds."""

    def kernel(state: SimpleNamespace, right: Function, *args: Any, **given: Any) -> Any:
        return right(*args, **({n: v for n, v in given.items() if n != option} if when(*args) else given))

    return kernel


def switch(count: int, other: Callable[[Function], Function], by: Function = lambda *args: None) -> Callable[[Function], Function]:
    """After so many calls, counted by a key, another kernel is taken."""

    def make(right: Function) -> Function:
        seen: dict[Any, int] = {}
        later = other(right)

        def call(*args: Any, **options: Any) -> Any:
            key = by(*args)
            seen[key] = seen.get(key, 0) + 1
            return (right if seen[key] <= count else later)(*args, **options)

        return call

    return make


def shape_of(*args: Any) -> Any:
    return tuple(getattr(a, "shape", None) for a in args)
