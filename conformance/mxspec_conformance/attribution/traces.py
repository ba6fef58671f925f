"""What a profile can leave in the bytes of a tensor: computed from the profile's arithmetic, nothing of it is written by hand.

Examined is the block maximum alone: its scale byte, and the code of its own lane. Over all float32 magnitudes these two
are step functions, so that a search finds every pair that occurs (`mxspec.stepfunctions`). A block of a file whose scale byte
and largest code are no such pair was not made by the profile from finite weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.arrays import ARRAYS
from mxspec.blocks import quantize_rows
from mxspec.enums import StrEnum
from mxspec.expressions import Expr
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import AmaxNan, ElementRule, Profile, QuantizationSteps, ScaleRule, TensorScaleKind
from mxspec.stepfunctions import LAST_FINITE, NotMonotoneError, find_steps, rule_grid
from mxspec.tensorscale import TensorScale, bind_arrays
from mxspec_conformance.lint.subject import magnitude_codes

Flags = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]


#: Dtypes of inputs by name.
_DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip


class MinusZero(StrEnum):
    """From which weights a profile makes the code of -0."""

    #: From none: every zero is +0.
    NEVER = "never"
    #: From weights that are -0 themselves, not from negative ones that round to zero.
    FROM_MINUS_ZERO = "from -0"
    #: From negative weights that round to zero.
    FROM_NEGATIVE = "from negative weights"


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What a profile can leave of finite weights."""

    #: bool [256 scale bytes, magnitude codes]: whether a block's maximum gives this byte and has this code.
    reachable: Flags
    #: float64, the same shape: the part of the maxima with this byte that have this code, were they spread evenly.
    share: npt.NDArray[np.float64]
    minus_zero: MinusZero

    @property
    def smallest_scale(self) -> int:
        """The smallest scale byte of any block."""
        return int(np.flatnonzero(self.reachable.any(axis=1))[0])


@dataclass(frozen=True, slots=True)
class _Question:
    """All that the scale byte and the code of a maximum depend on: profiles that share it are evaluated once."""

    scale: ScaleRule
    scaled: Expr
    element: ElementRule
    normalize: Expr | None
    #: Leaves that the tensor scale gives: name, float32 bits.
    leaves: tuple[tuple[str, int], ...]
    format: str
    amax_nan: AmaxNan
    flush_inputs: bool
    dtypes: tuple[str, ...]
    #: One of the profiles that ask this, and its steps.
    profile: Profile = field(compare=False)
    steps: QuantizationSteps = field(compare=False)

    @classmethod
    def of(cls, profile: Profile, fmt: BlockFormat, steps: QuantizationSteps, scale: TensorScale | None) -> _Question:
        """The question of a form with one scale."""
        bound = {} if scale is None else bind_arrays(profile, scale)
        leaves = tuple((name, int(value.view(np.uint32))) for name, value in sorted(bound.items()))
        return cls(
            steps.scale, steps.scaled, steps.element, steps.normalize, leaves, fmt.name, profile.amax_nan, profile.flush_inputs,
            profile.dtypes, profile, steps,
        )  # fmt: skip

    def ask(self, x: npt.NDArray[np.float32]) -> tuple[Codes, Codes]:
        """Scale bytes [n] and codes of rows of numbers [n, lanes]; the number of lanes does not matter here."""
        bindings: dict[str, Any] = {name: ARRAYS.constant(bits) for name, bits in self.leaves}
        with np.errstate(all="ignore"):
            scales, codes = quantize_rows(x, get_block(self.format), self.profile, self.steps, bindings)
        return scales[:, 0], codes


