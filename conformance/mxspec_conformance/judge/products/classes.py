"""The class of additions and the contract of operands that explain what a target returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mxspec.dot import ACCUMULATORS, Accumulator, OperandContract
from mxspec_conformance.judge.products.asked import Asked
from mxspec_conformance.judge.products.reference import list_contracts
from mxspec_conformance.targets.operands import Product

#: Topics that say nothing of how sums are rounded.
ASIDE = ("zero-block",)
#: Topics that no class of additions explains.
UNROUNDED = (*ASIDE, "nan", "inf", "overflow")


def list_asked(product: Product, declared: str) -> Sequence[OperandContract]:
    """The contract that a target claims, or all; a product whose sides do not have the claimed one is judged by all.

    Plain float32 numbers are what they are: only who claims it may round them.
    """
    known = list_contracts(product)
    return [c for c in known if c.text == declared] or [c for c in known if not c.plain]


def find_contract(asked: Sequence[Asked], contracts: Sequence[OperandContract], judged: Accumulator) -> OperandContract:
    """The contract under which the fewest cases are wrong, the first of equals.

    What a narrower float makes of the ends of the scales does not speak for it: a kernel may be wrong there alone.
    """
    order = [x for x in asked if x.case.topic != "scale-code"]
    best, fewest = contracts[0], len(order) + 1
    for contract in contracts:
        wrong: list[Asked] = []
        for x in order:
            if not x.is_right(judged, contract):
                wrong.append(x)
                if len(wrong) >= fewest:
                    break
        if len(wrong) < fewest:
            best, fewest = contract, len(wrong)
            # What is wrong under one contract is mostly wrong under the next: it decides soonest that that one is no better.
            wrong_ids = {id(x) for x in wrong}
            order = [*wrong, *(x for x in order if id(x) not in wrong_ids)]
        if not fewest:
            break
    return best


def list_fitting(asked: Sequence[Asked], contracts: Sequence[OperandContract], judged: Accumulator) -> tuple[OperandContract, ...]:
    """Every contract under which no case is wrong, the first of them first; where there is none, that of the fewest wrong cases."""
    best = find_contract(asked, contracts, judged)
    order = [x for x in asked if x.case.topic != "scale-code"]
    if not all(x.is_right(judged, best) for x in order):
        return (best,)
    found = [best]
    for contract in contracts[contracts.index(best) + 1 :]:
        wrong = next((x for x in order if not x.is_right(judged, contract)), None)
        if wrong is None:
            found.append(contract)
        else:  # what tells one contract apart mostly tells the next one apart
            order.remove(wrong)
            order.insert(0, wrong)
    return tuple(found)


def find_class(
    ask_for: Callable[[Accumulator], Iterable[Asked]], asked: Sequence[Asked], contracts: Sequence[OperandContract]
) -> tuple[Accumulator, OperandContract] | None:
    """The first class, from the most demanding one, that allows every output; None where there is none.

    ask_for: asks the target for sums of a class. asked: those first that are the likeliest to rule a class out.

    The interval of a coarse class holds much that is wrong for other reasons. The target is therefore asked once more, for sums
    that have one result even in that class.
    """
    used = [x for x in asked if x.case.topic not in UNROUNDED]
    for accumulator in ACCUMULATORS.values():
        for contract in contracts:
            if not all(x.is_right(accumulator, contract) for x in used):
                continue
            if all(x.is_right(accumulator, contract) for x in ask_for(accumulator) if x.case.topic not in UNROUNDED):
                return accumulator, contract
    return None
