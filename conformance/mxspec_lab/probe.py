"""What gpu/probe/mxprobe.cu writes: its instructions by name, its questions to tensor cores, what a whole file holds, and what its sums bear out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from mxspec.dot import ACCUMULATORS, Accumulator, exact_factor, simulate_product
from mxspec_vectors.schemas import compile_schema, first_violation

#: How a path's instructions begin.
PATHS = {"mma.": "mma.sync", "wgmma.": "wgmma", "tcgen05.mma.": "tcgen05.mma"}
#: Format -> exponents of the small term, of the largest product, and of the largest sum that is handed on.
RANGES: dict[str, tuple[int, int, int]] = {
    "f16": (-24, 30, 30), "bf16": (-40, 40, 40), "tf32": (-40, 40, 40), "e4m3": (-12, 16, 16), "e5m2": (-24, 30, 30),
    "e2m3": (-6, 4, 34), "e3m2": (-8, 8, 32), "e2m1": (-2, 4, 38),
}  # fmt: skip
#: Formats of four and six bits have instructions on the last path alone.
_NAME = re.compile(
    r"(mma|wgmma)\.m\d+n\d+k(?P<k>8|16|32)\.f32\.(?P<fmt>f16|bf16|tf32|e4m3|e5m2)"
    r"|tcgen05\.mma\.(f16|tf32|f8f6f4|mxf8f6f4|mxf4|mxf4nvf4)\.m\d+n\d+k(?P<long>8|16|32|64)\.f32\.(?P<any>f16|bf16|tf32|e[0-9]m[0-9])"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a name says."""

    name: str
    path: str
    #: Products that it adds.
    k: int
    format: str

    @property
    def asked_up_to(self) -> tuple[int, int]:
        """The most bits that the questions can find: among products, and in the sum that is handed on."""
        low, high, above = RANGES[self.format]
        return high - low, above - low


def find_path(instruction: str) -> str:
    """The path of an instruction as the probe names it.

    Raises ValueError for one of no known path.
    """
    for start, path in PATHS.items():
        if instruction.startswith(start):
            return path
    raise ValueError(f"{instruction!r} is of none of the paths {', '.join(PATHS.values())}")


def read_name(name: str) -> Instruction:
    """An instruction by the name that the probe gives it.

    Raises ValueError for a name that the probe does not write.
    """
    path = find_path(name)
    found = _NAME.fullmatch(name)
    fmt = found and (found["fmt"] or found["any"])
    if found is None or fmt not in RANGES:
        raise ValueError(f"{name!r} is no name of an instruction that the probe asks, such as mma.m16n8k16.f32.f16")
    return Instruction(name, path, int(found["k"] or found["long"]), fmt)


# Questions. An instruction longer than a unit's group is several steps, and its places answer differently: where the large term and its
# negative are gone before the small term's group begins, nothing cuts it, and where only one of them was handed on, the sum's bits count.


@dataclass(frozen=True, slots=True)
class Question:
    """Where the negative of the large term stands; None: the large term is C, and is taken away by a second operation."""

    key: str
    minus_at: int | None

    def asks(self, place: int) -> bool:
        """Whether the small term can stand there; where it cannot, the probe writes -1."""
        return place not in (0, self.minus_at)


def list_questions(k: int) -> tuple[Question, ...]:
    """The questions to an instruction of k products, by the names that their answers have."""
    return Question("minus_last", k - 1), Question("minus_second", 1), Question("accumulator", None)


