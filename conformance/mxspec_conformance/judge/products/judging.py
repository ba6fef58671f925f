"""Judging `matmul`: every output equal where one result is certain, elsewhere inside what its class of accumulations allows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import ge
from typing import Any

import numpy as np

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, EXACTLY, Accumulator, OperandContract
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.invariance.history import Verb
from mxspec_conformance.judge.products.calls import OPERATION, judge_product_calls
from mxspec_conformance.judge.products.cases import ProductCase, list_cases, list_equal_shapes
from mxspec_conformance.judge.products.cuts import find_cuts
from mxspec_conformance.judge.products.large_calls import judge_large_calls
from mxspec_conformance.judge.products.mistakes import Mistake, list_mistakes
from mxspec_conformance.judge.products.mistakes.mistake import pick_places
from mxspec_conformance.judge.products.reference import Reference, allow, is_same_factor, list_contracts, make_sides, refer, round_exactly
from mxspec_conformance.judge.products.shrinking import Wrong, describe_places, describe_wrong, find_wrong, shrink_product
from mxspec_conformance.judge.products.whole_calls import judge_whole_call
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.judge.wanted import EVERYTHING, Wanted
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected, unsupported
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.results.report import Failure, FormatResult, Requirement, Verdict
from mxspec_conformance.targets.capabilities import PRODUCTS
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.operands import OperandKind, Product
from mxspec_conformance.targets.product_fitting import SizedSession, SizeWatch
from mxspec_conformance.targets.product_sizes import Sizes, find_sizes
from mxspec_conformance.targets.sessions import TargetSession

#: Topics that say nothing of how sums are rounded.
_ASIDE = ("zero-block",)
#: Topics that no class of additions explains.
_UNROUNDED = (*_ASIDE, "nan", "inf", "overflow")
#: Topics of NaN and infinities.
_SPECIAL = ("nan", "inf")
#: Topics of calls that give what other calls gave: a kernel whose sums are wrong is not wrong here as well.
_CALLS = ("state", "memory")
#: Shapes with wrong outputs in which it is asked where k is cut, of different k.
_CUT_SHAPES = 4
#: Topics of sums that a coarser class brings elsewhere: without a wrong one of these, nothing is wrong with the additions.
ROUNDED = ("sum", "interval")


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
    right = [x for x in asked if id(x) not in unlike and x.output is not None and x.case.topic not in _ASIDE]
    wrong = _leave_out_repeated(session, other)
    wrong_ids = {id(x) for x in wrong}
    scorecard = Scorecard(OPERATION, name, wanted)
    named = name_mistakes(wrong, right, judged, naming_contract(product, contract))
    # What becomes of a NaN may have a reason of its own: cutting bits off one makes an infinity.
    by_mistake = wrong and frozenset.intersection(*(named[id(x)] for x in [x for x in wrong if x.case.topic not in _SPECIAL] or wrong))
    rounded = not by_mistake and not declared and any(x.case.topic in ROUNDED for x in wrong)
    ordered = [*wrong, *(x for x in asked if id(x) not in wrong_ids)]
    found = find_class(lambda a: ask_cases(session, list_cases(product, capabilities, a)), ordered, contracts) if rounded else None
    parted = "" if by_mistake else describe_partial_sums(session, product, asked, wrong)
    rule = None if found is not None or parted or any(named.values()) else find_rule(wrong, right)
    if rule is not None:
        there = name_mistakes(wrong, list(filter(rule.holds, right)), judged, naming_contract(product, contract))
        named = {key: frozenset(replace(e, name=f"{rule.text}, {e.name}") for e in each) for key, each in there.items()}
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
    where = "" if rule is None else f"{rule.text}, "

    def rank(explanation: Explanation) -> tuple[int, ...]:
        return (order.get(explanation.name.removeprefix(where), -1),)

    explanation = common_explanation(tallies, rank)
    mistakes = [explanation] if explanation is not None and explanation.cause is Cause.PRODUCT_MISTAKE else []
    first = partial(_first, session, wrong, find_sizes(product, capabilities.product_shapes, few=capabilities.few_shapes), judged, contract)
    requirements = []
    for tally in tallies:
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
    describe_common(result, wrong, right, rule, tallies, judged, contract)
    if isinstance(session, SizedSession):
        result.behaviour["sizes"] = session.found
    if capabilities.contract and all(c.text != capabilities.contract for c in contracts):
        result.behaviour["declared contract"] = f"{capabilities.contract}: it touches no number of these sides, which are judged by all"
    return requirements, result


@dataclass(frozen=True, slots=True)
class Rule:
    """What the sizes of all wrong calls have in common, and those of few right ones: of m, n or k (0, 1, 2) something holds."""

    parts: tuple[tuple[int, str, Callable[[int], bool]], ...]

    @property
    def text(self) -> str:
        """In words."""
        return "where " + " and ".join(f"{'mnk'[axis]} {words}" for axis, words, _ in self.parts)

    def holds(self, x: Asked) -> bool:
        """Whether a call is such."""
        return all(test(x.size[axis]) for axis, _, test in self.parts)


_TILES = (2, 4, 8, 16, 32, 64, 128, 256)
#: Of one size.
_RULES: tuple[tuple[str, Callable[[int], bool]], ...] = (
    ("is 1", lambda size: size == 1),
    *((f"is less than {t}", lambda size, t=t: size < t) for t in _TILES),
    *((f"is more than {t}", lambda size, t=t: size > t) for t in _TILES),
    *((f"is no multiple of {t}", lambda size, t=t: size % t > 0) for t in _TILES),
)  # fmt: skip
#: A rule says something if it holds for no more right calls than one in so many calls, and one in so many right ones.
_RARE, _FEW = 16, 4


def find_rule(wrong: Sequence[Asked], right: Sequence[Asked]) -> Rule | None:
    """The rule that holds for every wrong call and the fewest right ones; of two sizes, where none of one size is rare enough."""
    rules = [Rule(((axis, *rule),)) for rule in _RULES for axis in range(3)]
    holding = [rule for rule in rules if len(wrong) > 1 and all(map(rule.holds, wrong))]
    pairs = [Rule(a.parts + b.parts) for a in holding for b in holding if a.parts[0][0] < b.parts[0][0]]
    for some in (holding, pairs):
        few, rule = min(((sum(map(r.holds, right)), r) for r in some), key=lambda found: found[0], default=(len(right), None))
        if few * _RARE <= len(wrong) + len(right) and few * _FEW <= len(right):
            return rule
    return None


#: What wrong outputs look like: of them, and of right ones in their place.
_LOOKS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("what is wrong is zero, as if it were not written", lambda y, right: y == 0),
    ("what is wrong is NaN, as if a NaN of another place reached it", lambda y, right: np.isnan(y)),
    ("what is wrong is twice what it should be", lambda y, right: y == 2 * right),
    ("what is wrong has the other sign", lambda y, right: y == -right),
)


def describe_common(
    result: FormatResult, wrong: Sequence[Asked], right: Sequence[Asked], rule: Rule | None, tallies: Sequence[Tally],
    accumulator: Accumulator, contract: OperandContract,
) -> None:  # fmt: skip
    """Enter what all wrong calls have in common, where no mistake is known that gives them, and whether calls depend on each other."""
    if wrong and not result.deviations:
        with np.errstate(all="ignore"):
            allowed = [(x.output, allow(x.refer(contract), x.case, accumulator)) for x in wrong]
            pairs = [(y[~due.accepts(y)].astype(np.float64), due.low[~due.accepts(y)]) for y, due in allowed]
            result.deviations += [text for text, looks in _LOOKS if all(looks(*pair).all() for pair in pairs)]
        if rule is not None:
            result.deviations.append(
                f"all {len(wrong)} wrong calls are ones {rule.text}, and of {len(right)} right ones {sum(map(rule.holds, right))}"
            )
    if any(tally.topic == "state" and tally.failing for tally in tallies):
        result.deviations.append("the answer depends on earlier calls, or on others at the same time")


def is_limit(x: Asked, asked: Sequence[Asked]) -> bool:
    """Whether a call was refused that is larger than all that were answered: a kernel ends somewhere, and says so."""
    refused = isinstance(x.answer, NoAnswer) and x.answer.is_refusal
    answered = [y.size for y in asked if y.output is not None]
    return refused and bool(answered) and not any(all(map(ge, size, x.size)) for size in answered)


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


def _leave_out_repeated(session: TargetSession, wrong: Sequence[Asked]) -> list[Asked]:
    """Wrong cases without those about calls that return the bits of the plain call, where that is wrong anyway."""
    if all(x.case.topic in _CALLS for x in wrong):
        return list(wrong)

    def is_repeated(x: Asked) -> bool:
        plain = run_bisected([replace(x.case, before=())], partial(_ask, session))[0]
        return not isinstance(plain, NoAnswer) and plain.tobytes() == x.output.tobytes()

    return [x for x in wrong if x.case.topic not in _CALLS or not is_repeated(x)]


def ask_cases(session: TargetSession, cases: Sequence[ProductCase]) -> list[Asked]:
    """What the target returns for each case, one call each, in order."""
    failures = Counter[FailureKind]()
    return [Asked(case, run_bisected([case], partial(_ask, session), failures=failures)[0]) for case in cases]


def ask_watched(session: TargetSession, product: Product, cases: Sequence[ProductCase]) -> tuple[list[Asked], SizedSession | None]:
    """As `ask_cases`, up to where the calls show that the target takes other sizes: with a session of those."""
    failures, watch, asked = Counter[FailureKind](), SizeWatch(session, product), list[Asked]()
    for case in cases:
        ask = partial(run_bisected, [case], partial(_ask, session), failures=failures)
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
    return run_bisected([case], partial(_ask, session))[0]


def call_case(session: TargetSession, case: ProductCase) -> Any:
    """The outputs of one case.

    Raises CallError where the target does not answer.
    """
    return session.call(*case.before, OPERATION, case.a.as_data(), case.b.as_data(), case.out_dtype, **case.options)


def _ask(session: TargetSession, cases: Sequence[ProductCase]) -> list[Any]:
    return [call_case(session, case) for case in cases]


def find_class(
    ask_for: Callable[[Accumulator], Iterable[Asked]], asked: Sequence[Asked], contracts: Sequence[OperandContract]
) -> tuple[Accumulator, OperandContract] | None:
    """The first class, from the most demanding one, that allows every output; None where there is none.

    ask_for: asks the target for sums of a class. asked: those first that are the likeliest to rule a class out.

    The interval of a coarse class holds much that is wrong for other reasons. The target is therefore asked once more, for sums
    that have one result even in that class.
    """
    used = [x for x in asked if x.case.topic not in _UNROUNDED]
    for accumulator in ACCUMULATORS.values():
        for contract in contracts:
            if not all(x.is_right(accumulator, contract) for x in used):
                continue
            if all(x.is_right(accumulator, contract) for x in ask_for(accumulator) if x.case.topic not in _UNROUNDED):
                return accumulator, contract
    return None


def _may_show(mistake: Mistake, x: Asked, accumulator: Accumulator, contract: OperandContract) -> bool:
    """Whether the outputs are the mistake's, or it changes none of them."""
    right = round_exactly(x.refer(contract), x.case)
    return any(mistake.fits(x.case, output, accumulator, contract) for output in (x.output, right))


