"""Judging `grouped_matmul`: each expert's rows as a product of their own, and what calls of changing counts show of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, Accumulator, OperandContract
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.grouped.cases import MANY, OPERATION, Answered, GroupedCase, deal, draw_counts, list_cases
from mxspec_conformance.judge.grouped.mistakes import name_mistakes
from mxspec_conformance.judge.invariance.history import Drawn, Workload, judge_history, judge_nothing
from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.products import naming as products
from mxspec_conformance.judge.products.asked import is_limit
from mxspec_conformance.judge.products.classes import find_class, find_contract, list_asked
from mxspec_conformance.judge.products.editing import take_rows
from mxspec_conformance.judge.products.judging import ROUNDED, describe_answers
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.products.shrinking import describe_places, describe_wrong
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.judge.wanted import EVERYTHING, Wanted
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.results.report import Failure, FormatResult, Requirement
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.grouped import GroupedProduct
from mxspec_conformance.targets.product_fitting import SizedSession, SizeWatch
from mxspec_conformance.targets.sessions import TargetSession

#: Counts of the calls that are repeated, which are turned from call to call: the shape stays. The last ones have alpha and bias.
_COUNTS = ((3, 0, 5, 1), (0, 21, 2, 17, 1))
#: Experts of calls whose right products are compared with mistakes of plain products.
FEW = 16
#: Rows of a, and matrices, that such calls take theirs from; pairs of numbers of a call of very many rows.
_ROWS, _MATRICES, _MOST = 97, 11, 1 << 30


def judge_grouped(
    session: TargetSession, name: str, grouped: GroupedProduct, wanted: Wanted = EVERYTHING, before: Sequence[Answered] = ()
) -> tuple[list[Requirement], FormatResult]:
    """The requirements of one grouped product, and what it is like. before: as of `judge_product`."""
    capabilities = session.capabilities
    declared, scorecard = bool(capabilities.accumulator), Scorecard(OPERATION, name, wanted)
    judged = ACCUMULATORS[capabilities.accumulator or DEFAULT_ACCUMULATOR]
    asked = list(_ask(session, list_cases(grouped, capabilities, judged)))
    if any(x.output is None and x.answer.is_refusal and not is_limit(x, asked) for x in asked):
        sized = SizeWatch(session, grouped).see_refusal()
        if sized is not None:
            return judge_grouped(sized, name, grouped, wanted, [x for x in asked if x.output is not None])
    asked = [*before, *asked]
    contracts = list_asked(grouped, capabilities.contract)
    contract = find_contract(asked, contracts, judged)
    wrong = [x for x in asked if not x.is_right(judged, contract)]
    right = [x for x in asked if x.output is not None and x.is_right(judged, contract)]
    named = name_mistakes(wrong, right, judged, contract)
    wrong_parts = [part for x in wrong for part in x.parts.values() if not part.is_right(judged, contract)]
    if wrong_parts and not named:
        right_parts = [p for x in (*wrong, *right) if len(x.parts) <= FEW for p in x.parts.values() if p.is_right(judged, contract)]
        each = products.name_mistakes(wrong_parts, right_parts, judged, contract)
        named = frozenset.intersection(*(each[id(p)] for p in [p for p in wrong_parts if p.case.topic != "nan"] or wrong_parts))
    found = None
    if not declared and not named and any(x.case.topic in ROUNDED for x in wrong):
        found = find_class(lambda a: _ask(session, list_cases(grouped, capabilities, a)), [*wrong, *right], contracts)
    for x in asked:
        topic, label = x.case.topic, x.case.label
        if isinstance(x.answer, NoAnswer):
            scorecard.count_no_answer(topic, label, unsupported(x.answer.message) if is_limit(x, asked) else x.answer)
            continue
        reasons = frozenset({Explanation(Cause.ACCUMULATOR, found[0].name)}) if found is not None and x.is_right(*found) else named
        scorecard.count(topic, label, ok=x.is_right(judged, contract), equals=reasons)
    if scorecard.wants("memory", "state", "refusal", "call-size") and session.transport != "results-file":
        judge_grouped_calls(session, grouped, *(found or (judged, contract)), scorecard, all_right=not wrong)
    tallies = list(scorecard.tallies.values())
    common = common_explanation(tallies, lambda _: (0,))
    requirements = [judge_tally(tally, common, partial(_show_first, wrong, judged, contract)) for tally in tallies]
    for requirement in requirements:
        if common is not None and requirement.note.startswith("as "):
            requirement.note = f"as if {common.text}" if found is None else f"as {found[0].text}"
    parts, mistakes = [part for x in asked for part in x.parts.values()], [common] if common is not None and found is None else []
    result = describe_answers(name, parts, tallies, judged, contract, found, mistakes, declared=declared, operation=OPERATION)
    products.describe_common(result, wrong_parts, (), None, tallies, judged, contract)
    if isinstance(session, SizedSession):
        result.behaviour["sizes"] = session.found
    return requirements, result


def _ask(session: TargetSession, cases: Sequence[GroupedCase]) -> Iterator[Answered]:
    return (Answered(case, run_once(partial(session.call, OPERATION, *case.arguments, **case.options))) for case in cases)


def _show_first(wrong: Sequence[Answered], accumulator: Accumulator, contract: OperandContract, tally: Tally) -> Failure | None:
    """The first wrong output of a topic's smallest wrong call, as one of its expert's product."""
    own = [x for x in wrong if x.case.topic == tally.topic]
    if not own:  # a call about calls
        return None if tally.show is None else tally.show()
    x = min(own, key=lambda x: int(x.output.size) * x.case.a.shape[1])
    found = x.find_wrong(accumulator, contract)
    assert found is not None
    expert, first, failure = found[0], found[1], describe_wrong(found[1], accumulator, contract)
    counts = ", ".join(str(len(places)) for places in x.case.placing.places[:16])
    failure.given |= {"output": found[2], "rows of experts": f"{counts} ({x.case.placing.form})"}
    failure.snippet = f"mxspec explain RESULT.json '{tally.id}'  # RESULT.json: of check --json; the product of this expert alone"
    failure.steps.append(f"expert {expert}: {describe_places(first.case, first.output, accumulator, contract)}")
    others = [str(e) for e, part in x.parts.items() if not part.is_right(accumulator, contract)]
    failure.steps.append(f"{len(others)} of {len(x.parts)} experts that have rows are wrong: {', '.join(others[:12])}")
    return failure


def judge_grouped_calls(
    session: TargetSession, grouped: GroupedProduct, accumulator: Accumulator, contract: OperandContract, scorecard: Scorecard,
    *, all_right: bool,
) -> None:  # fmt: skip
    """Enter what calls show of each other, and one of very many rows. accumulator: the class in which sums are certain by design."""
    maker = Maker(grouped, session.capabilities, accumulator, seed=41)
    maker.bits -= 2  # for what is added
    n, k = maker.sizes.fit(1, 5, 3 * max(maker.a.run, maker.b.run))[1:]
    pools = maker.positive(maker.a, _ROWS, k), maker.positive(maker.b, n * _MATRICES, k)
    dtype = session.capabilities.out_dtypes[0]

    def find_mistake(case: GroupedCase, answer: Any) -> str:
        found = Answered(case, answer).find_wrong(accumulator, contract)
        return "" if found is None else f"{found[2]}: {float(found[1].output[found[1].place]):.9g} is not the product of what was given"

    def draw(counts: tuple[int, ...], number: int) -> Drawn:
        of_small, turn = counts is _COUNTS[0], number % len(counts)
        # Of few rows two calls in a row have the same operands, and other counts.
        own, sizes = number // (1 + of_small), (sum(counts) or 1, n * len(counts))
        a, b = (take_rows(pool, (np.arange(size) + 7 * own) % len(pool.held)) for pool, size in zip(pools, sizes, strict=True))
        added = np.roll(np.arange(len(counts)), number)
        options = {"alpha": np.exp2(added % 3 - 1).astype(np.float32), "bias": np.repeat(added[:, None], n, axis=1).astype(DTYPES[dtype])}
        taken = {name: x for name, x in options.items() if counts is _COUNTS[1] and session.capabilities.has(OPERATION, name)}
        turned = (*counts[turn:], *counts[:turn])
        case = deal(maker, grouped, a, b, turned, topic="state", label="", out_dtype=dtype, order=number, options=taken)
        return Drawn(case.arguments, case.options, find_mistake=partial(find_mistake, case))

    sizes = {f"{sum(counts)} rows of {len(counts)} experts": counts for counts in _COUNTS}
    work = Workload(session=session, function=OPERATION, scorecard=scorecard, draw=draw, sizes=sizes)
    plain = [draw(counts, 0) for counts in _COUNTS]
    answers = [run_once(partial(session.call, OPERATION, *drawn.arguments, **drawn.options)) for drawn in plain]
    if isinstance(answers[0], NoAnswer):
        scorecard.count_no_answer("memory", "a call alone", answers[0])
    elif all_right or not any(d.find_mistake(x) for d, x in zip(plain, answers, strict=True) if not isinstance(x, NoAnswer)):
        judge_history(work)  # what is wrong in every call is shown elsewhere
        judge_nothing(work, "no expert has rows", "no rows", draw((0,) * 4, 0), draw(_COUNTS[0], 1))
    if all_right and session.transport in LOCAL:
        many = draw_counts(maker, grouped, MANY, wide=2, runs=1, topic="call-size", label="", out_dtype=dtype)
        if many.placing.rows * many.b.held.size <= _MOST * len(MANY):
            work.enter("call-size", f"{many.placing.rows} rows", Drawn(many.arguments, find_mistake=partial(find_mistake, many)))
