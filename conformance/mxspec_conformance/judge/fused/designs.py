"""Inputs of fused quantizers, made from thresholds: numbers whose function falls next to a tie, or to a maximum at which the scale changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_table
from mxspec.formats import BlockFormat
from mxspec.fused.contracts import Contract
from mxspec.fused.evaluating import evaluate
from mxspec.fused.functions import LIMIT, FusedFunction, Kind
from mxspec.fused.legality import list_judged
from mxspec.stepfunctions import scale_steps
from mxspec_conformance.targets.dtypes import DTYPES

Array = npt.NDArray[Any]
#: Rows of a call; columns of a norm's; units, of whole blocks and Hadamard matrices, in a row of any other.
ROWS, NORM_COLUMNS, UNITS = 32, 256, 4
#: Blocks to further rows of a norm, whose columns are no power of two: a mean divides by their number. The first are whole vectors and tiles.
_NORM_BLOCKS = (24, 33)
#: Columns of one long row of a norm, which are whole blocks: more than any model has, and than a thread block holds at once.
_LONG_NORM = 16400
#: Pairs of numbers of which the nearest to their targets are taken; those in 16 bits rarely come near.
_CANDIDATES = 1 << 18
#: How far from a threshold results lie: on it, or where rounding to bfloat16 or to float16 moves them onto it.
_OFFSETS = (0.0, 0.0, 0.0, 2.0**-10, -(2.0**-10), 2.0**-13, -(2.0**-13))
#: The cases whose rows fill other calls: of every size, so that eps counts in some, and of zeros.
POOLED = ("N(0, 1), powers of two", "zeros")
#: The largest maximum of a designed block.
_TOP = 20.0


class Case(NamedTuple):
    """One call."""

    topic: str
    label: str
    #: Arrays [rows, columns] by name; the weight [columns].
    given: dict[str, Array]


class Design:
    """The cases of a function, a format and a dtype."""

    def __init__(self, function: FusedFunction, fmt: BlockFormat, dtype: str, columns: int = NORM_COLUMNS, rows: int = ROWS) -> None:
        self.function, self.fmt, self.dtype = function, fmt, dtype
        self.rng = np.random.default_rng(crc32(f"{function.kind} {function.size} {fmt.name} {dtype}".encode()))
        self.is_norm = function.kind is Kind.RMSNORM
        #: Columns that are answered by themselves; the shape of a case, and its blocks.
        self.unit = math.lcm(fmt.k, function.size, columns if self.is_norm else 1)
        self.shape = rows, self.unit * (1 if self.is_norm else UNITS)
        self.count = math.prod(self.shape) // fmt.k

    def fill(self, x: Any = 1.0, up: Any = 1.0, *, plus: Any = 0.0) -> dict[str, Array]:
        """Arrays of N(0, 1) times a factor each; plus: is added to x."""
        factors = {"x": x} | ({"up": up} if self.function.multiplies else {}) | ({"residual": x} if self.function.adds else {})
        given = {name: self.rng.normal(size=self.shape) * factor + (plus if name == "x" else 0) for name, factor in factors.items()}
        if self.is_norm:
            given["weight"] = self.rng.normal(size=self.shape[1]) / 4 + (not self.function.plus_one)
        return self.cast(given)

    def cast(self, given: dict[str, Array]) -> dict[str, Array]:
        """In the dtype of the calls; numbers that are in it already stay as they are."""
        with np.errstate(all="ignore"):
            return {name: np.asarray(array).astype(np.float32).astype(DTYPES[self.dtype]) for name, array in given.items()}

    def repeat(self, draw: Callable[[Any], Array]) -> Array:
        """A number for each unit."""
        return np.repeat(draw((ROWS, self.shape[1] // self.unit)), self.unit, axis=1)

    def spread(self, low: int, high: int) -> Array:
        """Powers of two, one to a unit."""
        return self.repeat(lambda shape: 2.0 ** self.rng.integers(low, high + 1, shape))


def list_cases(function: FusedFunction, fmt: BlockFormat, dtype: str) -> Iterator[Case]:
    """The calls of a function, the same ones every time."""
    design = Design(function, fmt, dtype)
    yield Case("mixture", "N(0, 1)", design.fill())
    yield Case("mixture", POOLED[0], design.fill(design.spread(-12, 3), design.spread(-12, 12)))
    for columns in (count * fmt.k for count in _NORM_BLOCKS if design.is_norm):
        yield Case("mixture", f"N(0, 1), {columns} columns", Design(function, fmt, dtype, columns).fill())
    if design.is_norm:
        columns = -(-_LONG_NORM // fmt.k) * fmt.k
        yield Case("call-size", f"N(0, 1), {columns} columns", Design(function, fmt, dtype, columns, rows=1).fill())
    yield Case(
        "overflow", "large numbers", design.fill(8000.0 if design.is_norm else 1000.0 if function.kind is Kind.HADAMARD else 40.0, 8.0)
    )
    # Where a tanh is next to -1, what it leaves of x shows the last bits of its argument.
    if lowest := {Kind.SILU: -30, Kind.SWIGLU_OAI: -30, Kind.GELU_TANH: -6}.get(function.kind):
        below = design.repeat(lambda shape: design.rng.uniform(lowest, -2, shape))
        yield Case("overflow", "gates far below zero", design.fill(0.2, plus=below))
    small = (-14, -8) if design.is_norm else (-75, -60) if function.multiplies else (-148, -128)
    yield Case("subnormal", "small numbers", design.fill(design.spread(*small), design.spread(-75, -60)))
    zeros = design.fill()
    for array in (array for name, array in zeros.items() if name != "weight"):
        array[::4], array[1::4], array[2::4, : design.shape[1] // 2] = 0, -0.0, 0
    zeros["x"][3::4, ::3] = 0
    yield Case("zero-block", POOLED[1], zeros)
    yield Case("position", "the maximum in each place", _place_largest(design))
    for topic, value in (("nan", np.nan), ("inf", np.inf)):
        for name in ("x", "up")[: 1 + function.multiplies]:
            given, rows = design.fill(), np.arange(0, ROWS, 2)
            given[name][rows, rows * 7 % design.shape[1]] = value
            yield Case(topic, f"{name} is {value} in one place of a row", given)
    if design.is_norm:
        given = design.fill(4.0)
        whole = {name: np.rint(array.astype(np.float32)) for name, array in given.items() if name != "weight"}
        yield Case("sum", "rows whose sum of squares is exact", design.cast(given | whole))
    else:
        yield Case("interval", "next to ties", _make_blocks(design, *_list_ties(design)))
        yield Case("scale-boundary", "maxima next to where the scale changes", _make_blocks(design, *_list_boundaries(design)))


def _place_largest(design: Design) -> dict[str, Array]:
    """One number of each block is the largest, in every lane with either sign."""
    given, k, blocks = design.fill(0.1), design.fmt.k, np.arange(design.count)
    where, signed = blocks * k + blocks % k, np.where(blocks // k + blocks % 3 & 1, -6, 6)
    given["x"].reshape(-1)[where] = 3 if design.function.multiplies else signed
    if design.function.multiplies:
        given["up"].reshape(-1)[where] = signed
    return given


def _list_ties(design: Design) -> tuple[Array, Array]:
    """For each block a maximum, and results next to the ties under the scale that follows."""
    element, shape, is_two_level = design.fmt.element, (design.count, design.fmt.k), design.fmt.has_tensor_scale
    fills = is_two_level or design.fmt.scale.bits > 8  # the largest number gets the largest code
    values = np.abs(decode_table(element).astype(np.float64)[: element.max_code + 1])
    # Within reach of every function; tensor scales of a call are 2.
    values *= 2.0 ** -int((values[-1] > _TOP * 2.0 ** np.arange(32)).sum()) * (2 if is_two_level else 1)
    ties, top = (values[1:] + values[:-1]) / 2, values[-1] * (1 if fills else 0.9)
    return np.full(design.count, top), design.rng.choice(ties[ties < top], shape) * (1 + design.rng.choice(_OFFSETS, shape))


def _list_boundaries(design: Design) -> tuple[Array, Array]:
    """For each block a maximum next to one at which the scale changes, and small results."""
    if design.fmt.scale.bits > 8:  # float32 scales change everywhere
        near = design.rng.uniform(0.5, 8, design.count)
    else:
        steps = [scale_steps(p, design.fmt).starts for p in list_judged(design.fmt, with_tensor_scale=False)][:5]
        starts = np.unique(np.concatenate(steps)).astype(np.uint32).view(np.float32)
        near = starts[(starts >= 0.5) & (starts < 8)].astype(np.float64)
    targets = design.rng.choice(near, design.count) * (1 + design.rng.choice(_OFFSETS, design.count))
    return targets, np.abs(design.rng.normal(size=(design.count, design.fmt.k))) * 0.03 + 0.001


def _make_blocks(design: Design, largest: Array, targets: Array) -> dict[str, Array]:
    """Blocks with results near targets [blocks, k], of which one, in each block another, has the maximum."""
    function, blocks = design.function, np.arange(design.count)
    if function.kind is Kind.HADAMARD:  # two numbers: their sum and difference
        x = np.zeros((math.prod(design.shape) // function.size, function.size))
        rows = np.arange(len(x))
        x[:, 0] = np.resize(np.where(blocks % 2, largest, targets[:, 0]), len(x)) * (np.sqrt(function.size) if function.scaled else 1)
        x[rows, 1 + rows % (function.size - 1)] = x[:, 0] * design.rng.choice([0, 0, 0, 0, *2.0 ** np.arange(-14, -6)], len(x))
        return design.cast({"x": x.reshape(design.shape)})
    targets = targets.copy()
    targets[blocks, blocks % design.fmt.k] = largest
    return {name: array.reshape(design.shape) for name, array in _solve(design, targets.reshape(-1)).items()}


def _solve(design: Design, targets: Array) -> dict[str, Array]:
    """Inputs whose results are near targets, a few float32 steps from them; in 16 bits as near as some of many are."""
    function, rng = design.function, design.rng
    wanted = targets * (1 + rng.integers(-4, 5, targets.shape) * 2.0**-23)
    if not function.multiplies:
        low, high = np.full(targets.shape, 1e-4), np.full(targets.shape, 64.0)
        for _ in range(60):
            middle = (low + high) / 2
            below = evaluate(function, Contract(), {"x": middle.astype(np.float32)})[0].lo < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return design.cast({"x": low})
    shape = max(_CANDIDATES // targets.size, 4), targets.size
    gate = design.cast({"x": rng.uniform(0.3, 6.5, shape) * rng.choice([1, 1, 1, -0.3], shape)})["x"]
    one = float(function.kind is Kind.SWIGLU_OAI)
    factor = evaluate(function, Contract(), {"x": gate, "up": np.asarray(1.0 - one)})[0].lo
    with np.errstate(all="ignore"):
        up = design.cast({"up": wanted / factor - one})["up"]
        distance = np.abs(factor * (up.astype(np.float64) + one) / wanted - 1)
    distance[(np.abs(up.astype(np.float32)) > LIMIT) & bool(one)] = np.inf
    best = np.argmin(distance, axis=0), np.arange(targets.size)
    return {"x": gate[best], "up": up[best]}
