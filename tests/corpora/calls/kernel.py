"""A kernel around an engine: calls as data, and the hooks at which a bug, or another right way, is put in.

What a block is, and in which order blocks are read and written, is decided here; the engines know single blocks alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from tests.corpora.calls import layouts
from tests.corpora.calls.formats import BFLOAT16, BLOCKS, ELEMENTS, Array


class Engine(Protocol):
    """Answers for single blocks and numbers; `engine_tables` and `engine_bits` are two that share nothing."""

    name: str

    def amax(self, b: Array) -> Array: ...
    def encode(self, x: Array, element: str, rounding: str = "rne") -> Array: ...
    def decode(self, codes: Array, element: str) -> Array: ...
    def encode_stochastic(self, x: Array, element: str, words: Array) -> Array: ...
    def quantize(self, b: Array, amax: Array, fmt: str, profile: str, tmax: float | None) -> tuple[Array, Array]: ...
    def dequantize(self, codes: Array, scales: Array, fmt: str, tmax: float | None) -> Array: ...
    def tensor_scale(self, x: Array) -> float: ...


@dataclass(frozen=True)
class Call:
    """One call of a target's function."""

    function: str
    arrays: tuple[Any, ...]
    #: A format, an element or a layout.
    name: str
    #: Of what unpacking returns.
    shape: tuple[int, ...] = ()
    tensor_scale: float | None = None
    axis: int = -1
    pad: bool = False
    block: tuple[int, int] | None = None
    rounding: str = "rne"

    @property
    def x(self) -> Any:
        """The first array."""
        return self.arrays[0]


@dataclass(frozen=True)
class Grid:
    """The items of a call in their order: blocks of k numbers, or single numbers and bytes (k = 1)."""

    call: Call
    rows: int
    #: Items of a row.
    columns: int
    k: int

    @property
    def items(self) -> int:
        """All of them."""
        return self.rows * self.columns

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return self.columns * self.k


Answer = Any
Next = Callable[[Call], Answer]


def as_it_is(first: Any, *_: Any) -> Any:
    """A hook that changes nothing."""
    return first


def nothing(*_: Any) -> None:
    """A hook that finds nothing to do."""


