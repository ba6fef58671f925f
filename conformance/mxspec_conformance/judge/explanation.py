"""What would have returned the bits that are wrong: as a type, so that no verdict hangs on its words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from mxspec.rounding import Rounding

ROUNDING_TEXT = {
    Rounding.RNE: "nearest, ties to even",
    Rounding.RNA: "nearest, ties away from zero",
    Rounding.RNZ: "nearest, ties toward zero",
    Rounding.RNU: "nearest, ties up",
    Rounding.RTZ: "toward zero",
    Rounding.RTN: "toward -infinity",
    Rounding.RTP: "toward +infinity",
}


class Cause(IntEnum):
    """What kind of thing explains wrong bits."""

    #: Another profile: the requirement is a deviation, not a failure.
    PROFILE = 0
    #: The judged profile, its elements rounded otherwise.
    PROFILE_ROUNDED = 1
    #: A conversion in another rounding mode.
    ROUNDING = 2
    #: Another storage layout.
    LAYOUT = 3
    #: A known mistake in this layout.
    LAYOUT_MISTAKE = 4
    #: A known mistake with affine integers.
    AFFINE_MISTAKE = 5


@dataclass(frozen=True, slots=True)
class Explanation:
    """One thing that would have returned the same bits."""

    cause: Cause
    #: A profile, a layout, or the mistake in words; empty for a rounding mode.
    name: str = ""
    rounding: Rounding | None = None

    @property
    def text(self) -> str:
        """For people."""
        if self.cause is Cause.PROFILE_ROUNDED:
            assert self.rounding is not None
            return f"{self.name} with elements rounded {ROUNDING_TEXT[self.rounding]}"
        if self.cause is Cause.ROUNDING:
            assert self.rounding is not None
            return f"rounding {self.rounding.value}"
        if self.cause is Cause.LAYOUT:
            return f"layout {self.name}"
        return self.name


def by_profile(name: str) -> Explanation:
    """A profile gives these bits."""
    return Explanation(Cause.PROFILE, name)


def by_profiles(names: frozenset[str] | set[str] | list[str]) -> frozenset[Explanation]:
    """Each of these profiles gives these bits."""
    return frozenset(map(by_profile, names))
