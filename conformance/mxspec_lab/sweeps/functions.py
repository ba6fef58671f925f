"""The functions that sweeps cover, and their complete exact answers.

A function is one of

* ``encode/<format>/<rounding>/<overflow>``: an element or scale format's encoder. Unsigned formats
  encode |x|.
* ``scale/<element>/<step>-<digest>``: a scale rule of the registered MX profiles, as a function of the
  block's largest magnitude. That is never negative, so its inputs are the 2**31 patterns without a sign.

The exact model gives at most 256 patterns for each sign where a function's answer changes. They are found
by bisection between the grid points of `GRID`: the edges of every binade and the constants that the rule
compares with. Between two grid points every function is monotone (a correctly rounded quotient or product,
a rounded logarithm and a rounding to a code are; an exponent byte that wraps does so by 256, which no
binade holds), so equal ends mean a constant answer. The runs between the changes are the complete answer,
and expand at the speed of memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import elements, exact, reals, scales
from mxspec.arrays import ARRAYS
from mxspec.expressions import Apply, Choose, Const, Expr, Leaf, evaluate, walk
from mxspec.formats import (
    ELEMENTS,
    FLOAT32,
    SCALES,
    ElementFormat,
    ScalarFormat,
    ScaleFormat,
    get_block,
)
from mxspec.profiles.schema import ScaleRule
from mxspec.rounding import DETERMINISTIC, Overflow, Rounding

#: Inputs of a chunk.
CHUNK_BITS = 24
CHUNK = 1 << CHUNK_BITS

SIGN = 1 << 31
INF_BITS = 0x7F800000
LAST_FINITE = 0x7F7FFFFF
#: NaN patterns at which the exact model is asked; all must give one answer.
NANS = (0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF)

Codes = npt.NDArray[np.uint8]
Float32s = npt.NDArray[np.float32]

#: Magnitude patterns between which every function is monotone: zero, and both ends of every binade.
GRID: tuple[int, ...] = tuple(
    sorted(
        {0, 1, LAST_FINITE}
        | {p - d for i in range(1, 23) for p in (1 << i,) for d in (0, 1)}
        | {p - d for e in range(1, 255) for p in (e << 23,) for d in (0, 1)}
    )
)


class Function(Protocol):
    """A function that can be swept."""

    @property
    def name(self) -> str:
        """Its name, which is also its file's."""

    @property
    def pattern_count(self) -> int:
        """How many float32 patterns it takes, from 0: 2**32, or 2**31 where inputs have no sign."""

    @property
    def grid(self) -> tuple[int, ...]:
        """`GRID` and what the function adds to it."""

    def exact(self, bits: int) -> int:
        """The exact model's answer for one pattern."""

    def model(self, x: Float32s) -> Codes:
        """The array model's answers."""

    def definition(self) -> dict[str, Any]:
        """What the function is, for its file."""


@dataclass(frozen=True, slots=True)
class EncodeFunction:
    """A format's encoder under one rounding and overflow; NaN by the format's default policy."""

    fmt: ElementFormat | ScaleFormat
    rounding: Rounding
    overflow: Overflow

    @property
    def name(self) -> str:
        """encode/<format>/<rounding>/<overflow>."""
        return f"encode/{self.fmt.name}/{self.rounding.value}/{self.overflow.value}"

    @property
    def pattern_count(self) -> int:
        """All float32 patterns."""
        return 1 << 32

    @property
    def grid(self) -> tuple[int, ...]:
        """The edges of the binades."""
        return GRID

    def exact(self, bits: int) -> int:
        """By `reals.encode_real`; unsigned formats are given the magnitude."""
        x = reals.decode_real(bits, FLOAT32)
        return reals.encode_real(
            x if self.fmt.signed else reals.absolute(x),
            self.fmt,
            rounding=self.rounding,
            overflow=self.overflow,
            nan=elements.default_nan_policy(self.fmt),
        )

    def model(self, x: Float32s) -> Codes:
        """By `mxspec.encode`."""
        return mxspec.encode(x, self.fmt, rounding=self.rounding, overflow=self.overflow, sign="ignore")

    def definition(self) -> dict[str, Any]:
        """Format, rounding and policies."""
        return {
            "format": self.fmt.name,
            "rounding": self.rounding.value,
            "overflow": self.overflow.value,
            "nan": elements.default_nan_policy(self.fmt).value,
            "sign": "kept" if self.fmt.signed else "ignored",
        }


