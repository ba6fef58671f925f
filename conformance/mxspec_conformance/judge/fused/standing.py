"""Which contract and profile explain what a fused quantizer returned, and what they leave legal of one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.fused.contracts import Contract, get_contract, list_contracts
from mxspec.fused.evaluating import evaluate
from mxspec.fused.functions import EPS, FusedFunction, Kind, read_fused
from mxspec.fused.legality import Legality, judge_answer, list_judged
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
#: Contracts that are tried on all answers where none explains the first, and with all profiles.
_BEST = 3


class Answer(NamedTuple):
    """A case with what came back."""

    case: Case
    codes: Array
    scales: Array


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
        if self.fmt.has_tensor_scale and self.capabilities.has("quantize_fused", "tensor_scale"):
            kind = TensorScaleKind(self.capabilities.tensor_scale)
            self.tensor_scale = TensorScale.from_float(kind, _TENSOR_SCALES[kind])
            self.options["tensor_scale"] = self.tensor_scale.value
        if self.function.kind is Kind.RMSNORM and self.capabilities.has("quantize_fused", "eps"):
            self.options["eps"] = EPS

    def trim(self, given: Arrays) -> Arrays:
        """Without a weight that the target does not take."""
        return {n: array for n, array in given.items() if n != "weight" or self.capabilities.has("quantize_fused", n)}

    def lay(self, given: Arrays) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and options of a call."""
        x, arrays = self.function.lay(self.trim(given))
        return (x, self.function.name, self.fmt.name), arrays | self.options

    def list_profiles(self) -> list[Profile]:
        """The claimed profile, or all."""
        scale = self.tensor_scale
        judged = list_judged(self.fmt, with_tensor_scale=scale is not None)
        listed = [p for p in judged if scale is None or (p.tensor is not None and p.tensor.native is scale.kind)]
        return [p for p in listed if p.id in self.capabilities.claimed_profiles] or listed


@dataclass(frozen=True, slots=True)
class Standing:
    """A contract and a profile, and how many elements they do not explain."""

    subject: Subject
    contract: Contract
    profile: Profile
    wrong: int

    def judge(self, given: Arrays, codes: Array, scales: Array) -> Legality:
        """What is legal of an answer."""
        found = evaluate(self.subject.function, self.contract, self.subject.trim(given), EPS)
        return judge_answer(found, scales, codes, self.subject.fmt, self.profile, self.subject.tensor_scale)


def find_standing(subject: Subject, answers: Sequence[Answer]) -> tuple[Standing, Standing | None]:
    """The first contract that explains everything with a normative profile, or else what explains the most, by which a target is judged; and
    where that is not everything, what does with a descriptive profile."""
    ordinary = [a for a in answers if a.case.topic not in SPECIAL] or answers
    claimed, listed = subject.capabilities.fused_contract, subject.list_profiles()
    contracts = [get_contract(claimed, subject.function)] if claimed else list(list_contracts(subject.function))
    first = [p for p in listed if p.kind is ProfileKind.NORMATIVE] or listed
    found = _rank(subject, contracts, first, ordinary)
    if found[0].wrong and (others := [p for p in listed if p not in first]):
        also = _rank(subject, list(dict.fromkeys(s.contract for s in found))[:_BEST], others, ordinary)[0]
        return found[0], None if also.wrong else also
    return found[0], None


def _rank(subject: Subject, contracts: Sequence[Contract], profiles: Sequence[Profile], answers: Sequence[Answer]) -> list[Standing]:
    """Where contracts stand, the best first; one that explains all is the last that is tried. Which of them are tried on all answers, the
    first one says: those that explain it, or the nearest few."""

    def count(contract: Contract, some: Sequence[Answer]) -> list[int]:
        wrong = np.zeros(len(profiles), np.int64)
        for case, codes, scales in some:
            result = evaluate(subject.function, contract, subject.trim(case.given), EPS)
            judged = (judge_answer(result, scales, codes, subject.fmt, p, subject.tensor_scale) for p in profiles)
            wrong += [int(legal.wrong.sum()) for legal in judged]
        return wrong.tolist()

    near = [min(count(contract, answers[:1])) for contract in contracts]
    limit = sorted(near)[:_BEST][-1] if min(near) else 0
    found: list[Standing] = []
    for contract in (c for c, n in zip(contracts, near, strict=True) if n <= limit):
        wrong = count(contract, answers)
        found += [Standing(subject, contract, p, n) for p, n in zip(profiles, wrong, strict=True)]
        if not min(wrong):
            break
    return sorted(found, key=lambda s: s.wrong)
