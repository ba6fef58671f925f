"""From wrong products to their causes: a known mistake, another class of additions, or an unknown cause; each with its smallest product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mxspec.dot import ACCUMULATORS
from mxspec_conformance.fuzzing.products.batch import ask_batch
from mxspec_conformance.fuzzing.products.draw import draw_products
from mxspec_conformance.fuzzing.products.job import ProductJob
from mxspec_conformance.fuzzing.subject import Dependence, Finding, Progress, Reduced
from mxspec_conformance.judge.explanation import DEVIATING, Cause, Explanation
from mxspec_conformance.judge.products.asked import Asked, ask_case, ask_cases
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.judge.products.classes import find_class
from mxspec_conformance.judge.products.editing import find_used
from mxspec_conformance.judge.products.mistakes import list_mistakes
from mxspec_conformance.judge.products.naming import name_mistakes, naming_contract
from mxspec_conformance.judge.products.shrinking import Wrong, describe_places, describe_wrong, find_wrong, shrink_product
from mxspec_conformance.judge.products.stored import StoredProduct
from mxspec_conformance.targets.product_sizes import find_sizes
from mxspec_conformance.targets.sessions import TargetSession

#: Batches with wrong products that are run again, and causes that are reported.
_BATCHES, _CAUSES = 4, 6
#: Wrong products of which known mistakes are tried, all of a topic together and these each by itself; right ones in which a mistake
#: would have shown.
_NAMED, _ALONE, _RIGHT = 16, 3, 24

#: A wrong product, and the one called before it.
Pair = tuple[Asked, Asked | None]


@dataclass(slots=True, kw_only=True)
class ProductFinding(Finding):
    """One cause, with the smallest product that shows it, among those that were run again."""

    MEASURE: ClassVar[str] = "nonzero_products"

    depends: Dependence
    explanation: Explanation | None
    stored: StoredProduct


def reduce_products(
    job: ProductJob, sightings: Sequence[tuple[int, int]], session: TargetSession, progress: Progress = lambda _: None
) -> Reduced:
    """The causes of wrong products.

    sightings: (number of the batch, place in it), in order.
    """
    reduced = Reduced()
    chosen = list(dict.fromkeys(batch for batch, _ in sightings))[:_BATCHES]
    reduced.left = sum(batch not in chosen for batch, _ in sightings)
    wrong: list[Pair] = []
    right: list[Asked] = []
    for number in chosen:
        progress(f"{job.fmt}: batch {number} again")
        calls = ask_batch(session, draw_products(job, session.capabilities, number))
        seen = {index for batch, index in sightings if batch == number}
        for index, x in enumerate(calls):
            if x.output is None:
                continue
            with np.errstate(all="ignore"):
                good = x.is_right(job.accumulator, job.contract)
            if good:
                right.append(x)
                reduced.lost += index in seen
            else:
                wrong.append((x, calls[index - 1] if index else None))
    with np.errstate(all="ignore"):
        groups = _group(job, wrong, right, session, progress)
    if len(groups) == 1 and not reduced.lost and groups[0][0] is not None and groups[0][0].cause in DEVIATING:
        reduced.deviation = groups[0][0]
    for explanation, members in groups[:_CAUSES]:
        progress(f"{job.fmt}: reducing {members[0][0].case.label}")
        reduced.findings.append(_reduce(job, explanation, members, session))
    return reduced


def _name_causes(
    job: ProductJob, wrong: Sequence[Asked], right: Sequence[Asked], session: TargetSession
) -> dict[int, frozenset[Explanation]]:
    """The explanations of wrong products, by id; large ones beyond the first few are not examined."""
    contract = naming_contract(job.product, job.contract)
    looked = sorted(wrong, key=lambda x: x.output.size * x.case.a.shape[1])[:_NAMED]
    # A mistake must not show where the answer is right.
    checks = sorted(right, key=lambda x: x.output.size * x.case.a.shape[1])[:_RIGHT]
    # What is wrong only after other calls contradicts every mistake of its topic: a few are examined by themselves, too.
    named = name_mistakes(looked, checks, job.accumulator, contract)
    if not all(named.values()):
        alone = [x for x in looked if not named[id(x)]][:_ALONE]
        named |= {id(x): e for x in alone for e in name_mistakes([x], checks, job.accumulator, contract).values()}
    common = frozenset.intersection(*named.values()) if named else frozenset()
    if not common and job.class_name == "float32" and not session.capabilities.accumulator:
        found = find_class(lambda a: ask_cases(session, list_cases(job.product, session.capabilities, a)), [*wrong, *right], [job.contract])
        if found is not None:
            additions = Explanation(Cause.ACCUMULATOR, found[0].name)
            named = {id(x): named.get(id(x), frozenset()) | {additions} for x in wrong}
    return named


def _group(
    job: ProductJob, wrong: Sequence[Pair], right: Sequence[Asked], session: TargetSession, progress: Progress
) -> list[tuple[Explanation | None, list[Pair]]]:
    """Wrong products by cause: the explanation of the most, of the rest that of the most, and so on; then by topic what has none."""
    if not wrong:
        return []
    progress(f"{job.fmt}: which mistakes explain {len(wrong)} wrong products")
    named = _name_causes(job, [x for x, _ in wrong], right, session)
    mistakes = {m.text: m for m in list_mistakes()}
    order = {text: i for i, text in enumerate(mistakes)}
    groups: list[tuple[Explanation | None, list[Pair]]] = []
    rest = list(wrong)
    while counts := Counter(e for x, _ in rest for e in named.get(id(x), ())):
        best = min(counts, key=lambda e: (-counts[e], e.cause not in DEVIATING, order.get(e.name, -1)))
        own = {id(x) for x, _ in rest if best in named.get(id(x), ())}
        if best.name in mistakes:  # beyond the number on which every mistake is tried
            mistake, contract = mistakes[best.name], naming_contract(job.product, job.contract)
            own |= {id(x) for x, _ in rest if id(x) not in named and mistake.explains(x.case, x.output, job.accumulator, contract)}
        groups.append((best, [pair for pair in rest if id(pair[0]) in own]))
        rest = [pair for pair in rest if id(pair[0]) not in own]
    by_topic: dict[str, list[Pair]] = {}
    for pair in rest:
        by_topic.setdefault(pair[0].case.topic, []).append(pair)
    return [*groups, *((None, members) for members in by_topic.values())]


def _reduce(job: ProductJob, explanation: Explanation | None, members: Sequence[Pair], session: TargetSession) -> ProductFinding:
    ask = partial(ask_case, session)
    sizes = find_sizes(job.product, session.capabilities.product_shapes)
    x, before = min(members, key=lambda pair: pair[0].output.size * pair[0].case.a.shape[1])
    with np.errstate(all="ignore"):
        place = find_wrong(x.case, x.output, job.accumulator, job.contract)
        assert place is not None
        smallest = Wrong(x.case, x.output, place)
        depends = _depend(job, ask, x, before)
        if depends is Dependence.NOTHING and not x.case.before:
            smallest = shrink_product(ask, smallest, sizes, job.accumulator, job.contract)
        failure = describe_wrong(smallest, job.accumulator, job.contract)
        failure.steps.append(describe_places(x.case, x.output, job.accumulator, job.contract))
    failure.case = x.case.label
    if depends is Dependence.LAST_CALL and before is not None:
        failure.given["call before"] = before.case.label
    words = explanation.text if explanation is not None else f"wrong {x.case.topic}"
    if explanation is not None and explanation.cause is Cause.ACCUMULATOR:
        words = f"sums as {ACCUMULATORS[explanation.name].text}"
    if depends is not Dependence.NOTHING:
        words += f", {depends}"
    (i, j), used = smallest.place, [find_used(side) for side in (smallest.case.a, smallest.case.b)]
    return ProductFinding(
        job=job, topic=x.case.topic, words=words, mismatches=len(members), how=depends.value, depends=depends,
        explanation=explanation, failure=failure, nonzero=int((used[0][i] & used[1][j]).sum()),
        stored=StoredProduct(
            case=smallest.case, place=smallest.place, accumulator=job.class_name, contract=job.contract,
            returned=smallest.output[i : i + 1, j],
        ),
    )  # fmt: skip


def _depend(job: ProductJob, ask: Callable[[Any], Any], x: Asked, before: Asked | None) -> Dependence:
    """Whether a product is wrong in a call of its own. Twice, as the calls that reduced another were before the first."""
    answers = [ask(x.case) for _ in range(2)]
    if all(find_wrong(x.case, answer, job.accumulator, job.contract) is not None for answer in answers):
        return Dependence.NOTHING
    if before is not None:
        ask(before.case)
        if find_wrong(x.case, ask(x.case), job.accumulator, job.contract) is not None:
            return Dependence.LAST_CALL
    return Dependence.EARLIER_CALLS