@dataclass(frozen=True, slots=True)
class ScaleFunction:
    """A scale rule of MX profiles, as a function of the block's largest magnitude."""

    rule: ScaleRule
    element: ElementFormat
    scale: ScaleFormat
    profiles: tuple[str, ...] = field(compare=False)

    @property
    def name(self) -> str:
        """scale/<element>/<step>-<digest of the rule>."""
        text = json.dumps(describe_rule(self.rule), sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        return f"scale/{self.element.name}/{self.rule.step.value}-{digest}"

    @property
    def pattern_count(self) -> int:
        """The patterns without a sign: a largest magnitude has none."""
        return 1 << 31

    @property
    def grid(self) -> tuple[int, ...]:
        """The edges of the binades, and the rule's constants with their neighbours."""
        constants = {e.bits & (SIGN - 1) for e in walk(self.rule.value) if isinstance(e, Const)}
        extra = {c + d for c in constants for d in (-1, 0, 1) if 0 <= c + d <= LAST_FINITE}
        return tuple(sorted({*GRID, *extra}))

    def exact(self, bits: int) -> int:
        """By `exact.encode_scale` of the rule's expression."""
        known = {"amax": reals.decode_real(bits, FLOAT32), "M": reals.make_real(self.element.max_value)}
        value = evaluate(self.rule.value, known, exact.EXACT)
        return exact.encode_scale(value, self.rule, self.scale, self.element)

    def value(self, x: Float32s) -> npt.NDArray[Any]:
        """The rule's expression on arrays."""
        known: dict[str, npt.NDArray[Any]] = {
            "amax": x,
            "M": np.asarray(np.float32(float(self.element.max_value))),
        }
        return np.broadcast_to(evaluate(self.rule.value, known, ARRAYS), x.shape)

    def model(self, x: Float32s) -> Codes:
        """By `mxspec.scales.encode_scale`."""
        return scales.encode_scale(self.value(x), self.rule, self.scale, self.element)

    def definition(self) -> dict[str, Any]:
        """The rule, the element and the profiles that use them."""
        return {
            "element": self.element.name,
            "scale": self.scale.name,
            "rule": describe_rule(self.rule),
            "text": str(self.rule.value),
            "profiles": list(self.profiles),
        }


def describe_rule(rule: ScaleRule) -> dict[str, Any]:
    """A scale rule as plain data: what differs from the defaults, constants by their bits."""
    plain: dict[str, Any] = {}
    for f in fields(rule):
        value = getattr(rule, f.name)
        if f.name == "value":
            plain["value"] = _describe_expr(value)
        elif f.name == "step" or value != f.default:
            plain[f.name] = list(value) if isinstance(value, tuple) else value
    return plain


def _describe_expr(expr: Expr) -> Any:
    if isinstance(expr, Leaf):
        return expr.name
    if isinstance(expr, Const):
        return f"{expr.bits:08x}"
    if isinstance(expr, Apply):
        return [f"{expr.op.value} {expr.domain.value}", *map(_describe_expr, expr.args)]
    assert isinstance(expr, Choose)
    parts = (expr.left, expr.right, expr.then, expr.otherwise)
    return [f"if {expr.test.value}", *map(_describe_expr, parts)]


def has_own_overflow(fmt: ScalarFormat) -> bool:
    """Whether a format has an Inf or a NaN to overflow to."""
    return fmt.inf_code is not None or fmt.nan_code is not None


def _encode_functions() -> Iterator[EncodeFunction]:
    formats: tuple[ElementFormat | ScaleFormat, ...] = (*ELEMENTS.values(), *SCALES.values())
    for fmt in formats:
        for overflow in (Overflow.SATURATE, Overflow.OWN):
            if overflow is Overflow.SATURATE or has_own_overflow(fmt):
                for rounding in DETERMINISTIC:
                    yield EncodeFunction(fmt, rounding, overflow)


def _scale_functions() -> Iterator[ScaleFunction]:
    users: dict[tuple[ScaleRule, str], list[str]] = {}
    for profile in mxspec.list_profiles():
        for name in profile.formats:
            block = get_block(name)
            if profile.one_level is not None and block.scale.name == "e8m0":
                users.setdefault((profile.one_level.scale, block.element.name), []).append(profile.id)
    for (rule, name), ids in users.items():
        yield ScaleFunction(rule, ELEMENTS[name], SCALES["e8m0"], tuple(ids))


def list_functions(pattern: str = "*") -> dict[str, Function]:
    """The functions whose names match, by name: encoders, then scale rules in the order of the profiles."""
    functions: list[Function] = [*_encode_functions(), *_scale_functions()]
    return {f.name: f for f in functions if fnmatchcase(f.name, pattern)}


@lru_cache(maxsize=1)
def all_functions() -> dict[str, Function]:
    """All of them, listed once."""
    return list_functions()


# The exact answer


@dataclass(frozen=True, slots=True)
class Runs:
    """A function's complete answer: code i holds from starts[i] up to the next start."""

    starts: npt.NDArray[np.int64]
    codes: Codes
    pattern_count: int

    @property
    def digest(self) -> str:
        """Of the starts and codes."""
        return digest_bytes(self.starts.astype("<u4").tobytes() + self.codes.tobytes())

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """The last pattern of each run."""
        return np.append(self.starts[1:], self.pattern_count) - 1

    def expand(self, start: int, stop: int) -> Codes:
        """The codes of the patterns from start to stop - 1."""
        first, last = np.searchsorted(self.starts, [start, stop - 1], side="right") - 1
        out = np.empty(stop - start, np.uint8)
        for i in range(first, last + 1):
            begin = max(int(self.starts[i]), start)
            end = int(self.starts[i + 1]) if i + 1 < len(self.starts) else stop
            out[begin - start : min(end, stop) - start] = self.codes[i]
        return out

    def at(self, bits: npt.NDArray[Any]) -> Codes:
        """The codes of these patterns."""
        return self.codes[np.searchsorted(self.starts, bits.astype(np.int64), side="right") - 1]

    def constant(self, start: int, stop: int) -> int | None:
        """The one code of the patterns from start to stop - 1, or None."""
        first, last = np.searchsorted(self.starts, [start, stop - 1], side="right") - 1
        return int(self.codes[first]) if first == last else None

    def as_text(self) -> str:
        """`start:code` in hex, separated by blanks."""
        return " ".join(f"{s:08x}:{c:02x}" for s, c in zip(self.starts.tolist(), self.codes.tolist(), strict=True))

    @classmethod
    def from_text(cls, text: str, pattern_count: int) -> Runs:
        """The inverse of `as_text`."""
        pairs = [(int(p[:8], 16), int(p[9:], 16)) for p in text.split()]
        return cls.from_pairs(pairs, pattern_count)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, int]], pattern_count: int) -> Runs:
        """Runs from (start, code) in order; neighbours with one code are joined."""
        starts: list[int] = []
        codes: list[int] = []
        for start, code in pairs:
            if not codes or codes[-1] != code:
                starts.append(start)
                codes.append(code)
        return cls(np.array(starts, np.int64), np.array(codes, np.uint8), pattern_count)