@lru_cache(maxsize=1024)
def answer_question(unit: Accumulator, instruction: Instruction, question: Question) -> tuple[int, ...]:
    """For each place the largest t up to which 2**t + 1 - 2**t, scaled, is 1; -1: not asked, or not even for t = 0."""
    low, high, above = RANGES[instruction.format]
    most = (above if question.minus_at is None else high) - low
    k, places = instruction.k, [p for p in range(instruction.k) if question.asks(p)]
    # A step ahead hands on C exactly: it is a power of two.
    ahead = unit.group if question.minus_at is None else 0
    terms = np.zeros((len(places), most + 1, ahead + k))
    large = np.ldexp(1.0, low + np.arange(most + 1))
    terms[:, :, 0] = large
    for row, place in enumerate(places):
        terms[row, :, ahead + place] = 2.0**low
    if question.minus_at is not None:
        terms[:, :, question.minus_at] = -large
    sums = simulate_product(exact_factor(terms.reshape(-1, ahead + k)), exact_factor(np.ones((1, ahead + k))), unit)
    found = sums.reshape(len(places), most + 1) - (large if question.minus_at is None else 0.0)
    right = found == 2.0**low
    kept = np.where(right.all(axis=1), most, right.argmin(axis=1) - 1)
    answers = dict(zip(places, kept.tolist(), strict=True))
    return tuple(answers.get(place, -1) for place in range(k))


def can_be(unit: Accumulator, instruction: Instruction) -> bool:
    """Whether a class may be one instruction's: no group of products spans two, and no sum outlives one."""
    return bool(unit.group) and instruction.k % unit.group == 0 and not unit.promoted


# The file: one with parts that are missing, of another type or cut short is refused by the place.

#: Conversions that change with almost every pattern: the probe compares them itself, and counts.
CASTS = ("cvt.rn.f16.f32", "cvt.rn.bf16.f32")
#: Changes of a conversion's answer that the probe lists; of more it says how many.
MOST_RUNS = 1 << 13
_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 1 << 32}
_PATTERN = {"type": "string", "pattern": "^([0-9a-f]{4}|[0-9a-f]{8})$"}
#: Bits that a unit kept of a product, by its place. -1: nothing was asked there, or not one bit was kept.
_KEPT = {"type": "array", "items": {"type": "integer", "minimum": -1}, "minItems": 1}
#: For each of nine numbers the codes of four elements under each of 32 words.
_CODES = {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-f]{4}( [0-9a-f]{4}){31}$"}, "minItems": 9, "maxItems": 9}