def trace(profile: Profile, fmt: BlockFormat, scale: TensorScale | None) -> Trace | None:
    """The trace of a profile with a tensor scale of its native kind, or without one.

    None where the codes of a block's lanes depend on each other or rise and fall with the maximum, or where elements are
    changed before the maximum is taken: nothing is known then.

    Raises ValueError where the profile has no such form.
    """
    steps = profile.steps(with_tensor_scale=scale is not None)
    if steps.normalize is not None or not steps.element.is_lane_local:
        return None
    shape = (256, int(magnitude_codes(fmt).max()) + 1)
    reachable, widths = np.zeros(shape, np.bool_), np.zeros(shape, np.float64)
    questions = [_Question.of(profile, fmt, form, scale) for form in _single(steps)]
    for question in questions:
        last, found = LAST_FINITE, _find_pairs(question, LAST_FINITE)
        if found is None and scale is not None and scale.kind is TensorScaleKind.AMAX:
            # Codes of a search in float32 go up and down far beyond the tensor's own maximum.
            last = min(scale.bits + (2 << 23), LAST_FINITE)
            found = _find_pairs(question, last)
        if found is None:
            return None
        starts, bytes_, codes = found
        lengths = np.append(starts[1:], last + 1) - starts
        for column in (0, 1):
            reachable[bytes_, codes[:, column]] = True
            np.add.at(widths, (bytes_, codes[:, column]), lengths)
        if last < LAST_FINITE:
            reachable[int(bytes_[-1]) :] = True
    if not steps.element.is_monotone:
        # A lane below the maximum may have the larger code.
        reachable = np.maximum.accumulate(reachable, axis=1)
    totals = widths.sum(axis=1, keepdims=True)
    share = np.divide(widths, totals, out=np.zeros(shape), where=totals > 0)
    return Trace(reachable, share, _ask_minus_zero(questions[0]))


@dataclass(frozen=True, slots=True, eq=False)
class ScaleTrace:
    """What a profile can leave under float32 scales [n] of finite weights."""

    #: bool [n]: whether a maximum above zero has this scale, and int64 [n, 2]: the least and the largest code that it then has.
    reachable: Flags
    codes: Bits
    #: The scale of a block of zeros, float32 bits.
    of_zeros: int
    minus_zero: MinusZero


def trace_scales(profile: Profile, fmt: BlockFormat, scales: npt.NDArray[np.uint32]) -> ScaleTrace | None:
    """The trace of a profile under float32 scales [n], which rise with the maximum: each is sought in all maxima by halving.

    None where the codes of lanes depend on each other, or the scale does not rise.
    """
    steps = profile.steps(with_tensor_scale=False)
    if steps.normalize is not None or not steps.is_lane_local or not steps.element.is_monotone:
        return None
    question = _Question.of(profile, fmt, steps, None)

    def ask(bits: Bits) -> tuple[Bits, Codes]:
        found, codes = question.ask(np.stack([bits, bits | (1 << 31)], axis=1).astype(np.uint32).view(np.float32))
        return found.astype(np.int64), magnitude_codes(fmt)[codes]

    if (np.diff(ask(np.linspace(1, LAST_FINITE, 1 << 12).astype(np.int64))[0]) < 0).any():
        return None
    due = scales.astype(np.int64)
    ends = []
    for above in (0, 1):  # the first maximum with the scale or a larger one, then the first with a larger one
        low, high = np.ones(len(due), np.int64), np.full(len(due), LAST_FINITE + 1, np.int64)
        while (low < high).any():
            middle = (low + high) // 2
            reached = ask(np.minimum(middle, LAST_FINITE))[0] >= due + above
            low, high = np.where(reached | (low == high), low, middle + 1), np.where(reached & (low < high), middle, high)
        ends.append(low - above)
    codes = np.concatenate([ask(np.clip(e, 1, LAST_FINITE))[1] for e in ends], axis=1).astype(np.int64)
    zero = int(question.ask(np.zeros((1, 2), np.float32))[0][0])
    both = np.stack([codes.min(axis=1), codes.max(axis=1)], axis=1)
    return ScaleTrace(ends[0] <= ends[1], both, zero, _ask_minus_zero(question))


def _single(steps: QuantizationSteps) -> Iterator[QuantizationSteps]:
    """The forms with one scale each: of a profile that tries two, whichever is kept, a block has the pair of one of them."""
    yield replace(steps, alternative=None)
    if steps.alternative is not None:
        yield replace(steps, scale=steps.alternative.scale, alternative=None)


