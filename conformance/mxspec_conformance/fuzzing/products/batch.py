"""One batch of products: draw, call one after the other, judge each output. Plain data in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mxspec_conformance.fuzzing.products.draw import draw_products
from mxspec_conformance.fuzzing.products.job import ProductJob
from mxspec_conformance.fuzzing.subject import Coverage, Result, note_no_answer
from mxspec_conformance.judge.products.asked import Asked, call_case
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.reference import allow
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.targets.operands import OperandKind
from mxspec_conformance.targets.sessions import TargetSession


def ask_batch(session: TargetSession, cases: Sequence[ProductCase]) -> list[Asked]:
    """What the target returns, call after call; none is made after one that ends the process or times out."""
    calls: list[Asked] = []
    for case in cases:
        try:
            calls.append(Asked(case, call_case(session, case)))
        except CallError as failure:
            calls.append(Asked(case, NoAnswer(failure.kind, str(failure), failure.detail, is_defect=failure.is_defect)))
            if failure.final or failure.kind is FailureKind.TIMEOUT:
                break
    return calls


def ask_products(session: TargetSession, job: ProductJob, number: int) -> Result:
    """Draw, call, judge."""
    cases = draw_products(job, session.capabilities, number)
    coverage = empty_coverage(job)
    topics: dict[str, list[int]] = {}
    no_answers: dict[str, Any] = {}
    outputs = certain = elements = 0
    wrong: list[list[Any]] = []
    rivals = job.rivals
    for index, x in enumerate(ask_batch(session, cases)):
        if isinstance(x.answer, NoAnswer):
            error = CallError(x.answer.kind, x.answer.message, x.answer.detail)
            note_no_answer(no_answers, error, x.case.label, number, index, job=job.name)
            continue
        _enter(coverage, x.case)
        with np.errstate(all="ignore"):
            allowed = allow(x.refer(job.contract), x.case, job.accumulator)
            bad = ~allowed.accepts(x.output)
        outputs += bad.size
        certain += int(allowed.decided.sum())
        elements += bad.size * x.case.a.shape[1]
        counted = topics.setdefault(x.case.topic, [0, 0])
        counted[0] += 1
        if bad.any():
            wrong.append([index, x.case.topic, int(bad.sum())])
            with np.errstate(all="ignore"):
                rivals = [c for c in rivals if x.is_right(job.accumulator, c)]
    # Another contract that fits, and allows all of this batch, may be the target's: nothing is wrong unless a later batch rules it out.
    doubtful = wrong if rivals else []
    wrong = [] if rivals else wrong
    count_wrong(topics, wrong)
    return {
        "products": sum(n for n, _ in topics.values()), "outputs": outputs, "certain": certain, "elements": elements,
        "failing": len(wrong), "wrong_outputs": sum(n for _, _, n in wrong), "wrong": [i for i, _, _ in wrong], "topics": topics,
        "doubtful": doubtful, "rivals": [c.text for c in rivals], "no_answers": no_answers,
        "coverage": coverage.pack(),
    }  # fmt: skip


def count_wrong(topics: dict[str, list[int]], wrong: Sequence[Sequence[Any]]) -> None:
    """Enter wrong products, (place in the batch, topic, wrong outputs) each, into the counts of their topics."""
    for _, topic, _ in wrong:
        topics[topic][1] += 1


def settle_batches(job: ProductJob, results: Sequence[Result]) -> tuple[ProductJob, list[Result]]:
    """The batches of a product together: the contract that fits them all, else what is wrong under the first with no rival left."""
    left = [name for name in job.rival_names if all(name in r["rivals"] for r in results)]
    doubted = any(r["doubtful"] for r in results)
    if left and doubted:
        return replace(job, contract_name=left[0], rival_names=tuple(left[1:])), list(results)
    if left or not doubted:
        return job, list(results)
    settled = []
    for result in results:
        topics = {topic: list(counted) for topic, counted in result["topics"].items()}
        count_wrong(topics, result["doubtful"])
        found = [int(i) for i, _, _ in result["doubtful"]]
        outputs = sum(int(n) for _, _, n in result["doubtful"])
        settled.append(
            result
            | {
                "topics": topics, "wrong": sorted([*result["wrong"], *found]), "failing": result["failing"] + len(found),
                "wrong_outputs": result["wrong_outputs"] + outputs,
            }
        )  # fmt: skip
    return job, settled


def empty_coverage(job: ProductJob) -> Coverage:
    """Of the codes and scale codes of each block operand."""
    sizes: dict[str, int] = {}
    for name, spec in (("a", job.product.a), ("b", job.product.b)):
        if spec.kind is OperandKind.BLOCK:
            sizes |= {f"codes of {name}": spec.block.element.code_count, f"scales of {name}": spec.block.scale.code_count}
    return Coverage.of_sizes(sizes)


def _enter(coverage: Coverage, case: ProductCase) -> None:
    for name, side in (("a", case.a), ("b", case.b)):
        for part, held in (("codes", side.codes), ("scales", side.scales)):
            if held is not None and f"{part} of {name}" in coverage.hit:
                coverage.hit[f"{part} of {name}"][np.unique(held)] = True
