"""Judging `matmul`: every output equal where one result is certain, elsewhere inside what its class of accumulations allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, EXACTLY, Accumulator, OperandContract
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.invariance.history import Verb
from mxspec_conformance.judge.products.asked import Asked, ask_case, ask_cases, ask_watched, is_limit
from mxspec_conformance.judge.products.calls import OPERATION, judge_product_calls
from mxspec_conformance.judge.products.cases import list_cases, list_equal_shapes
from mxspec_conformance.judge.products.classes import ASIDE, find_class, find_contract, list_asked
from mxspec_conformance.judge.products.cuts import find_cuts
from mxspec_conformance.judge.products.large_calls import judge_large_calls
from mxspec_conformance.judge.products.mistakes import list_mistakes
from mxspec_conformance.judge.products.naming import _SPECIAL, describe_common, find_rule, name_mistakes, naming_contract
from mxspec_conformance.judge.products.shrinking import Wrong, describe_places, describe_wrong, find_wrong, shrink_product
from mxspec_conformance.judge.products.whole_calls import judge_whole_call
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.judge.wanted import EVERYTHING, Wanted
from mxspec_conformance.observations.bisection import NoAnswer, unsupported
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.results.report import Failure, FormatResult, Requirement, Verdict
from mxspec_conformance.targets.capabilities import PRODUCTS
from mxspec_conformance.targets.operands import Product
from mxspec_conformance.targets.product_fitting import SizedSession
from mxspec_conformance.targets.product_sizes import Sizes, find_sizes
from mxspec_conformance.targets.sessions import TargetSession

#: Topics of calls that give what other calls gave: a kernel whose sums are wrong is not wrong here as well.
_CALLS = ("state", "memory")
#: Shapes with wrong outputs in which it is asked where k is cut, of different k.
_CUT_SHAPES = 4
#: Topics of sums that a coarser class brings elsewhere: without a wrong one of these, nothing is wrong with the additions.
ROUNDED = ("sum", "interval")


def list_products(session: TargetSession) -> list[tuple[str, str, Any]]:
    """The products that a target computes, plain and grouped: the function, the name that its requirements have, the product."""
    named: list[tuple[str, str, Any]] = []
    for function, (_, key, parse) in PRODUCTS.items():
        for product in map(parse, getattr(session.capabilities, key)):
            same = sum((f, p.name) == (function, product.name) for f, _, p in named)
            named.append((function, f"{product.name}#{same + 1}" if same else product.name, product))
    return named


def judge_product(
    session: TargetSession, name: str, product: Product, wanted: Wanted = EVERYTHING, before: Sequence[Asked] = ()
) -> tuple[list[Requirement], FormatResult]:
    """The requirements of one product, those that are wanted and what decides them, and what it is like.

    before: calls that were answered before its sizes were found, which are judged as well.
    """
    capabilities = session.capabilities
    declared = capabilities.accumulator
    judged = ACCUMULATORS[declared or DEFAULT_ACCUMULATOR]
    cases = [case for case in list_cases(product, capabilities, judged) if keeps(OPERATION, name, case.label)]
    asked, sized = ask_watched(session, product, cases)
    if sized is not None:
        return judge_product(sized, name, product, wanted, [*before, *(x for x in asked if x.output is not None)])
    asked = [*before, *asked]
    contracts = list_asked(product, capabilities.contract)
    contract = find_contract(asked, contracts, judged)
    other = [x for x in asked if not x.is_right(judged, contract)]
    unlike = {id(x) for x in other}
    right = [x for x in asked if id(x) not in unlike and x.output is not None and x.case.topic not in ASIDE]
    wrong, unsteady = _leave_out_repeated(session, other)
    wrong_ids = {id(x) for x in wrong}
    scorecard = Scorecard(OPERATION, name, wanted)
    named = name_mistakes(wrong, right, judged, naming_contract(product, contract))
    likely = named if any(named.values()) else name_mistakes(wrong, right, judged, naming_contract(product, contract), by_size=True)
    # What becomes of a NaN may have a reason of its own: cutting bits off one makes an infinity.
    by_mistake = wrong and frozenset.intersection(*(likely[id(x)] for x in [x for x in wrong if x.case.topic not in _SPECIAL] or wrong))
    rounded = not by_mistake and not declared and any(x.case.topic in ROUNDED for x in wrong)
    ordered = [*wrong, *(x for x in asked if id(x) not in wrong_ids)]
    found = find_class(lambda a: ask_cases(session, list_cases(product, capabilities, a)), ordered, contracts) if rounded else None
    parted = "" if by_mistake else describe_partial_sums(session, product, asked, wrong)
    # Next to what a mistake explains, numbers may be wrong in some sizes alone.
    partly = found is None and not parted and any(named.values())
    rest = [x for x in wrong if not named[id(x)] and x.case.topic not in _SPECIAL] if partly else wrong
    rule = None if found is not None or parted else find_rule(rest, right)
    if rule is not None and not partly:
        there = name_mistakes(wrong, list(filter(rule.holds, right)), judged, naming_contract(product, contract))
        named = {key: frozenset(replace(e, name=f"{rule.text}, {e.name}") for e in each) for key, each in there.items()}
    if found is None and not parted and not any(named.values()):
        named = likely
    for x in asked:
        if isinstance(x.answer, NoAnswer):
            limited = is_limit(x, asked)
            scorecard.count_no_answer(x.case.topic, x.case.label, unsupported(x.answer.message) if limited else x.answer)
            continue
        bad = id(x) in wrong_ids
        reasons = named.get(id(x), frozenset())
        if found is not None and x.is_right(*found):
            reasons = frozenset({Explanation(Cause.ACCUMULATOR, found[0].name)})
        view = x.case.before[1] if x.case.before[:1] == ("arranged",) else ""
        scorecard.count(x.case.topic, x.case.label, ok=not bad, equals=reasons if bad else (), view=view)
    if scorecard.wants(*_CALLS):
        plain, square = list_equal_shapes(product, capabilities, judged)
        judge_product_calls(session, plain, judged, contract, scorecard)
        judge_product_calls(session, square, judged, contract, scorecard, verbs={Verb.VIEWS})
    if not wrong and scorecard.wants("call-size"):  # what is wrong in small products is shown there
        judge_large_calls(session, product, judged, contract, scorecard)
        judge_whole_call(session, product, judged, contract, scorecard)
    tallies = list(scorecard.tallies.values())
    order = {mistake.text: i for i, mistake in enumerate(list_mistakes())}

    def rank(explanation: Explanation) -> tuple[int, ...]:  # where it is made may stand before
        return (max((place for text, place in order.items() if explanation.name.endswith(text)), default=-1),)

    explanation = common_explanation(tallies, rank)
    mistakes = [explanation] if explanation is not None and explanation.cause is Cause.PRODUCT_MISTAKE else []
    first = partial(_first, session, wrong, find_sizes(product, capabilities.product_shapes, few=capabilities.few_shapes), judged, contract)
    requirements = []
    changing = unsteady is not None or any(tally.topic == "state" and tally.failing for tally in tallies)
    for tally in tallies:
        if changing:  # then chance decides under which views an answer is wrong
            tally.views = dict.fromkeys(tally.views, "")
        # What nothing in common explains may have a reason of its own.
        common = bool(tally.failing) and all(explanation in e for e in tally.equals.values())
        own = explanation if common else common_explanation([tally], rank)
        if tally.failing and own is not None and own.cause is Cause.PRODUCT_MISTAKE:
            mistakes.append(own)
        requirement = judge_tally(tally, own, first if wanted.fits(tally.id) else lambda _: None)
        if (
            own is not None
            and requirement.note.startswith("as ")
            and own.cause is Cause.PRODUCT_MISTAKE
            and requirement.verdict is Verdict.FAIL
        ):
            requirement.note = f"as if {own.text}"
        if requirement.explained_by:
            requirement.note = f"as {ACCUMULATORS[requirement.explained_by].text}" if not parted else parted.partition(":")[0]
        requirements.append(requirement)
    result = describe_answers(name, asked, tallies, judged, contract, found, mistakes, declared=bool(declared))
    if parted:  # says more than the class that allows such sums
        result.deviations[: found is not None] = [parted]
    describe_common(result, rest, right, rule, tallies, judged, contract, unsteady, other=partly)
    if isinstance(session, SizedSession):
        result.behaviour["sizes"] = session.found
    if capabilities.contract and all(c.text != capabilities.contract for c in contracts):
        result.behaviour["declared contract"] = f"{capabilities.contract}: it touches no number of these sides, which are judged by all"
    return requirements, result


def _leave_out_repeated(session: TargetSession, wrong: Sequence[Asked]) -> tuple[list[Asked], Asked | None]:
    """Wrong cases without those about calls that return the bits of the plain call, where that is wrong anyway; with one that does not."""
    if all(x.case.topic in _CALLS for x in wrong):
        return list(wrong), None
    left, unsteady = [], None
    for x in wrong:
        plain = ask_case(session, replace(x.case, before=())) if x.case.topic in _CALLS else None
        if plain is None or isinstance(plain, NoAnswer) or plain.tobytes() != x.output.tobytes():
            left.append(x)
            if plain is not None and not isinstance(plain, NoAnswer) and not x.case.before:
                unsteady = unsteady or x
    return left, unsteady


def _first(
    session: TargetSession, wrong: Sequence[Asked], sizes: Sizes, accumulator: Accumulator, contract: OperandContract, tally: Tally
) -> Failure | None:
    own = [x for x in wrong if x.case.topic == tally.topic]
    if not own:  # a call about calls
        return None if tally.show is None else tally.show()
    x = min(own, key=lambda x: x.output.size * x.case.a.shape[1])
    place = find_wrong(x.case, x.output, accumulator, contract)
    assert place is not None

    ask = partial(ask_case, session)
    smallest = Wrong(x.case, x.output, place)
    if not x.case.before and tally.topic != "state":
        smallest = shrink_product(ask, smallest, sizes, accumulator, contract)
    failure = describe_wrong(smallest, accumulator, contract)
    failure.case = x.case.label
    if not failure.snippet and failure.product is not None:
        failure.snippet = f"mxspec explain RESULT.json '{tally.id}'  # RESULT.json: of check --json"
    failure.steps.append(describe_places(x.case, x.output, accumulator, contract))
    return failure


def describe_partial_sums(session: TargetSession, product: Product, asked: Sequence[Asked], wrong: Sequence[Asked]) -> str:
    """Where sums of parts are rounded to the dtype of outputs, in words; empty where they are not, or all sums are."""
    rounded = [x for x in wrong if x.case.topic in (*ROUNDED, "block-scale", "shape") and not x.case.options]
    shapes = {x.size for x in asked if x.output is not None}
    right = shapes - {x.size for x in wrong}
    if not rounded or not right:
        return ""
    smallest: dict[int, Asked] = {}
    for x in sorted(rounded, key=lambda x: math.prod(x.size)):
        smallest.setdefault(x.size[2], x)
    for x in [*smallest.values()][:_CUT_SHAPES]:
        (m, n, k), dtype = x.size, x.case.out_dtype
        if cuts := find_cuts(session, product, x.size, dtype):
            return (
                f"partial sums are rounded to {dtype} before they are added (split-K or stream-K): in m x n x k = {m} x {n} x {k}, k is cut at "
                f"{', '.join(map(str, cuts))}; in {len(right)} of {len(shapes)} shapes no output is wrong"
            )
    return ""


def describe_answers(
    name: str, asked: Sequence[Asked], tallies: Sequence[Tally], judged: Accumulator, contract: OperandContract,
    found: tuple[Accumulator, OperandContract] | None, mistakes: Sequence[Explanation], *, declared: bool, operation: str = OPERATION,
) -> FormatResult:  # fmt: skip
    """What a product is like."""
    answered = [x for x in asked if x.output is not None]
    certain = sum(x.count_certain(judged, contract) for x in answered)
    outputs = sum(x.output.size for x in answered)
    result = FormatResult(
        format=name,
        judged_against=f"{judged.name} sums",
        chosen="claimed" if declared else "default",
        provisional=False,
        distance=sum(len(t.failing) for t in tallies),
        cases=sum(len(t.cases) - len(t.no_answers) for t in tallies),
        declined=sum(n.is_declined for t in tallies for n in t.no_answers.values()) if answered else 0,
        operations=[operation],
        open_cases=sum(len(t.failing) for t in tallies if t.topic in ASIDE),
    )
    result.behaviour["outputs with one right result"] = f"{certain} of {outputs}"
    if contract != EXACTLY:
        result.behaviour["numbers before they are multiplied"] = contract.words
    if found is not None:
        result.behaviour["sums"] = found[0].text
        result.deviations.append(f"sums fit no finer class than {found[0].text}; {judged.text} is asked for")
    for text in dict.fromkeys(e.text for e in mistakes):
        result.deviations.append(text)
    return result
