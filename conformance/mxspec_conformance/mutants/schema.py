"""What a mutant is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from mxspec_conformance.mutants.reference import Step

Wrap = Callable[[Step], Step]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return NOTHING


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
class Mutant:
    """One small change to a right implementation."""

    id: str
    family: Family
    #: `P01`: a row of the list of known bugs; `S0`: a wrong reading of that document; a public report as owner/repo#number;
    #: `own`.
    source: str
    #: Block formats, scalar formats or layouts, whatever the operations take.
    formats: tuple[str, ...]
    operations: tuple[str, ...] = ("quantize",)
    #: The profile that it breaks; "": the format's default.
    profile: str = ""
    #: What it does, in one sentence.
    what: str
    #: Steps of `plain` that are replaced.
    change: Mapping[str, Step] = field(default_factory=_nothing)
    #: Functions of the target that are wrapped.
    wrap: Mapping[str, Wrap] = field(default_factory=_nothing)
