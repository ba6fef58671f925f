"""A mutant in one operation and format, and the targets that it is judged by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mxspec_conformance.mutants.layout_mutants import Places
from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.mutants.schema import Mutant
from mxspec_conformance.mutants.staged import NOTHING, Step, Wrap


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


def list_instances_of(mutant: Mutant) -> Iterator[Instance]:
    """Each operation and format that a mutant is judged in."""
    for operation in mutant.operations:
        for fmt in mutant.formats:
            yield Instance(mutant, operation, fmt)


def default_profile(fmt: str) -> str:
    """The profile of a right implementation."""
    return "nvfp4-te" if fmt == "nvfp4" else "mx-floor"


#: Operations on places.
LAYOUT_OPERATIONS = ("pack", "unpack", "swizzle", "unswizzle", "pack_blocks", "unpack_blocks")


def build_target(
    operation: str, profile: str, name: str = "plain", change: Mapping[str, Step] = NOTHING, wrap: Mapping[str, Wrap] = NOTHING
) -> Any:  # fmt: skip
    """A target for an operation: the plain implementation with changes."""
    if operation in LAYOUT_OPERATIONS:
        return Places(name=name, wrap=wrap)
    return Reference(profile, name=name, change=change, wrap=wrap)
