"""The questions that gpu/probe/mxprobe.cu asks tensor cores, put to a class of the model: one answer for each place of the small term.

An instruction longer than a unit's group is several steps, and its places answer differently: where the large term and its negative
are gone before the small term's group begins, nothing cuts it, and where only one of them has been handed on, the sum's bits count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mxspec.dot import Accumulator, exact_factor, simulate_product
from mxspec_lab.probe_names import RANGES, Instruction


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