def name_mistakes(
    wrong: Sequence[Asked], right: Sequence[Asked], accumulator: Accumulator, contract: OperandContract = EXACTLY
) -> dict[int, frozenset[Explanation]]:
    """For each wrong case the mistakes that explain it and all others of its topic, and would have shown in no right one."""
    by_topic: dict[str, list[Asked]] = {}
    for x in wrong:
        by_topic.setdefault(x.case.topic, []).append(x)
    mistakes = list(list_mistakes())
    named: dict[int, frozenset[Explanation]] = {}
    for topic, group in by_topic.items():
        left = mistakes
        special = topic in _SPECIAL
        # Whether what is left out or read wrongly meets a NaN is another question than what it does to numbers.
        others, unlike = ([x for x in cases if x.case.topic == topic or x.case.topic not in _SPECIAL] for cases in (right, wrong))
        for x in sorted(group, key=lambda x: x.output.size * x.case.a.shape[1]):
            with np.errstate(all="ignore"):
                first = pick_places(~allow(x.refer(contract), x.case, accumulator).accepts(x.output))
                left = [m for m in left if m.explains(x.case, x.output, accumulator, contract, first=first)]
        with np.errstate(all="ignore"):
            left = [m for m in left if all(m.fits(x.case, x.output, accumulator, contract) for x in others)]
            # What becomes of every output, or shows in no number alone, would show in the wrong cases of other topics, too.
            left = [m for m in left if (m.outputs is None and not special) or all(_may_show(m, x, accumulator, contract) for x in unlike)]
        explained = frozenset(Explanation(Cause.PRODUCT_MISTAKE, mistake.text) for mistake in left)
        named |= {id(x): explained for x in group}
    return named


def naming_contract(product: Product, contract: OperandContract) -> OperandContract:
    """The contract under which mistakes are looked for: codes of an affine side become numbers by it; of sides with scales a
    mistake shows in numbers that nothing rounds, and plain ones are rounded only where that is declared."""
    return contract if contract.plain or OperandKind.AFFINE in (product.a.kind, product.b.kind) else EXACTLY


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
        open_cases=sum(len(t.failing) for t in tallies if t.topic in _ASIDE),
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