def refuse_what_does_not_fit(call: Call) -> None:
    """TypeError or ValueError for calls that have no right answer."""
    x = np.asarray(call.x)
    if call.function in ("quantize", "encode", "encode_stochastic", "tensor_scale"):
        if x.dtype not in (np.float32, np.float16, BFLOAT16):
            raise TypeError(f"x is {x.dtype}; allowed are float32, float16 and bfloat16")
    elif x.dtype != np.uint8:
        raise TypeError(f"codes are {x.dtype}; uint8 is allowed")
    if call.function == "quantize":
        if not -x.ndim <= call.axis < x.ndim:
            raise ValueError(f"axis {call.axis} is none of the {x.ndim} that x has")
        k = BLOCKS[call.name].k
        if x.shape[call.axis] % k and not call.pad:
            raise ValueError(f"k = {x.shape[call.axis]} is not a multiple of the {k}-element block of {call.name}")
        if call.block is not None and any(n % 16 for n in x.shape) and not call.pad:
            raise ValueError(f"shape {x.shape} is not made of tiles of 16 x 16")
    if call.function == "dequantize":
        scales = np.asarray(call.arrays[1])
        wanted = (*x.shape[:-1], x.shape[-1] // BLOCKS[call.name].k)
        if scales.dtype != np.uint8 or scales.shape != wanted or x.shape[-1] % BLOCKS[call.name].k:
            raise ValueError(f"scales are {scales.dtype} {scales.shape}; uint8 {wanted} is right for codes {x.shape}")
    if call.function == "encode_stochastic" and np.size(call.arrays[1]) != x.size:
        raise ValueError(f"{np.size(call.arrays[1])} random words for {x.size} numbers")
    if call.function == "unswizzle":
        rows, columns = call.shape[-2:]
        wanted_bytes = int(np.prod(call.shape[:-2])) * layouts.up_to(rows, 128) * layouts.up_to(columns, 4)
        if x.size != wanted_bytes:
            raise ValueError(f"{x.size} bytes of tiles; {wanted_bytes} were expected")
    if call.function in ("dequantize", "decode"):
        bits = ELEMENTS[BLOCKS[call.name].element if call.name in BLOCKS else call.name].bits
        if bits < 8 and x.size and int(x.max()) >> bits:
            raise ValueError(f"code {int(x.max())} has more than {bits} bits")


@dataclass(frozen=True)
class Hooks:
    """Where a kernel can be changed. Each hook takes what is right first, and returns what is used."""

    #: (call, the rest of the kernel) -> answer.
    around: Callable[[Call, Next], Answer] = field(default=lambda call, right: right(call))
    #: call -> None, or raises.
    refuse: Callable[[Call], None] = refuse_what_does_not_fit
    #: (array as it was given, its number, call) -> array as it is read.
    load: Callable[[Any, int, Call], Any] = as_it_is
    #: (rows with blocks along the last axis [rows, n], call) -> whole blocks.
    fill: Callable[[Array, Call], Array] | None = None
    #: (numbers of items, grid) -> the items that are read in their places.
    read: Callable[[Array, Grid], Array] | None = None
    #: (blocks [n, k], grid) -> the numbers that are used.
    numbers: Callable[[Array, Grid], Array] = as_it_is
    #: (maxima [n], blocks, grid) -> maxima.
    amax: Callable[[Array, Array, Grid], Array] = as_it_is
    #: (maxima [rows, columns] after reduction over tiles, before it, grid) -> maxima.
    tile: Callable[[Array, Array, Grid], Array] = as_it_is
    #: (numbers of blocks, grid) -> the blocks whose scales are stored, or read, in their places.
    scale: Callable[[Array, Grid], Array] | None = None
    #: grid -> the items that are not written (True), or None.
    skip: Callable[[Grid], Array | None] = nothing
    #: (codes or values [n, k], grid) -> what is stored.
    output: Callable[[Array, Grid], Array] = as_it_is
    #: (the tensor scale, call) -> the one that is used.
    tensor_scale: Callable[[float | None, Call], float | None] = as_it_is
    #: (answer, call) -> what is returned.
    finish: Callable[[Any, Call], Any] = as_it_is


class Kernel:
    """A target's functions."""

    def __init__(self, engine: Engine, profile: str, hooks: Hooks | None = None) -> None:
        self.engine, self.profile, self.hooks = engine, profile, hooks or Hooks()

    def answer(self, call: Call) -> Answer:
        """What the target returns."""
        with np.errstate(all="ignore"):
            return self.hooks.around(call, self._answer)

    def _answer(self, call: Call) -> Answer:
        h = self.hooks
        h.refuse(call)
        arrays = tuple(np.asarray(h.load(a, i, call)) for i, a in enumerate(call.arrays))
        return h.finish(getattr(self, f"_{call.function}")(replace(call, arrays=arrays)), call)

    def _picked(self, choose: Callable[[Array, Grid], Array] | None, items: Array, grid: Grid) -> Array:
        """Items in the order in which the kernel takes them."""
        return items if choose is None else items[choose(np.arange(len(items)), grid)]

    def _written(self, items: Array, grid: Grid) -> Array:
        """Items as they are stored: what is not written is zero."""
        mask = self.hooks.skip(grid)
        return items if mask is None else np.where(mask.reshape(-1, *[1] * (items.ndim - 1)), items.dtype.type(0), items)

    def _tiled(self, amax: Array, grid: Grid) -> Array:
        """Maxima of tiles of 16 rows, for each row."""
        before = amax.reshape(grid.rows, grid.columns)
        tiles = before.reshape(grid.rows // 16, 16, grid.columns).max(axis=1)
        return self.hooks.tile(np.repeat(tiles, 16, axis=0), before, grid).reshape(-1)

    def _quantize(self, call: Call) -> tuple[Array, Array]:
        h, k = self.hooks, BLOCKS[call.name].k
        moved = np.moveaxis(call.x.astype(np.float32), call.axis, -1)
        lead = moved.shape[:-1]
        rows = moved.reshape(int(np.prod(lead)), moved.shape[-1])
        extra = -rows.shape[0] % 16 if call.block is not None else 0
        filled = np.pad(rows, ((0, extra), (0, -rows.shape[1] % k))) if h.fill is None else h.fill(rows, call)
        grid = Grid(call, filled.shape[0], filled.shape[1] // k, k)
        b = h.numbers(self._picked(h.read, filled.reshape(-1, k), grid), grid)
        amax = h.amax(self.engine.amax(b), b, grid)
        if call.block is not None:
            amax = self._tiled(amax, grid)
        tmax = h.tensor_scale(call.tensor_scale, call)
        codes, scales = self.engine.quantize(b, amax, call.name, self.profile, tmax)
        codes, scales = h.output(codes, grid), self._picked(h.scale, scales, grid)
        codes, scales = self._written(codes, grid), self._written(scales, grid)
        lead = (filled.shape[0],) if call.block is not None else lead
        shaped = (codes.reshape(*lead, filled.shape[1]), scales.reshape(*lead, grid.columns))
        first, second = (np.ascontiguousarray(np.moveaxis(a, -1, call.axis)) for a in shaped)
        return first, second

    def _dequantize(self, call: Call) -> Array:
        h, k = self.hooks, BLOCKS[call.name].k
        codes, scales = call.arrays
        grid = Grid(call, int(np.prod(scales.shape[:-1])), scales.shape[-1], k)
        c = self._picked(h.read, codes.reshape(-1, k), grid)
        s = self._picked(h.scale, scales.reshape(-1), grid)
        values = self.engine.dequantize(c, s, call.name, h.tensor_scale(call.tensor_scale, call))
        return np.ascontiguousarray(self._written(h.output(values, grid), grid).reshape(codes.shape))

    def _items(self, call: Call, answer: Callable[..., Array]) -> Array:
        """Functions on single numbers."""
        grid = Grid(call, 1, call.x.size, 1)
        flat = [self._picked(self.hooks.read, a.reshape(-1), grid) for a in call.arrays]
        found = self._written(self.hooks.output(answer(*flat), grid), grid)
        return np.ascontiguousarray(found.reshape(call.x.shape))

    def _encode(self, call: Call) -> Array:
        return self._items(call, lambda x: self.engine.encode(x.astype(np.float32), call.name, call.rounding))

    def _decode(self, call: Call) -> Array:
        return self._items(call, lambda codes: self.engine.decode(codes, call.name))

    def _encode_stochastic(self, call: Call) -> Array:
        return self._items(call, lambda x, w: self.engine.encode_stochastic(x.astype(np.float32), call.name, w))

    def _tensor_scale(self, call: Call) -> float:
        x = call.x.astype(np.float32).reshape(-1)
        grid = Grid(call, 1, x.size, 1)
        return self.engine.tensor_scale(self._written(self._picked(self.hooks.read, x, grid), grid))

    def _shifted(self, items: Array, shape: tuple[int, ...], call: Call) -> Array:
        """What layout functions read: rows and columns are those of the unpacked side."""
        grid = Grid(call, int(np.prod(shape[:-1])), shape[-1], 1)
        return self.hooks.output(self._written(self._picked(self.hooks.read, items.reshape(-1), grid), grid), grid)

    def _pack(self, call: Call) -> Array:
        return layouts.pack(self._shifted(call.x, call.x.shape, call).reshape(call.x.shape), call.name)

    def _unpack(self, call: Call) -> Array:
        codes = layouts.unpack(call.x.reshape(-1), call.name, call.shape)
        return self._shifted(codes, call.shape, call).reshape(call.shape)

    def _swizzle(self, call: Call) -> Array:
        return layouts.swizzle(self._shifted(call.x, call.x.shape, call).reshape(call.x.shape))

    def _unswizzle(self, call: Call) -> Array:
        return self._shifted(layouts.unswizzle(call.x, call.shape), call.shape, call).reshape(call.shape)


#: What the arguments of each function are called, arrays first.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "quantize": ("x", "fmt"), "dequantize": ("codes", "scales", "fmt"), "encode": ("x", "element"), "decode": ("codes", "element"),
    "encode_stochastic": ("x", "element", "random_bits"), "tensor_scale": ("x", "fmt"), "pack": ("codes", "layout"),
    "unpack": ("data", "layout", "shape"), "swizzle": ("scales", "layout"), "unswizzle": ("data", "layout", "shape"),
}  # fmt: skip


@dataclass(frozen=True)
class Offer:
    """What a target offers of the interface."""

    formats: tuple[str, ...] = ()
    functions: tuple[str, ...] = ("quantize",)
    #: Keywords of quantize: axis, pad, block; of quantize and dequantize: tensor_scale; of encode: rounding.
    options: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    elements: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    profile: str = "mx-floor"
    #: Limits that the target declares.
    shapes: tuple[tuple[str, int], ...] = ()

    def takes(self, function: str) -> tuple[str, ...]:
        """The options of a function."""
        own = {"quantize": ("axis", "pad", "block", "tensor_scale"), "dequantize": ("tensor_scale",), "encode": ("rounding",)}
        return tuple(o for o in own.get(function, ()) if o in self.options)


DEFAULTS = {"axis": -1, "pad": False, "block": None, "tensor_scale": None, "rounding": "rne"}


def make_call(function: str, given: dict[str, Any]) -> Call:
    """A call from its arguments by name."""
    names = ARGUMENTS[function]
    shape = tuple(given.pop("shape", ()))
    name = given.pop(next(n for n in names if n in ("fmt", "element", "layout")))
    return Call(function, tuple(given.pop(n) for n in names if n in given), str(name), shape, **given)


def make_function(function: str, options: tuple[str, ...], answer: Callable[[Call], Answer]) -> Any:
    """A function of the interface, with the signature that a target's author would write."""
    kinds = inspect.Parameter
    parameters = [kinds(n, kinds.POSITIONAL_OR_KEYWORD) for n in ARGUMENTS[function]]
    parameters += [kinds(o, kinds.POSITIONAL_OR_KEYWORD, default=DEFAULTS[o]) for o in options]
    signature = inspect.Signature(parameters)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        made = make_call(function, dict(bound.arguments))
        if made.rounding not in ("rne", "rtz"):
            raise NotImplementedError(f"rounding {made.rounding}")
        return answer(made)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__name__ = function
    return call


def make_target(name: str, offer: Offer, kernel: Kernel) -> SimpleNamespace:
    """A module-like object as `mxspec_conformance.check` takes it."""
    target = SimpleNamespace(NAME=name, VERSION="1", FORMATS=offer.formats, DTYPES=offer.dtypes, TENSOR_SCALE="amax")
    if offer.elements:
        target.ELEMENTS = offer.elements
    if offer.layouts:
        target.LAYOUTS = offer.layouts
    if offer.shapes:
        target.SHAPES = dict(offer.shapes)
    for function in offer.functions:
        setattr(target, function, make_function(function, offer.takes(function), kernel.answer))
    return target
