"""Step functions of float32 patterns: the few places where an encoder or a scale rule changes, which are all of it.

An encoder of single numbers, the scale byte of a block's maximum, and the code of an element under one scale take few
values on very many patterns. The patterns at which the answer changes, found by bisection with a model of this package,
are therefore the function's complete compute: at most a few hundred starts and values in place of 2**32 codes, and they
expand at the speed of memory.

`find_steps` is the one search. Its premise is that a function is monotone between the points of the grid that it is
given: a correctly rounded quotient or product, a rounded logarithm and a rounding to a code are, within a binade and
away from the constants that an expression compares with, so `GRID` and `rule_grid` hold both; an exponent byte that
wraps does so by 256, which no binade holds. Then equal ends mean a constant answer. The premise is checked at the quarter
points of each step found, which notices two changes that cancel unless they lie close together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import exact, reals, scales
from mxspec.arrays import ARRAYS
from mxspec.blocks import quantize_rows
from mxspec.elements import Codes, Float32s, decode_codes
from mxspec.expressions import Const, evaluate, walk
from mxspec.formats import FLOAT32, BlockFormat, ElementFormat, ScaleFormat
from mxspec.profiles.schema import AmaxNan, ElementRule, Profile, ScaleRule
from mxspec.reals import Real
from mxspec.tensorscale import TensorScale, bind_arrays

#: The sign bit, the pattern of infinity and that of the largest finite number.
SIGN = 1 << 31
INF_BITS = 0x7F800000
LAST_FINITE = 0x7F7FFFFF
MIN_NORMAL = 0x00800000
#: NaN patterns at which a function of float32 is evaluated; all must give one answer.
NANS = (0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF)

#: Magnitude patterns between which encoders and rules without constants are monotone: zero, and both ends of every
#: binade.
GRID: tuple[int, ...] = tuple(
    sorted(
        {0, 1, LAST_FINITE}
        | {p - d for i in range(1, 23) for p in (1 << i,) for d in (0, 1)}
        | {p - d for e in range(1, 255) for p in (e << 23,) for d in (0, 1)}
    )
)

Bits = npt.NDArray[np.int64]
#: Patterns -> values, of one function.
Compute = Callable[[Bits], npt.NDArray[Any]]
#: Numbers of functions and patterns, both [n] -> values [n].
ComputeMany = Callable[[Bits, Bits], npt.NDArray[Any]]


class NotMonotoneError(ValueError):
    """A function is not monotone between the points of the grid that it was searched with. The message says where."""


def digest_bytes(data: bytes | memoryview) -> str:
    """BLAKE2b-128 in hex: the name of an answer in published results."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class StepFunction:
    """A function of the patterns from 0 to stop - 1: values[i] holds from starts[i] up to the next start."""

    #: int64 [n], rising, the first 0.
    starts: Bits
    #: uint8 [n]; neighbours differ.
    values: Codes
    #: The end of the domain: 2**32 for all float32, 2**31 for magnitudes with infinity and NaN.
    stop: int

    @property
    def digest(self) -> str:
        """BLAKE2b-128 of the starts (32 bits each, little-endian) and values."""
        return digest_bytes(self.starts.astype("<u4").tobytes() + self.values.tobytes())

    @property
    def ends(self) -> Bits:
        """The last pattern of each step."""
        return np.append(self.starts[1:], self.stop) - 1

    @property
    def rises(self) -> Bits:
        """The starts of values above all values before: for a function that never falls, its changes."""
        highest = np.maximum.accumulate(self.values)
        return self.starts[1:][highest[1:] > highest[:-1]]

    def at(self, bits: npt.NDArray[Any]) -> Codes:
        """The values of these patterns."""
        return self.values[np.searchsorted(self.starts, bits.astype(np.int64), side="right") - 1]

    def expand(self, start: int, stop: int) -> Codes:
        """The values of the patterns from start to stop - 1."""
        first, last = np.searchsorted(self.starts, [start, stop - 1], side="right") - 1
        out = np.empty(stop - start, np.uint8)
        for i in range(first, last + 1):
            begin = max(int(self.starts[i]), start)
            end = int(self.starts[i + 1]) if i + 1 < len(self.starts) else stop
            out[begin - start : min(end, stop) - start] = self.values[i]
        return out

    def constant(self, start: int, stop: int) -> int | None:
        """The one value of the patterns from start to stop - 1, or None."""
        first, last = np.searchsorted(self.starts, [start, stop - 1], side="right") - 1
        return int(self.values[first]) if first == last else None

    def below(self, stop: int) -> StepFunction:
        """The function on the patterns from 0 to stop - 1."""
        kept = self.starts < stop
        return StepFunction(self.starts[kept], self.values[kept], min(stop, self.stop))

    def count_differences(self, other: StepFunction) -> int:
        """The patterns on which two functions of one domain differ."""
        starts = np.union1d(self.starts, other.starts)
        lengths = np.diff(np.append(starts, self.stop))
        return int(lengths[self.at(starts) != other.at(starts)].sum())

    def as_text(self) -> str:
        """`start:value` in hex, separated by blanks."""
        return " ".join(f"{s:08x}:{v:02x}" for s, v in zip(self.starts.tolist(), self.values.tolist(), strict=True))

    @classmethod
    def from_text(cls, text: str, stop: int) -> StepFunction:
        """The inverse of `as_text`."""
        return cls.from_pairs(((int(p[:8], 16), int(p[9:], 16)) for p in text.split()), stop)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, int]], stop: int) -> StepFunction:
        """A function from (start, value) in order; neighbours with one value are joined."""
        starts: list[int] = []
        values: list[int] = []
        for start, value in pairs:
            if not values or values[-1] != value:
                starts.append(start)
                values.append(value)
        return cls(np.array(starts, np.int64), np.array(values, np.uint8), stop)