def _object(optional: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _named(inner: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": inner}


#: "pattern:answer" where the answer changes, from the first pattern on.
_RUNS = {"type": "string", "pattern": "^00000000:[0-9a-f]{2}( [0-9a-f]{8}:[0-9a-f]{2})*$"}
_CONVERSION = _object(
    ("runs", "different_from_nearest_even", "too_many_runs"),
    inputs={"enum": [1 << 16, 1 << 32]}, runs=_RUNS, different_from_nearest_even=_COUNT, too_many_runs=_COUNT,
) | {"minProperties": 2, "maxProperties": 2}  # fmt: skip

SHAPE: Mapping[str, Any] = _object(
    ("unanswered",),
    schema=_TEXT, device=_TEXT, vendor={"enum": ["nvidia", "amd"]}, compute_capability={"type": "string", "pattern": "^[0-9]{1,3}\\.[0-9]{1,3}$"},
    driver={"type": "integer"}, runtime={"type": "integer"}, conversions=_named(_CONVERSION),
    reciprocal=_object(
        instruction=_TEXT, table_crc32={"type": "string", "pattern": "^[0-9a-f]{8}$"}, least={"type": "integer"}, largest={"type": "integer"},
        below=_COUNT, above=_COUNT, inputs={"const": 1 << 32}, different_from_table=_COUNT,
    ),
    subnormals=_object(("bf16x2", "f16x2"), mul=_PATTERN, mul_up=_PATTERN, sub=_PATTERN, fma=_PATTERN, bf16x2=_PATTERN, f16x2=_PATTERN),
    stochastic=_named(_CODES),
    bits_kept=_named(
        _object(("asked_up_to",), minus_last=_KEPT, minus_second=_KEPT, accumulator=_KEPT, asked_up_to=_KEPT | {"minItems": 2, "maxItems": 2})
    ),
    unanswered=_named(_TEXT),
)  # fmt: skip


def check_probe(document: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the place, where a document is not whole or says what the probe cannot."""
    violation = first_violation(compile_schema(SHAPE), document)
    if violation is not None:
        raise ValueError(str(violation)[:200])
    for name, seen in document["conversions"].items():
        _check_conversion(name, seen)
    _check_reciprocal(document["reciprocal"])
    for name, kept in document["bits_kept"].items():
        _check_bits(name, kept)


def _check_conversion(name: str, seen: Mapping[str, Any]) -> None:
    if (name in CASTS) != ("different_from_nearest_even" in seen):
        fields = "different_from_nearest_even" if name in CASTS else "runs or too_many_runs"
        raise ValueError(f"{name}: the probe writes its {fields}, not {', '.join(sorted(seen.keys() - {'inputs'}))}")
    if seen.get("too_many_runs", MOST_RUNS + 1) <= MOST_RUNS:
        raise ValueError(f"{name}: {seen['too_many_runs']} runs are not too many; the probe lists up to {MOST_RUNS}")
    runs = seen.get("runs", "").split()
    if any(a[9:] == b[9:] for a, b in pairwise(runs)):
        raise ValueError(f"{name}: its runs hold the same answer twice in a row; the probe lists changes")
    starts = [int(run[:8], 16) for run in runs]
    if any(a >= b for a, b in pairwise([*starts, seen["inputs"]])):
        raise ValueError(f"{name}: its runs do not ascend to {seen['inputs']} inputs")


def _check_reciprocal(seen: Mapping[str, Any]) -> None:
    """The table's numbers hold together, whoever's it is."""
    least, largest, below, above = (int(seen[key]) for key in ("least", "largest", "below", "above"))
    whole = -127 <= least <= 0 <= largest <= 127 and (least < 0) == (below > 0) and (largest > 0) == (above > 0)
    if not whole or below + above > 1 << 23:
        raise ValueError(f"reciprocal: no table of 2^23 differences has {below} below and {above} above zero, from {least} to {largest}")


def _check_bits(name: str, kept: Mapping[str, Any]) -> None:
    instruction = read_name(name)
    within, across = instruction.asked_up_to
    if list(kept.get("asked_up_to", (within, across))) != [within, across]:
        raise ValueError(f"{name}: asked_up_to is {kept['asked_up_to']}; the probe asks up to {[within, across]}")
    counts = {len(kept[q.key]) for q in list_questions(instruction.k)}
    if counts != {instruction.k}:
        raise ValueError(f"{name}: it adds {instruction.k} products, and there are {' and '.join(map(str, sorted(counts)))} answers")
    for question in list_questions(instruction.k):
        most = across if question.minus_at is None else within
        for place, bits in enumerate(kept[question.key]):
            if bits != -1 and not question.asks(place):
                raise ValueError(f"{name}: {question.key} has {bits} at place {place}, where nothing is asked and the probe writes -1")
            if bits > most:
                raise ValueError(f"{name}: {question.key} has {bits} bits at place {place}; the probe asks up to {most}")


# Sums of tensor cores, instruction path by instruction path, and which classes they bear out


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
        bits = {q.key: {v for place, v in enumerate(kept[q.key]) if q.asks(place)} for q in list_questions(instruction.k)}
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
        if can_be(unit, instruction) and all(answer_question(unit, instruction, q) == tuple(kept[q.key]) for q in questions):
            yield unit.name


def show_bits(verdict: SumVerdict) -> str:
    """Both numbers of bits in words: "25, 23", "6 or more, 23", "none/25, 23"."""
    pairs = zip((verdict.within, verdict.across), verdict.open_ends, strict=True)
    return ", ".join(("/".join("none" if b < 0 else str(b) for b in bits) or "-") + (" or more" if more else "") for bits, more in pairs)


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
