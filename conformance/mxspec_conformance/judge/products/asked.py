"""Cases that a target was given, what it returned, and whether that is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import ge
from typing import Any

from mxspec.dot import Accumulator, OperandContract
from mxspec_conformance.judge.products.calls import OPERATION
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.reference import Reference, allow, is_same_factor, make_sides, refer
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.operands import Product
from mxspec_conformance.targets.product_fitting import SizedSession, SizeWatch
from mxspec_conformance.targets.sessions import TargetSession


@dataclass(frozen=True, slots=True)
class Asked:
    """A case and what the target returned."""

    case: ProductCase
    answer: Any
    #: OperandContract -> exact sums, found when first needed.
    references: dict[OperandContract, Reference] = field(default_factory=dict)
    #: (class, id of the sums) -> whether all outputs are allowed, and how many have one right result.
    verdicts: dict[tuple[str, int], tuple[bool, int]] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int, int]:
        """m, n and k."""
        return len(self.case.a.held), len(self.case.b.held), self.case.a.shape[1]

    @property
    def output(self) -> Any:
        """The outputs; None where there are none."""
        return None if isinstance(self.answer, NoAnswer) else self.answer

    def refer(self, contract: OperandContract) -> Reference:
        """The exact sums under a contract; most cases are made of numbers that no contract rounds, and have one for all."""
        if contract not in self.references:
            a, b = make_sides(self.case, contract)
            known = (r for r in self.references.values() if is_same_factor(r.a, a) and is_same_factor(r.b, b))
            self.references[contract] = next(known, None) or refer(a, b)
        return self.references[contract]

    def is_right(self, accumulator: Accumulator, contract: OperandContract) -> bool:
        """Whether all outputs are allowed; an answer that never came is neither right nor wrong."""
        return self.output is None or self.judge(accumulator, contract)[0]

    def count_certain(self, accumulator: Accumulator, contract: OperandContract) -> int:
        """How many outputs have one right result; the target has to have answered."""
        return self.judge(accumulator, contract)[1]

    def judge(self, accumulator: Accumulator, contract: OperandContract) -> tuple[bool, int]:
        """Both."""
        reference = self.refer(contract)
        asked = accumulator.name, id(reference)
        if asked not in self.verdicts:
            allowed = allow(reference, self.case, accumulator)
            self.verdicts[asked] = bool(allowed.accepts(self.output).all()), int(allowed.decided.sum())
        return self.verdicts[asked]


def is_limit(x: Asked, asked: Sequence[Asked]) -> bool:
    """Whether a call was refused that is larger than all that were answered: a kernel ends somewhere, and says so."""
    refused = isinstance(x.answer, NoAnswer) and x.answer.is_refusal
    answered = [y.size for y in asked if y.output is not None]
    return refused and bool(answered) and not any(all(map(ge, size, x.size)) for size in answered)


def ask_cases(session: TargetSession, cases: Sequence[ProductCase]) -> list[Asked]:
    """What the target returns for each case, one call each, in order."""
    failures = Counter[FailureKind]()
    return [Asked(case, run_bisected([case], partial(answer_cases, session), failures=failures)[0]) for case in cases]


def ask_watched(session: TargetSession, product: Product, cases: Sequence[ProductCase]) -> tuple[list[Asked], SizedSession | None]:
    """As `ask_cases`, up to where the calls show that the target takes other sizes: with a session of those."""
    failures, watch, asked = Counter[FailureKind](), SizeWatch(session, product), list[Asked]()
    for case in cases:
        ask = partial(run_bisected, [case], partial(answer_cases, session), failures=failures)
        answer, sized = watch.see_time((len(case.b.held), case.a.shape[1]), ask)
        asked.append(x := Asked(case, answer[0]))
        if x.output is None and x.answer.is_refusal and not is_limit(x, asked):
            sized = watch.see_refusal()
            if watch.first is not None and all(y.output is None for y in asked):
                a, b, dtype, output = watch.first
                asked.append(Asked(ProductCase(topic="state", label="the first call that was answered", a=a, b=b, out_dtype=dtype), output))
        if sized is not None:
            return asked, sized
    return asked, None


def ask_case(session: TargetSession, case: ProductCase) -> Any:
    """What the target returns for one case, or `NoAnswer`."""
    return run_bisected([case], partial(answer_cases, session))[0]


def call_case(session: TargetSession, case: ProductCase) -> Any:
    """The outputs of one case.

    Raises CallError where the target does not answer.
    """
    return session.call(*case.before, OPERATION, case.a.as_data(), case.b.as_data(), case.out_dtype, **case.options)


def answer_cases(session: TargetSession, cases: Sequence[ProductCase]) -> list[Any]:
    return [call_case(session, case) for case in cases]
