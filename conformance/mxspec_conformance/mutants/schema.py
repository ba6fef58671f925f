"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.enums import StrEnum
from mxspec_conformance.mutants.staged import Variant


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
class Mutant(Variant):
    """One small change to `reference.py` or to the layouts of `layout_mutants.py`."""

    family: Family
    operations: tuple[str, ...] = ("quantize",)
    #: The profile that it breaks; "": the format's default.
    profile: str = ""
