"""What a variant of an implementation is, and a mutant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from types import MappingProxyType
from typing import Any

from mxspec_conformance.mutants.reference import Step

Wrap = Callable[[Step], Step]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def around(change: Callable[..., Any]) -> Wrap:
    """A function made of the right one: change(right, *its arguments)."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def function(*args: Any, **kwargs: Any) -> Any:
            return change(right, *args, **kwargs)

        return function

    return wrap


class Family(StrEnum):
    """Classes of bugs; the first fourteen are those of the list of known bugs."""

    ROUNDING = "element rounding"
    DECODE = "decode"
    SHARED = "shared exponent"
    E8M0 = "e8m0"
    SPECIAL = "zero, NaN, Inf, -0"
    NVFP4 = "nvfp4 scales and order"
    DEQUANTIZE = "dequantize arithmetic"
    PACK = "packing"
    TILES = "scale tiles"
    BLOCKS = "blocks, axes, tails"
    CHANCE = "stochastic rounding"
    INT8 = "int8"
    CALLS = "calls, aliasing, state"
    ENCODE = "single numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A named change of one step of a straightforward implementation: wrong as a rule, right where a text leaves a choice."""

    id: str
    #: `P01`: a row of the list of known bugs; `S0`: a wrong reading of that document; a public report as owner/repo#number;
    #: `own`.
    source: str = "own"
    #: Block formats, scalar formats or layouts, whatever the operations take.
    formats: tuple[str, ...]
    #: What it does, in one sentence.
    what: str
    #: Steps that are replaced.
    change: Mapping[str, Step] = field(default_factory=lambda: NOTHING)
    #: Functions of the target that are wrapped.
    wrap: Mapping[str, Wrap] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant(Variant):
    """One small change to `reference.py` or to the layouts of `layout_mutants.py`."""

    family: Family
    operations: tuple[str, ...] = ("quantize",)
    #: The profile that it breaks; "": the format's default.
    profile: str = ""
