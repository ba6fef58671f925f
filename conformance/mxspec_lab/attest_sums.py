"""What a probe says of the sums of tensor cores, instruction path by instruction path, and which classes that bears out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mxspec.dot import ACCUMULATORS
from mxspec_lab.probe_names import Instruction, read_name
from mxspec_lab.probe_questions import answer_question, can_be, list_questions


@dataclass(frozen=True, slots=True)
class SumVerdict:
    """One instruction's."""

    instruction: str
    #: Products that the instruction adds.
    k: int
    #: Bits below the largest exponent that count among the products, and in the sum that is handed on; ascending. -1: not even
    #: a term of the large one's size.
    within: tuple[int, ...]
    across: tuple[int, ...]
    #: Classes of `mxspec.dot` that give every answer of the instruction, place by place.
    classes: tuple[str, ...]
    #: The instruction path, which has a unit of its own.
    path: str
    #: Bits that the questions go up to, within and across: where a unit kept as many it may keep more.
    asked_up_to: tuple[int, int]
    #: Whether the compiler makes the instruction of others, which are what was asked.
    emulated: bool = False

    @property
    def open_ends(self) -> tuple[bool, bool]:
        """Whether some place, within and across, kept all that was asked."""
        return self.asked_up_to[0] in self.within, self.asked_up_to[1] in self.across

    @property
    def is_blind(self) -> bool:
        """Whether no question found an end of the unit's bits, within or across: then nothing tells classes apart."""
        return self.within == self.asked_up_to[:1] or self.across == self.asked_up_to[1:]


def _is_emulated(instruction: Instruction, capability: str) -> bool:
    """FP8 `mma.sync` is two half-precision operations on sm_90 and sm_100 to sm_110: FP8 units answer to wgmma and tcgen05."""
    major = int(capability.partition(".")[0])
    return instruction.path == "mma.sync" and instruction.format in ("e4m3", "e5m2") and 9 <= major <= 11


def read_sums(probe: Mapping[str, Any]) -> Iterator[SumVerdict]:
    """A verdict for each instruction of a probe's `bits_kept`.

    Raises ValueError for an instruction that the probe does not ask.
    """
    for name, kept in probe.get("bits_kept", {}).items():
        instruction = read_name(name)
        bits = {
            q.key: {v for place, v in enumerate(kept[q.key]) if q.asks(place)} for q in list_questions(instruction.k)
        }
        verdict = SumVerdict(
            name, instruction.k, tuple(sorted(bits["minus_last"] | bits["minus_second"])), tuple(sorted(bits["accumulator"])),
            (), instruction.path, instruction.asked_up_to, _is_emulated(instruction, probe["compute_capability"]),
        )  # fmt: skip
        if not verdict.emulated and not verdict.is_blind:
            verdict = replace(verdict, classes=tuple(find_classes(instruction, kept)))
        yield verdict


def find_classes(instruction: Instruction, kept: Mapping[str, Any]) -> Iterator[str]:
    """The classes that answer every question at every place as the instruction did."""
    questions = list_questions(instruction.k)
    for unit in ACCUMULATORS.values():
        if can_be(unit, instruction) and all(
            answer_question(unit, instruction, q) == tuple(kept[q.key]) for q in questions
        ):
            yield unit.name


def show_bits(verdict: SumVerdict) -> str:
    """Both numbers of bits in words: "25, 23", "6 or more, 23", "none/25, 23"."""
    pairs = zip((verdict.within, verdict.across), verdict.open_ends, strict=True)
    return ", ".join(
        ("/".join("none" if b < 0 else str(b) for b in bits) or "-") + (" or more" if more else "") for bits, more in pairs
    )


def read_unanswered(probe: Mapping[str, Any]) -> dict[str, str]:
    """Instructions that the probe asked in vain, and why: what it says of them is no answer of the chip's.

    Raises ValueError if one of them has numbers nevertheless, or is none that the probe asks.
    """
    unanswered = {name: str(why) for name, why in probe.get("unanswered", {}).items()}
    for name in unanswered:
        read_name(name)
    both = unanswered.keys() & probe.get("bits_kept", {}).keys()
    if both:
        raise ValueError(f"{', '.join(sorted(both))} is both answered and unanswered")
    return unanswered