@lru_cache(maxsize=256)
def _find_pairs(question: _Question, last: int) -> tuple[Bits, Codes, Codes] | None:
    """Where a scale byte or a code becomes another one, among maxima up to `last` (float32 bits [n]), the bytes [n], and the
    magnitude codes [n, 2] of positive and negative maxima; None where they rise and fall between neighbouring points of the search.
    """
    magnitudes = magnitude_codes(get_block(question.format))

    def ask(bits: Bits) -> tuple[Codes, Codes]:
        rows = np.stack([bits, bits | (1 << 31)], axis=1).astype(np.uint32).view(np.float32)
        scales, codes = question.ask(rows)
        return scales, magnitudes[codes]

    grid = _list_inputs(question.dtypes)
    if grid is None:
        points = np.array([*(p for p in rule_grid(question.scale) if p < last), last], np.int64)
        try:
            grid = _search(ask, points)
        except NotMonotoneError:
            close = _list_close_points()
            try:
                grid = _search(ask, np.union1d(points, close[close < last]))
            except NotMonotoneError:
                return None
    # From each of these on to the next both are constant.
    return grid, *ask(grid)


def _search(ask: Callable[[Bits], tuple[Codes, Codes]], points: Bits) -> Bits:
    """The maxima from which on a scale byte or a code is another one, and the points.

    Raises NotMonotoneError where they rise and fall between the points.
    """
    scales = find_steps(lambda _, bits: ask(bits)[0], [points])[0]
    points = np.union1d(points, np.concatenate([scales.starts, scales.starts[1:] - 1]))

    def code(number: Bits, bits: Bits) -> Codes:
        chosen: Codes = ask(bits)[1][np.arange(len(bits)), number]
        return chosen

    return np.unique(np.concatenate([points, *(f.starts for f in find_steps(code, [points, points]))]))


@lru_cache(maxsize=1)
def _list_close_points() -> Bits:
    """Points for rules that fall within a binade: 2**16 evenly spread, both sides of what bfloat16 rounds, and what a float32
    log2 takes for the next power of two.
    """
    upper = np.arange(1 << 15, dtype=np.int64)[:, None] << 16
    spread = (upper + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])).ravel()
    near = ((np.arange(1, 256, dtype=np.int64) << 23)[:, None] - np.arange(130)).ravel()
    every = np.union1d(spread, near)
    return every[every <= LAST_FINITE]


@lru_cache(maxsize=8)
def _list_inputs(dtypes: tuple[str, ...]) -> Bits | None:
    """Every maximum of a profile that takes 16-bit numbers alone, as float32 bits; None: it takes float32."""
    if "float32" in dtypes:
        return None
    found: list[Bits] = []
    for name in dtypes:
        values = np.arange(1 << 15, dtype=np.uint16).view(_DTYPES[name]).astype(np.float32)
        found.append(values[np.isfinite(values)].view(np.uint32).astype(np.int64))
    return np.unique(np.concatenate(found))


@lru_cache(maxsize=256)
def _ask_minus_zero(question: _Question) -> MinusZero:
    fmt = get_block(question.format)
    element = fmt.element
    if element.twos_complement:
        return MinusZero.NEVER
    # Every power of four below the maximum, and -0; maxima of all sizes, as a tensor scale has any value.
    lanes = -np.ldexp(1.0, -2 * np.arange(1, 3 * fmt.k // 2))
    exponents = np.append(np.arange(-120, 127, 7), 13)
    block = np.tile([1.0, *lanes, -0.0], (len(exponents), 1))
    with np.errstate(over="ignore"):
        x = (block * np.ldexp(1.3125, exponents)[:, None]).astype(_DTYPES[question.dtypes[0]]).astype(np.float32)
    x = x[np.isfinite(x[:, 0]) & (x[:, 0] > 0), : x.shape[1] // 2 * 2]
    x[:, -1] = -0.0
    found = question.ask(x)[1] == element.join(1, 0)
    if found[x != 0].any():
        return MinusZero.FROM_NEGATIVE
    return MinusZero.FROM_MINUS_ZERO if found.any() else MinusZero.NEVER
