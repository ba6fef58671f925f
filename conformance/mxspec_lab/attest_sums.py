"""What a probe says of the sums of tensor cores, instruction path by instruction path, and which classes that bears out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mxspec.dot import ACCUMULATORS


@dataclass(frozen=True, slots=True)
class SumVerdict:
    """One instruction's."""

    instruction: str
    #: Products that the instruction adds.
    k: int
    #: Bits below the largest exponent that count among the products, and in the sum that is handed on; ascending.
    within: tuple[int, ...]
    across: tuple[int, ...]
    #: Classes of `mxspec.dot` with these bits that the chip's products of this length may be: an instruction may add in several groups.
    classes: tuple[str, ...]
    #: The instruction path, which has a unit of its own.
    path: str
    #: Whether the compiler makes the instruction of others, which are what was asked.
    emulated: bool = False
    #: Bits that the questions go up to, within and across, where the probe says so: of a unit that kept as many it may keep more.
    asked_up_to: tuple[int, int] | None = None

    @property
    def open_ends(self) -> tuple[bool, bool]:
        """Whether the unit kept, within and across, all that was asked, and so may keep more."""
        within, across = self.asked_up_to or (-1, -1)
        return within in self.within, across in self.across


#: How a path's instructions begin.
PATHS = {"mma.": "mma.sync", "wgmma.": "wgmma", "tcgen05.mma.": "tcgen05.mma"}


def find_path(instruction: str) -> str:
    """The path of an instruction as the probe names it.

    Raises ValueError for one of no known path.
    """
    for start, path in PATHS.items():
        if instruction.startswith(start):
            return path
    raise ValueError(f"{instruction!r} is of none of the paths {', '.join(PATHS.values())}")


def _is_emulated(instruction: str, capability: str) -> bool:
    """FP8 `mma.sync` is two half-precision operations on sm_90 and sm_100 to sm_110: FP8 units answer to wgmma and tcgen05."""
    major = int(capability.partition(".")[0])
    return instruction.startswith("mma.") and instruction.endswith(("e4m3", "e5m2")) and 9 <= major <= 11


def read_sums(probe: Mapping[str, Any]) -> Iterator[SumVerdict]:
    """A verdict for each instruction of a probe's `bits_kept`.

    Raises ValueError for an instruction of no known path.
    """
    for name, kept in probe.get("bits_kept", {}).items():
        k = len(kept["minus_last"])
        within = {v for v in (*kept["minus_last"], *kept["minus_second"]) if v >= 0}
        across = {v for v in kept["accumulator"] if v >= 0}
        emulated = _is_emulated(name, probe["compute_capability"])
        asked = None
        if "asked_up_to" in kept:
            most_within, most_across = map(int, kept["asked_up_to"])
            asked = (most_within, most_across)
        verdict = SumVerdict(name, k, tuple(sorted(within)), tuple(sorted(across)), (), find_path(name), emulated, asked)
        if not emulated and not any(verdict.open_ends):
            verdict = replace(verdict, classes=tuple(_find_classes(verdict)))
        yield verdict


def _find_classes(verdict: SumVerdict) -> Iterator[str]:
    for unit in ACCUMULATORS.values():
        divides = unit.group and verdict.k % unit.group == 0
        if divides and not unit.promoted and (verdict.within, verdict.across) == ((unit.fraction,), (unit.output_fraction,)):
            yield unit.name


def show_bits(verdict: SumVerdict) -> str:
    """Both numbers of bits in words: "25, 23", "6 or more, 23"."""
    pairs = zip((verdict.within, verdict.across), verdict.open_ends, strict=True)
    return ", ".join(("/".join(map(str, bits)) or "-") + (" or more" if more else "") for bits, more in pairs)


def read_unanswered(probe: Mapping[str, Any]) -> dict[str, str]:
    """Instructions that the probe asked in vain, and why: what it says of them is no answer of the chip's.

    Raises ValueError if one of them has numbers nevertheless, or is of no known path.
    """
    unanswered = {name: str(why) for name, why in probe.get("unanswered", {}).items()}
    for name in unanswered:
        find_path(name)
    both = unanswered.keys() & probe.get("bits_kept", {}).keys()
    if both:
        raise ValueError(f"{', '.join(sorted(both))} is both answered and unanswered")
    return unanswered
