"""What a mutant is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from mxspec_lab.mutants.plain import Plain, Step

Wrap = Callable[[Step], Step]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


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

    def instances(self) -> Iterator[Instance]:
        """Each operation and format that it is judged in."""
        for operation in self.operations:
            for fmt in self.formats:
                yield Instance(self, operation, fmt)


@dataclass(frozen=True, slots=True)
class Instance:
    """A mutant in one operation and format."""

    mutant: Mutant
    operation: str
    format: str

    @property
    def name(self) -> str:
        """mutant/operation/format."""
        return f"{self.mutant.id}/{self.operation}/{self.format}"

    @property
    def profile(self) -> str:
        """The profile that it breaks."""
        return self.mutant.profile or default_profile(self.format)

    def build(self) -> Iterator[Any]:
        """The targets: one, or for stochastic rounding one for each width of random words."""
        for bits in (32, 8) if self.operation == "encode_stochastic" else (32,):
            target = build_target(self.operation, self.profile, self.name, self.mutant.change, self.mutant.wrap)
            target.SR_BITS = bits
            yield target


def default_profile(fmt: str) -> str:
    """The profile of a right implementation."""
    return "nvfp4-te" if fmt == "nvfp4" else "mx-floor"


#: Operations on places.
LAYOUT_OPERATIONS = ("pack", "unpack", "swizzle", "unswizzle", "pack_blocks", "unpack_blocks")


def build_target(
    operation: str, profile: str, name: str = "plain", change: Mapping[str, Step] = _NOTHING, wrap: Mapping[str, Wrap] = _NOTHING
) -> Any:  # fmt: skip
    """A target for an operation: the plain implementation with changes."""
    if operation in LAYOUT_OPERATIONS:
        from mxspec_lab.mutants.places import Places

        return Places(name=name, wrap=wrap)
    return Plain(profile, name=name, change=change, wrap=wrap)