# The search


def find_steps(compute: ComputeMany, grids: Sequence[npt.ArrayLike]) -> list[StepFunction]:
    """The step functions of several functions, each monotone between the points of its grid.

    compute: the value (0 to 255) of each function number at each pattern. All functions are evaluated in one call for each
        round of the bisection, about 30 in all.
    grids: for each function the patterns to start from, rising. The first is 0, the last the end of the domain.

    Raises NotMonotoneError where a point inside a step shows that a function is not monotone between its grid points.
    """
    sizes = [np.size(grid) for grid in grids]
    number = np.repeat(np.arange(len(sizes)), sizes)
    at = np.concatenate([np.asarray(grid, np.int64) for grid in grids])
    value = compute(number, at)
    same = number[1:] == number[:-1]
    first = np.insert(~same, 0, True)
    found = [(number[first], at[first], value[first])]
    differ = same & (value[1:] != value[:-1])
    # Intervals with a change: function, left and right end, values there.
    intervals = [a[differ] for a in (number[1:], at[:-1], at[1:], value[:-1], value[1:])]
    while intervals[0].size:
        number, left, right, at_left, at_right = intervals
        narrow = right - left == 1
        found.append((number[narrow], right[narrow], at_right[narrow]))
        number, left, right, at_left, at_right = (a[~narrow] for a in intervals)
        if not number.size:
            break
        middle = (left + right) // 2
        value = compute(number, middle)
        halves = (number, left, middle, at_left, value), (number, middle, right, value, at_right)
        kept = [[a[half[3] != half[4]] for a in half] for half in halves]
        intervals = [np.concatenate(both) for both in zip(*kept, strict=True)]
    number, at, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((at, number))
    cuts = np.cumsum(np.bincount(number, minlength=len(sizes)))[:-1]
    stops = [int(np.asarray(grid)[-1]) + 1 for grid in grids]
    functions = [
        StepFunction(s, v.astype(np.uint8), stop)
        for s, v, stop in zip(np.split(at[order], cuts), np.split(value[order], cuts), stops, strict=True)
    ]
    for problem in _contradictions(compute, functions):
        raise NotMonotoneError(f"not monotone between grid points: {problem}")
    return functions


