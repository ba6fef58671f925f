"""Products in a campaign: which there are, their requirements, and what a result says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, EXACTLY
from mxspec_conformance.fuzzing.products.batch import Flags, read_flags, settle_batches
from mxspec_conformance.fuzzing.products.findings import ReducedProducts, reduce_products
from mxspec_conformance.fuzzing.products.job import ProductJob
from mxspec_conformance.judge.products.calls import OPERATION
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.judge.products.judging import ask_cases, list_asked, list_fitting, list_products
from mxspec_conformance.results.report import FormatResult, Requirement, Verdict
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import topic_level, topic_text

Progress = Callable[[str], None]
Total = dict[str, Any]


def plan_products(
    session: TargetSession, spec: Any, *, names: Sequence[str], formats: Sequence[str], accumulator: str | None, seed: int,
    timeout: float, in_process: bool, progress: Progress,
) -> list[ProductJob]:  # fmt: skip
    """A job for each product: of those named, or with a side in one of the formats; without either all.

    What numbers are rounded to before they are multiplied is declared, or found by asking the judge's own cases.

    Raises ValueError for a name that the target does not have, and an unknown class.
    """
    if not session.capabilities.has(OPERATION):
        if names:
            raise ValueError(f"{session.capabilities.name} has no matmul; --product is for targets with one")
        return []
    known = dict(list_products(session))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{session.capabilities.name} has no product {unknown[0]!r}; it has {', '.join(known)}")
    declared = session.capabilities.accumulator
    class_name = accumulator or declared or DEFAULT_ACCUMULATOR
    if class_name not in ACCUMULATORS:
        raise ValueError(f"unknown accumulator {class_name!r}; known are {', '.join(ACCUMULATORS)}")
    planned = []
    for name, product in known.items():
        if (names and name not in names) or (formats and not product.has_format(formats)):
            continue
        contracts = list_asked(product, session.capabilities.contract)
        if len(contracts) > 1:
            progress(f"{name}: what numbers are rounded to")
            with np.errstate(all="ignore"):
                asked = ask_cases(session, list_cases(product, session.capabilities, ACCUMULATORS[class_name]))
                contracts = list_fitting(asked, contracts, ACCUMULATORS[class_name])
        fitting = [c.text for c in contracts]
        planned.append(ProductJob(spec, product.text, name, class_name, fitting[0], seed, timeout, in_process, tuple(fitting[1:])))
    return planned


def describe_product(job: ProductJob, *, asked: bool, declared: bool) -> FormatResult:
    """What a product is judged by."""
    result = FormatResult(
        format=job.fmt, judged_against=f"{job.class_name} sums", chosen="asked" if asked else "claimed" if declared else "default",
        provisional=False, distance=0, cases=0, operations=[OPERATION],
    )  # fmt: skip
    if job.contract != EXACTLY:
        result.behaviour["numbers before they are multiplied"] = job.contract.words
    return result


def sum_results(results: Sequence[Mapping[str, Any]]) -> Total:
    """The batches of one product together."""
    total: Total = {
        "batches": len(results), "products": 0, "outputs": 0, "certain": 0, "elements": 0, "failing": 0, "wrong_outputs": 0,
        "topics": {}, "no_answers": {}, "relations": {},
    }  # fmt: skip
    for result in results:
        for name in ("products", "outputs", "certain", "elements", "failing", "wrong_outputs"):
            total[name] += result[name]
        for topic, (asked, wrong) in result["topics"].items():
            counted = total["topics"].setdefault(topic, [0, 0])
            counted[0] += asked
            counted[1] += wrong
        for name, no_answer in result["no_answers"].items():
            total["no_answers"].setdefault(name, {**no_answer, "count": 0})["count"] += no_answer["count"]
    return total


def sum_flags(job: ProductJob, results: Sequence[Mapping[str, Any]]) -> Flags:
    """What all batches have reached."""
    found = [read_flags(job, result["coverage"]) for result in results]
    return {name: np.logical_or.reduce([f[name] for f in found]) for name in (found[0] if found else {})}


def conclude_product(
    job: ProductJob, keyed: Sequence[tuple[int, Mapping[str, Any]]], session: TargetSession, progress: Progress
) -> tuple[ProductJob, Total, ReducedProducts, dict[str, list[int]]]:
    """The job, under the contract that fits, and totals, causes and coverage of one product.

    keyed: (number of the batch, its result), in order.
    """
    job, results = settle_batches(job, [dict(result) for _, result in keyed])
    sightings = [(number, index) for (number, _), result in zip(keyed, results, strict=True) for index in result["wrong"]]
    reduced = reduce_products(job, sightings, session, progress) if sightings else ReducedProducts()
    coverage = {name: [int(flags.sum()), int(flags.size)] for name, flags in sum_flags(job, results).items()}
    return job, sum_results(results), reduced, coverage


def list_product_requirements(job: ProductJob, total: Total, reduced: ReducedProducts) -> list[Requirement]:
    """A requirement for each topic that was drawn, and one for calls without an answer."""
    requirements = []
    for topic, (asked, wrong) in sorted(total["topics"].items()):
        own = [f for f in reduced.findings if f.topic == topic]
        level = topic_level(topic, OPERATION, job.fmt)
        verdict = Verdict.FAIL if wrong else Verdict.PASS
        explained = ""
        if wrong and reduced.deviation is not None:
            verdict, explained = Verdict.DEVIATION, reduced.deviation.name
        words = [f.words for f in own] or [f.words for f in reduced.findings] * bool(wrong)
        if wrong and not words:
            words = ["wrong when it was asked, and right when the same calls were made again: it depends on chance, or on earlier calls"]
        requirements.append(
            Requirement(
                id=f"fuzz/{job.fmt}/{topic}", level=level.value, text=topic_text(topic, OPERATION), verdict=verdict,
                cases=asked, failing=wrong, note="; ".join(words)[:400], failing_cases=[f.failure.case[:120] for f in own][:20],
                first=own[0].failure if own else None, explained_by=explained,
            )
        )  # fmt: skip
    answers = Requirement(
        id=f"fuzz/{job.fmt}/answers", level="contract", text="the target answers", verdict=Verdict.PASS, cases=total["products"]
    )
    if total["no_answers"]:
        refused = all(n["kind"] == FailureKind.UNSUPPORTED for n in total["no_answers"].values())
        answers.verdict = Verdict.UNSUPPORTED if refused else Verdict.ERROR
        answers.note = "; ".join(f"{k} ({t['call']}, {t['count']} times)" for k, t in total["no_answers"].items())[:400]
        answers.failing = sum(t["count"] for t in total["no_answers"].values())
    return [*requirements, answers]

