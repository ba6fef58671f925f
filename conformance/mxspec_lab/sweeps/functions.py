"""The functions that sweeps cover, and their complete exact answers.

A function is one of

* ``encode/<format>/<rounding>/<overflow>``: an element or scale format's encoder. Unsigned formats
  encode |x|.
* ``scale/<element>/<step>-<digest>``: a scale rule of the registered MX profiles, as a function of the
  block's largest magnitude. That is never negative, so its inputs are the 2**31 patterns without a sign.

The exact model gives at most 256 patterns for each sign where a function's answer changes
(`mxspec.stepfunctions`). These steps are the complete answer, and expand at the speed of memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import elements, reals
from mxspec.expressions import Apply, Choose, Const, Expr, Leaf
from mxspec.formats import ELEMENTS, FLOAT32, SCALES, ElementFormat, ScaleFormat, get_block
from mxspec.profiles.schema import ScaleRule
from mxspec.rounding import DETERMINISTIC, Overflow, Rounding
from mxspec.stepfunctions import GRID, StepFunction, array_scales, digest_bytes, exact_scale, find_float32_steps, one_by_one, rule_grid

#: Inputs of a chunk.
CHUNK_BITS = 24
CHUNK = 1 << CHUNK_BITS

Codes = npt.NDArray[np.uint8]
Float32s = npt.NDArray[np.float32]


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
        magnitude, nan = x if self.fmt.signed else reals.absolute(x), elements.default_nan_policy(self.fmt)
        return reals.encode_real(magnitude, self.fmt, rounding=self.rounding, overflow=self.overflow, nan=nan)

    def model(self, x: Float32s) -> Codes:
        """By `mxspec.encode`."""
        return mxspec.encode(x, self.fmt, rounding=self.rounding, overflow=self.overflow, sign="ignore")

    def definition(self) -> dict[str, Any]:
        """Format, rounding and policies."""
        return {
            "format": self.fmt.name, "rounding": self.rounding.value, "overflow": self.overflow.value,
            "nan": elements.default_nan_policy(self.fmt).value, "sign": "kept" if self.fmt.signed else "ignored",
        }  # fmt: skip


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
        return rule_grid(self.rule)

    def exact(self, bits: int) -> int:
        """By the exact model."""
        return exact_scale(reals.decode_real(bits, FLOAT32), self.rule, self.scale, self.element, {})

    def model(self, x: Float32s) -> Codes:
        """By the array model."""
        return array_scales(x, self.rule, self.scale, self.element, {})

    def definition(self) -> dict[str, Any]:
        """The rule, the element and the profiles that use them."""
        return {
            "element": self.element.name, "scale": self.scale.name, "rule": describe_rule(self.rule), "text": str(self.rule.value),
            "profiles": list(self.profiles),
        }  # fmt: skip


#: Fields of a scale rule whose name in published results, and so in the digests of functions, is another one.
_PUBLISHED = {"underflow": "low"}


def describe_rule(rule: ScaleRule) -> dict[str, Any]:
    """A scale rule as plain data: what differs from the defaults, constants by their bits."""
    plain: dict[str, Any] = {}
    for f in fields(rule):
        value = getattr(rule, f.name)
        if f.name == "value":
            plain["value"] = _describe_expr(value)
        elif f.name == "step" or value != f.default:
            plain[_PUBLISHED.get(f.name, f.name)] = list(value) if isinstance(value, tuple) else value
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


def _encode_functions() -> Iterator[EncodeFunction]:
    formats: tuple[ElementFormat | ScaleFormat, ...] = (*ELEMENTS.values(), *SCALES.values())
    for fmt in formats:
        for overflow in (Overflow.SATURATE, Overflow.OWN):
            if overflow is Overflow.SATURATE or fmt.has_nonfinite:
                for rounding in DETERMINISTIC:
                    yield EncodeFunction(fmt, rounding, overflow)


def _scale_functions() -> Iterator[ScaleFunction]:
    users: dict[tuple[ScaleRule, ElementFormat, ScaleFormat], list[str]] = {}
    for profile in mxspec.list_profiles():
        for name in profile.formats:
            block = get_block(name)
            if profile.one_level is not None and block.is_mx:
                users.setdefault((profile.one_level.scale, block.element, block.scale), []).append(profile.id)
    for (rule, element, scale), ids in users.items():
        yield ScaleFunction(rule, element, scale, tuple(ids))


def list_functions(pattern: str = "*") -> dict[str, Function]:
    """The functions whose names match, by name: encoders, then scale rules in the order of the profiles."""
    functions: list[Function] = [*_encode_functions(), *_scale_functions()]
    return {f.name: f for f in functions if fnmatchcase(f.name, pattern)}


@lru_cache(maxsize=1)
def all_functions() -> dict[str, Function]:
    """All of them, listed once."""
    return list_functions()


# The exact answer


def function_steps(function: Function) -> StepFunction:
    """The complete exact answer of a function."""
    return find_float32_steps(one_by_one(function.exact), function.pattern_count, function.grid)


@lru_cache(maxsize=256)
def _constant_digest(code: int) -> str:
    return digest_bytes(bytes([code]) * CHUNK)


def chunk_digest(steps: StepFunction, chunk: int) -> str:
    """BLAKE2b-128 of the exact answer's bytes over one chunk."""
    start = chunk * CHUNK
    code = steps.constant(start, start + CHUNK)
    return _constant_digest(code) if code is not None else digest_bytes(steps.expand(start, start + CHUNK).data)