def _quarter_points(function: StepFunction) -> Bits:
    """Both ends of each step and three points between them."""
    lengths = function.ends - function.starts
    return np.unique(function.starts[:, None] + lengths[:, None] * np.arange(5) // 4)


def _contradictions(compute: ComputeMany, functions: Sequence[StepFunction], further: npt.ArrayLike = ()) -> Iterator[str]:
    points = [np.union1d(_quarter_points(f), np.asarray(further, np.int64)) for f in functions]
    number = np.repeat(np.arange(len(functions)), [p.size for p in points])
    at = np.concatenate(points)
    claimed = np.concatenate([f.at(p) for f, p in zip(functions, points, strict=True)])
    value = compute(number, at)
    for i in np.flatnonzero(value != claimed).tolist():
        yield f"{at[i]:08x}: the function gives {value[i]:02x}, the steps {claimed[i]:02x}"


def float32_patterns(stop: int, grid: Sequence[int] = GRID) -> Bits:
    """The points of a search over all float32 (stop 2**32) or all magnitudes (2**31): the grid under each sign, infinity
    and NaN.
    """
    magnitudes = np.array(sorted({*grid, INF_BITS, *NANS}), np.int64)
    return np.concatenate([base + magnitudes for base in range(0, stop, SIGN)])


def find_float32_steps(compute: Compute, stop: int = SIGN, grid: Sequence[int] = GRID) -> StepFunction:
    """The complete answer of a function of float32 that is monotone between the magnitudes of a grid under each sign.

    stop: 2**32, or 2**31 for a function of magnitudes.

    Raises ValueError where NaN patterns of one sign differ, and NotMonotoneError as `find_steps` does.
    """
    for base in range(0, stop, SIGN):
        found = sorted({int(v) for v in compute(base + np.array(NANS, np.int64))})
        if len(found) > 1:
            raise ValueError(f"NaN patterns give the values {found}; a step function needs one")
    return find_steps(lambda _, bits: compute(bits), [float32_patterns(stop, grid)])[0]


def check_float32_steps(compute: Compute, steps: StepFunction, grid: Sequence[int] = GRID) -> list[str]:
    """Where a function contradicts the steps claimed of it, in words: at the ends and quarters of each step and at the
    magnitudes of a grid.
    """
    further = [base + p for base in range(0, steps.stop, SIGN) for p in grid]
    return list(_contradictions(lambda _, bits: compute(bits), [steps], further))


def one_by_one(compute: Callable[[int], int]) -> Compute:
    """A function of single patterns, as the exact model computes them, as one of arrays."""

    def compute_each(bits: Bits) -> npt.NDArray[Any]:
        return np.fromiter(map(compute, bits.tolist()), np.int64, bits.size)

    return compute_each


# The functions of profiles


def rule_grid(rule: ScaleRule) -> tuple[int, ...]:
    """`GRID`, and the constants that a scale rule's expression compares with, with their neighbours."""
    constants = {e.bits & (SIGN - 1) for e in walk(rule.value) if isinstance(e, Const)}
    near = {c + d for c in constants for d in (-1, 0, 1) if 0 <= c + d <= LAST_FINITE}
    return tuple(sorted({*GRID, *near}))


def exact_scale(maximum: Real, rule: ScaleRule, scale: ScaleFormat, element: ElementFormat, bindings: Mapping[str, Real]) -> int:
    """The scale byte that a rule gives to a block's maximum, by the exact model; bindings: leaves of the tensor scale."""
    known = {**bindings, "amax": maximum, "M": reals.make_real(element.max_value)}
    return exact.encode_scale(evaluate(rule.value, known, exact.EXACT), rule, scale, element)


def array_scales(
    maxima: Float32s, rule: ScaleRule, scale: ScaleFormat, element: ElementFormat, bindings: Mapping[str, npt.NDArray[Any]]
) -> Codes:
    """The scale bytes that a rule gives to maxima, by the array model; bindings: leaves of the tensor scale."""
    known = {**bindings, "amax": maxima, "M": np.asarray(np.float32(float(element.max_value)))}
    with np.errstate(all="ignore"):
        value = np.broadcast_to(evaluate(rule.value, known, ARRAYS), maxima.shape)
        return scales.encode_scale(value, rule, scale, element)


def rule_steps(rule: ScaleRule, fmt: BlockFormat, bindings: Mapping[str, npt.NDArray[Any]]) -> StepFunction:
    """The scale byte that a rule gives to every maximum, NaN and infinity included, by the array model."""

    def compute(bits: Bits) -> Codes:
        return array_scales(_floats(bits), rule, fmt.scale, fmt.element, bindings)

    return find_float32_steps(compute, SIGN, rule_grid(rule))


def _floats(bits: Bits) -> Float32s:
    return bits.astype(np.uint32).view(np.float32)


@lru_cache(maxsize=1024)
def scale_steps(profile: Profile, fmt: BlockFormat, tensor_scale: TensorScale | None = None, *, exact_model: bool = False) -> StepFunction:
    """The scale byte of every block maximum (float32 magnitude bits, infinity and NaN included) under a profile.

    Where the profile tries two scales it is the first one. A block whose maximum is NaN holds a NaN and zeros.

    tensor_scale: in the profile's native kind, or None for the one-level form.
    exact_model: ask the exact model, which takes about half a second, instead of the array model.

    Raises ValueError where the profile has no such form, for float32 scales, and where it normalizes each element before it
    looks for the maximum.
    """
    if fmt.scale.bits > 8:
        raise ValueError(f"the scale of {fmt.name} is a {fmt.scale.name}, which changes with every maximum: it has no few steps")
    grid = rule_grid(profile.steps(with_tensor_scale=tensor_scale is not None).scale)
    return find_float32_steps(maximum_scales(profile, fmt, tensor_scale, exact_model=exact_model), SIGN, grid)


def maximum_scales(profile: Profile, fmt: BlockFormat, tensor_scale: TensorScale | None = None, *, exact_model: bool = False) -> Compute:
    """What `scale_steps` lists the steps of: the scale codes of block maxima, by their float32 magnitude bits.

    Raises ValueError where the profile has no such form, and where it normalizes each element before it looks for the maximum.
    """
    steps = profile.steps(with_tensor_scale=tensor_scale is not None)
    if steps.normalize is not None:
        raise ValueError(f"{profile.id} normalizes each element first; its scale is not a function of the maximum alone")
    rule = steps.scale
    if exact_model:
        bound = {} if tensor_scale is None else exact.bind_tensor_scale(profile, tensor_scale.real)

        def byte(bits: int) -> int:
            maximum = reals.decode_real(bits, FLOAT32)
            return exact_scale(maximum, rule, fmt.scale, fmt.element, bound)

        compute_rule = one_by_one(byte)
    else:
        leaves = {} if tensor_scale is None else bind_arrays(profile, tensor_scale)

        def compute_rule(bits: Bits) -> npt.NDArray[Any]:
            return array_scales(_floats(bits), rule, fmt.scale, fmt.element, leaves)

    def compute(bits: Bits) -> npt.NDArray[Any]:
        counts_as_zero = np.zeros(bits.shape, np.bool_)
        if profile.flush_inputs:
            counts_as_zero |= bits < MIN_NORMAL
        if profile.amax_nan is not AmaxNan.PROPAGATE:
            counts_as_zero |= bits > INF_BITS
        return compute_rule(np.where(counts_as_zero, 0, bits))

    return compute


def element_steps(
    profile: Profile, fmt: BlockFormat, tensor_scale: TensorScale | None, maxima: Sequence[int], sign: int
) -> list[StepFunction]:
    """The code of an element of one sign, as a function of its magnitude, in blocks with each of these maxima.

    maxima: float32 magnitude bits; the function goes from 0 to the maximum.
    sign: 0 or 1.

    Raises ValueError where the profile has no such form, and NotMonotoneError where the codes go up and down: those of a
    search in float32 do when elements are millions of times their scale, in a block whose maximum is beyond the tensor's.
    The codes of a profile whose lanes depend on each other are not functions of one element.
    """
    steps = profile.steps(with_tensor_scale=tensor_scale is not None)
    bindings: dict[str, Any] = {} if tensor_scale is None else dict(bind_arrays(profile, tensor_scale))
    tops = np.array(maxima, np.int64)
    lanes = fmt.k - 1

    def quantize(blocks: npt.NDArray[np.uint32]) -> tuple[Codes, Codes]:
        with np.errstate(all="ignore"):
            return quantize_rows(blocks.view(np.float32), fmt, profile, steps, bindings)

    def compute(number: Bits, bits: Bits) -> Codes:
        """Blocks of a maximum and as many elements as have room next to it."""
        order = np.argsort(number, kind="stable")
        counts = np.bincount(number, minlength=len(tops))
        rows = -(-counts // lanes)
        first_row, first_item = np.cumsum(rows) - rows, np.cumsum(counts) - counts
        place = np.arange(len(number)) - first_item[number[order]]
        row, lane = first_row[number[order]] + place // lanes, 1 + place % lanes
        blocks = np.zeros((int(rows.sum()), fmt.k), np.uint32)
        blocks[:, 0] = np.repeat(tops, rows)
        blocks[row, lane] = (bits[order] | (SIGN if sign else 0)).astype(np.uint32)
        codes = np.empty(len(number), np.uint8)
        codes[order] = quantize(blocks)[1][row, lane]
        return codes

    alone = np.zeros((len(tops), fmt.k), np.uint32)
    alone[:, 0] = tops
    sf = decode_codes(quantize(alone)[0][:, 0], fmt.scale).astype(np.float64)
    grids = [_element_grid(int(top), float(s), fmt.element, steps.element) for top, s in zip(tops, sf, strict=True)]
    return find_steps(compute, grids)


#: float32 numbers below a power of two, at least as many as a float32 log2 takes for it (`ElementRule.binade_log2f`).
_LOG2F_REACH = 128


def _element_grid(top: int, sf: float, element: ElementFormat, rule: ElementRule) -> Bits:
    """Magnitudes from 0 to a block's maximum between which an element's code is monotone; sf: the block's scale.

    Within a binade it is, under most rules. Below a maximum that is no power of two the scaled elements may have binades
    of their own, which begin in the middle of these.
    """
    # Half a binade apart, down to where nothing but zero is left.
    span = (element.emax - (1 - element.bias - element.mantissa_bits) + 4) << 23
    points = [np.array(GRID, np.int64), top - np.arange(0, span + (1 << 23), 1 << 22, dtype=np.int64)]
    if not rule.is_monotone:
        # Codes fall just below a power of two, or at a tie, which alone is taken back; where quotients are rounded to
        # bfloat16, all that becomes the tie is, and what becomes its neighbours lies 1/256 of it away.
        points.append((np.arange(1, 256) << 23) - _LOG2F_REACH)
        if np.isfinite(sf):
            values = np.array([float(element.magnitude(m)) for m in range(element.max_code + 2)])
            ties = (values[1:] + values[:-1]) / 2 * sf
            with np.errstate(over="ignore"):
                near = np.concatenate([ties * (1 - 2.0**-8), ties, ties * (1 + 2.0**-8)]).astype(np.float32)
            points.append((near.view(np.uint32).astype(np.int64)[:, None] + np.arange(-2, 3)).ravel())
    every = np.concatenate([*points, [0, top]])
    return np.unique(every[(every >= 0) & (every <= top)])
