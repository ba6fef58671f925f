"""Which contract and profile explain what a fused quantizer returned, and what they leave legal of one answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.fused import Contract, FusedFunction, Legality, evaluate, get_contract, judge_answer, list_contracts, list_judged, read_fused
from mxspec.fused.functions import EPS, Kind
from mxspec.profiles import find_profile
from mxspec.profiles.schema import Kind as ProfileKind, Profile, TensorScaleKind
from mxspec.tensorscale import TensorScale
from mxspec_conformance.judge.fused.designs import Case
from mxspec_conformance.targets.capabilities import Capabilities

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
#: Special values: what a target does with them says nothing of its contract.
SPECIAL = ("nan", "inf")
#: The tensor scale 2 in each kind: 1 would not show which is meant.
_TENSOR_SCALES = {TensorScaleKind.DECODE: 2.0, TensorScaleKind.ENCODE: 0.5, TensorScaleKind.AMAX: 5376.0}
#: Contracts with which all profiles are tried, where no normative one explains everything.
_BEST = 3


@dataclass(slots=True)
class Subject:
    """A fused quantizer as a target declares it, in one dtype."""

    name: str
    dtype: str
    capabilities: Capabilities
    function: FusedFunction = field(init=False)
    fmt: BlockFormat = field(init=False)
    #: What every call is given, if the target takes one; and as an option, with the eps of a norm.
    tensor_scale: TensorScale | None = None
    options: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.function, self.fmt = read_fused(self.name)
        if self.fmt.has_tensor_scale and self._takes("tensor_scale"):
            kind = TensorScaleKind(self.capabilities.tensor_scale)
            self.tensor_scale = TensorScale.from_float(kind, _TENSOR_SCALES[kind])
            self.options["tensor_scale"] = self.tensor_scale.value
        if self.function.kind is Kind.RMSNORM and self._takes("eps"):
            self.options["eps"] = EPS

    def _takes(self, keyword: str) -> bool:
        return self.capabilities.has("quantize_fused", keyword)

    def trim(self, given: Arrays) -> Arrays:
        """Without a weight that the target does not take."""
        return {name: array for name, array in given.items() if name != "weight" or self._takes("weight")}

    def lay(self, given: Arrays) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and options of a call."""
        x, arrays = self.function.lay(self.trim(given))
        return (x, self.function.name, self.fmt.name), arrays | self.options

    def list_profiles(self) -> list[Profile]:
        """The claimed profile, or all."""
        claimed = [p for p in map(find_profile, self.capabilities.claimed_profiles) if self.fmt.name in p.formats]
        scale = self.tensor_scale
        listed = claimed or list(list_judged(self.fmt, with_tensor_scale=scale is not None))
        return [p for p in listed if scale is None or (p.tensor is not None and p.tensor.native is scale.kind)]

    def list_contracts(self) -> Iterator[Contract]:
        """The claimed contract, or all."""
        claimed = self.capabilities.fused_contract
        yield from [get_contract(claimed, self.function)] if claimed else list_contracts(self.function)


@dataclass(frozen=True, slots=True)
class Answer:
    """A case with what came back."""

    case: Case
    codes: Array
    scales: Array


@dataclass(frozen=True, slots=True)
class Standing:
    """A contract and a profile, and how many elements they do not explain."""

    subject: Subject
    contract: Contract
    profile: Profile
    wrong: int

    def judge(self, given: Arrays, codes: Array, scales: Array) -> Legality:
        """What is legal of an answer."""
        result = evaluate(self.subject.function, self.contract, self.subject.trim(given), EPS)
        return judge_answer(result, scales, codes, self.subject.fmt, self.profile, self.subject.tensor_scale)


def find_standing(subject: Subject, answers: Sequence[Answer]) -> tuple[Standing, Standing | None]:
    """The first contract that explains everything with a normative profile, or else what explains the most, by which a target is judged; and
    where that is not everything, what does with a descriptive profile.

    Which contracts are tried on all answers the first one says: those that explain it, or the nearest few.
    """
    ordinary = [a for a in answers if a.case.topic not in SPECIAL] or answers
    listed = subject.list_profiles()
    first = [p for p in listed if p.kind is ProfileKind.NORMATIVE] or listed
    found = _rank(subject, list(subject.list_contracts()), first, ordinary)
    if found[0].wrong and (others := [p for p in listed if p not in first]):
        also = _rank(subject, list(dict.fromkeys(s.contract for s in found))[:_BEST], others, ordinary)[0]
        return found[0], None if also.wrong else also
    return found[0], None


def _rank(subject: Subject, contracts: Sequence[Contract], profiles: Sequence[Profile], answers: Sequence[Answer]) -> list[Standing]:
    """Where the nearest contracts stand, the best first; one that explains all is the last that is tried."""
    near = [min(_count(subject, contract, profiles, answers[:1])) for contract in contracts]
    limit = sorted(near)[:_BEST][-1] if min(near) else 0
    found: list[Standing] = []
    for contract in (c for c, n in zip(contracts, near, strict=True) if n <= limit):
        wrong = _count(subject, contract, profiles, answers)
        found += [Standing(subject, contract, p, n) for p, n in zip(profiles, wrong, strict=True)]
        if not min(wrong):
            break
    return sorted(found, key=lambda s: s.wrong)


def _count(subject: Subject, contract: Contract, profiles: Sequence[Profile], answers: Sequence[Answer]) -> list[int]:
    """How many elements are not explained, by profile."""
    wrong = np.zeros(len(profiles), np.int64)
    for answer in answers:
        result = evaluate(subject.function, contract, subject.trim(answer.case.given), EPS)
        judged = (judge_answer(result, answer.scales, answer.codes, subject.fmt, p, subject.tensor_scale) for p in profiles)
        wrong += [int(legal.wrong.sum()) for legal in judged]
    return wrong.tolist()
