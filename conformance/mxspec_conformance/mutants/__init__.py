"""Mutants: right implementations with one mistake each, and which cases of the vectors find them out."""

from __future__ import annotations

from functools import lru_cache

from mxspec_conformance.mutants import (
    call_mutants,
    decode_mutants,
    layout_mutants,
    placement_mutants,
    rounding_mutants,
    scale_mutants,
    two_level_mutants,
)
from mxspec_conformance.mutants.instance import Instance, list_instances_of
from mxspec_conformance.mutants.schema import Family, Mutant

__all__ = ["Family", "Instance", "Mutant", "list_instances", "list_mutants"]


@lru_cache(maxsize=1)
def list_mutants() -> tuple[Mutant, ...]:
    """The catalogue, the known bugs of each module first.

    Raises ValueError where an id is taken twice.
    """
    found: dict[str, Mutant] = {}
    for module in (rounding_mutants, decode_mutants, scale_mutants, two_level_mutants, layout_mutants, call_mutants, placement_mutants):
        for mutant in module.MUTANTS:
            if mutant.id in found:
                raise ValueError(f"two mutants are named {mutant.id!r}")
            found[mutant.id] = mutant
    return tuple(found.values())


def list_instances() -> tuple[Instance, ...]:
    """Every mutant in every operation and format that it is judged in."""
    return tuple(instance for mutant in list_mutants() for instance in list_instances_of(mutant))
