"""What a probe says of the sums of tensor cores, instruction path by instruction path, and which classes that bears out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    #: Whether the compiler makes the instruction of others, which are what was asked.
    emulated: bool = False


def _is_emulated(instruction: str, capability: str) -> bool:
    """FP8 `mma.sync` is two half-precision operations on sm_90 and sm_100 to sm_110: FP8 units answer to wgmma and tcgen05."""
    major = int(capability.partition(".")[0])
    return instruction.startswith("mma.") and instruction.endswith(("e4m3", "e5m2")) and 9 <= major <= 11


def read_sums(probe: Mapping[str, Any]) -> Iterator[SumVerdict]:
    """A verdict for each instruction of a probe's `bits_kept`."""
    for name, kept in probe.get("bits_kept", {}).items():
        k = len(kept["minus_last"])
        within = {v for v in (*kept["minus_last"], *kept["minus_second"]) if v >= 0}
        across = {v for v in kept["accumulator"] if v >= 0}
        emulated = _is_emulated(name, probe["compute_capability"])
        classes = tuple(
            unit.name for unit in ACCUMULATORS.values()
            if unit.group and k % unit.group == 0 and within == {unit.fraction} and across == {unit.output_fraction} and not unit.promoted
        )  # fmt: skip
        yield SumVerdict(name, k, tuple(sorted(within)), tuple(sorted(across)), () if emulated else classes, emulated)
