"""What a kernel of this set is, and the right answers that it starts from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

import mxspec

Array = Any
Members = dict[Any, Any]
#: Options of `quantize`, with their defaults.
DEFAULTS: Members = {"tensor_scale": None, "axis": -1, "pad": False, "block": None, "random_bits": None}


@dataclass(frozen=True)
class Kernel:
    """A target; `make` returns what it offers, with no state of earlier ones."""

    name: str
    group: str
    story: str
    wrong: bool
    make: Callable[[], Members]

    def build(self) -> Any:
        return SimpleNamespace(**{"NAME": self.name, "VERSION": "1", **self.make()})


KERNELS: dict[str, Kernel] = {}


def enter(name: str, group: str, story: str, make: Callable[[], Members], *, wrong: bool = True) -> None:
    if name in KERNELS:
        raise ValueError(f"two kernels are named {name!r}")
    KERNELS[name] = Kernel(name, group, story, wrong, make)


def offers(group: str, story: str, *, wrong: bool = True) -> Callable[[Callable[[], Members]], Callable[[], Members]]:
    """Enter a function that makes what a target offers, under its name."""

    def note(make: Callable[[], Members]) -> Callable[[], Members]:
        enter(make.__name__.strip("_").replace("_", "-"), group, story, make, wrong=wrong)
        return make

    return note


def as_scale(value: Any) -> Any:
    return None if value is None else mxspec.TensorScale.from_float("amax", float(value))


def quantize(x: Array, fmt: str, **options: Any) -> tuple[Array, Array]:
    """Right codes and scales, the caller's own."""
    options["tensor_scale"] = as_scale(options.get("tensor_scale"))
    t = mxspec.quantize(x, fmt, **options)
    return np.array(t.codes), np.array(t.scales)


def dequantize(codes: Array, scales: Array, fmt: str, tensor_scale: Any = None) -> Array:
    return np.array(mxspec.dequantize(np.asarray(codes), np.asarray(scales), fmt, tensor_scale=as_scale(tensor_scale)))


def encode(x: Array, element: str, **options: Any) -> Array:
    return np.array(mxspec.encode(x, element, **options))


def encode_stochastic(x: Array, element: str, random_bits: Array) -> Array:
    return np.array(mxspec.encode(x, element, rounding="sr", random_bits=random_bits))


def tensor_scale(x: Array, fmt: str) -> Any:
    return mxspec.tensor_scale(x, fmt).value


def with_options(function: Callable[..., Any], *options: str, positional: Iterable[str] = ("x", "fmt")) -> Callable[..., Any]:
    """The function with a signature that names these options alone."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [inspect.Parameter(p, kind) for p in positional]
    default = {**DEFAULTS, "rounding": "rne", "overflow": "saturate"}
    shown += [inspect.Parameter(o, kind, default=default[o]) for o in options]

    def called(*args: Any, **given: Any) -> Any:
        return function(*args, **given)

    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return called


@dataclass
class Call:
    """One call of `quantize` and its right answer, which may be changed in place."""

    x: Array
    fmt: str
    options: Members
    codes: Array
    scales: Array
    #: What the target remembers.
    kept: Members = field(default_factory=dict)

    @property
    def k(self) -> int:
        return 16 if self.fmt == "nvfp4" else 32

    @property
    def rows(self) -> int:
        return int(self.x.shape[0])

    @property
    def columns(self) -> int:
        return int(self.x.shape[1])

    @property
    def along_rows(self) -> bool:
        """Whether blocks are those of the rows, one number high."""
        return self.options.get("axis", -1) in (-1, 1) and self.options.get("block") in (None, (1, self.k))

    @property
    def blocks(self) -> Array:
        """The numbers as float32 [blocks, k]; only where rows are whole blocks."""
        return np.ascontiguousarray(self.x).astype(np.float32).reshape(-1, self.k)

    @property
    def whole(self) -> bool:
        return self.along_rows and self.columns % self.k == 0 and self.x.size > 0

    def spoil(self, where: Any = -1) -> None:
        """One block loses its scale and a code."""
        self.codes.reshape(-1, self.k)[where, -1] ^= 1
        self.scales.reshape(-1)[where] ^= 1


def quantizer(change: Callable[[Call], Any], formats: Iterable[str] = ("mxfp4",), *options: str, **members: Any) -> Callable[[], Members]:
    """Makes a target whose `quantize` is right but for `change`, which alters a call's answer, or returns another."""

    def make() -> Members:
        kept: Members = {}

        def called(x: Array, fmt: str, **given: Any) -> Any:
            call = Call(x, fmt, given, *quantize(x, fmt, **given), kept)
            answer = change(call)
            return (call.codes, call.scales) if answer is None else answer

        return {"FORMATS": list(formats), "quantize": with_options(called, *options), **members}

    return make


def remembered(function: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose answers are kept by `key` of its arguments; callers get copies."""
    kept: dict[Any, Any] = {}

    def called(*args: Any, **given: Any) -> Any:
        name = key(*args, **given)
        if name not in kept:
            kept[name] = function(*args, **given)
        answer = kept[name]
        return (
            tuple(np.array(a) for a in answer)
            if isinstance(answer, tuple)
            else np.array(answer)
            if isinstance(answer, np.ndarray)
            else answer
        )

    return called


def read(a: Array) -> bytes:
    return np.ascontiguousarray(a).tobytes()


DTYPES = ["float32", "float16", "bfloat16"]