def _changes(answer: Callable[[int], int], low: int, at_low: int, high: int, at_high: int) -> Iterator[tuple[int, int]]:
    """(pattern, code) for each change in (low, high], by bisection."""
    if at_low == at_high:
        return
    if high - low == 1:
        yield high, at_high
        return
    middle = (low + high) // 2
    at_middle = answer(middle)
    yield from _changes(answer, low, at_low, middle, at_middle)
    yield from _changes(answer, middle, at_middle, high, at_high)


def find_runs(answer: Callable[[int], int], pattern_count: int, grid: Sequence[int] = GRID) -> Runs:
    """The complete answer of a function that is monotone between grid points, by bisection.

    Raises ValueError where NaN patterns of one sign differ, or where a point inside a run contradicts it.
    """
    pairs: list[tuple[int, int]] = []
    for base in range(0, pattern_count, SIGN):

        def ask(magnitude: int, base: int = base) -> int:
            return answer(base + magnitude)

        values = [ask(p) for p in grid]
        pairs.append((base + grid[0], values[0]))
        for i in range(len(grid) - 1):
            pairs.extend((base + p, code) for p, code in _changes(ask, grid[i], values[i], grid[i + 1], values[i + 1]))
        pairs.append((base + INF_BITS, ask(INF_BITS)))
        nans = {ask(p) for p in NANS}
        if len(nans) != 1:
            raise ValueError(f"NaN patterns give the codes {sorted(nans)}; a run needs one")
        pairs.append((base + INF_BITS + 1, nans.pop()))
    runs = Runs.from_pairs(pairs, pattern_count)
    problems = check_runs(answer, runs, ())
    if problems:
        raise ValueError(f"not monotone between grid points: {problems[0]}")
    return runs


def check_runs(answer: Callable[[int], int], runs: Runs, grid: Sequence[int] = GRID) -> list[str]:
    """Where the exact model contradicts runs, at the ends and quarters of each run and at the grid points."""
    points = {base + p for base in range(0, runs.pattern_count, SIGN) for p in grid}
    starts, ends = runs.starts.tolist(), runs.ends.tolist()
    for start, end in zip(starts, ends, strict=True):
        points.update(start + (end - start) * quarter // 4 for quarter in range(5))
    ordered = np.array(sorted(points), np.int64)
    expected = runs.at(ordered)
    return [
        f"{bits:08x}: the exact model gives {code:02x}, the runs {claimed:02x}"
        for bits, claimed in zip(ordered.tolist(), expected.tolist(), strict=True)
        if (code := answer(bits)) != claimed
    ]


def function_runs(function: Function) -> Runs:
    """The complete exact answer of a function."""
    return find_runs(function.exact, function.pattern_count, function.grid)


def digest_bytes(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@lru_cache(maxsize=256)
def _constant_digest(code: int) -> str:
    return digest_bytes(bytes([code]) * CHUNK)


def chunk_digest(runs: Runs, chunk: int) -> str:
    """BLAKE2b-128 of the exact answer's bytes over one chunk."""
    start = chunk * CHUNK
    code = runs.constant(start, start + CHUNK)
    return _constant_digest(code) if code is not None else digest_bytes(runs.expand(start, start + CHUNK).data)
