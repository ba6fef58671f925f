"""Products in a campaign: the jobs, the verdict on their batches, and wrong ones as a file that replays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, EXACTLY, get_accumulator
from mxspec_conformance.campaign.verdicts import judge_count
from mxspec_conformance.fuzzing.products.batch import ask_products, empty_coverage, settle_batches
from mxspec_conformance.fuzzing.products.findings import ProductFinding, reduce_products
from mxspec_conformance.fuzzing.products.job import ProductJob
from mxspec_conformance.fuzzing.subject import (
    Campaign,
    Reduced,
    Replayed,
    Request,
    Restart,
    Result,
    Subject,
    add_up,
    count_findings,
    judge_answers,
)
from mxspec_conformance.judge.products.asked import ask_case, ask_cases
from mxspec_conformance.judge.products.calls import OPERATION
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.judge.products.classes import list_asked, list_fitting
from mxspec_conformance.judge.products.judging import list_products
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.judge.products.stored import read_product, store_product
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.results.report import FormatResult, Requirement
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import topic_level, topic_text

SCHEMA = "mxspec-product-cases/1"


def plan_products(request: Request) -> list[ProductJob]:
    """A job for each product: of those named, or with an operand in one of the formats; without either all.

    None where a profile is requested, which does not define them, and no product is named. What numbers are rounded to before they
    are multiplied is declared, or found by asking the judge's own cases.
    Raises ValueError for a name that the target does not have, and an unknown class.
    """
    settings, session = request.settings, request.session
    capabilities, names = session.capabilities, settings.products
    if (settings.profile is not None or settings.operations) and not names:
        return []
    if not capabilities.has(OPERATION):
        if names:
            raise ValueError(f"{capabilities.name} has no matmul; --product is for targets with one")
        return []
    known = {name: product for function, name, product in list_products(session) if function == "matmul"}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{capabilities.name} has no product {unknown[0]!r}; it has {', '.join(known)}")
    class_name = settings.accumulator or capabilities.accumulator or DEFAULT_ACCUMULATOR
    if class_name not in ACCUMULATORS:
        raise ValueError(f"unknown accumulator {class_name!r}; known are {', '.join(ACCUMULATORS)}")
    planned = []
    for name, product in known.items():
        if (names and name not in names) or (settings.formats and not product.has_format(settings.formats)):
            continue
        contracts = list_asked(product, capabilities.contract)
        if len(contracts) > 1:
            request.progress(f"{name}: what numbers are rounded to")
            with np.errstate(all="ignore"):
                answered = ask_cases(session, list_cases(product, capabilities, ACCUMULATORS[class_name]))
                contracts = list_fitting(answered, contracts, ACCUMULATORS[class_name])
        first, *rivals = (c.text for c in contracts)
        planned.append(
            ProductJob(text=product.text, fmt=name, class_name=class_name, contract_name=first, rival_names=tuple(rivals), **request.common)
        )
    return planned


def conclude(request: Request, jobs: Sequence[ProductJob], batches: Sequence[tuple[ProductJob, int, Result]], campaign: Campaign) -> None:
    """Each product under the contract that fits its batches: totals, causes and coverage."""
    declared = bool(request.session.capabilities.accumulator)
    chosen = "asked" if request.settings.accumulator is not None else "claimed" if declared else "default"
    for planned in jobs:
        numbers = [number for job, number, _ in batches if job is planned]
        job, results = settle_batches(planned, [result for job, _, result in batches if job is planned])
        sightings = [(number, index) for number, result in zip(numbers, results, strict=True) for index in result["wrong"]]
        reduced = reduce_products(job, sightings, request.session, request.progress) if sightings else Reduced()
        total = _sum_results(results)
        result = FormatResult(
            format=job.fmt, judged_against=f"{job.class_name} sums", chosen=chosen, provisional=False, distance=total["failing"],
            cases=total["products"], operations=[OPERATION], deviations=[f.words for f in reduced.findings],
        )  # fmt: skip
        if job.contract != EXACTLY:
            result.behaviour["numbers before they are multiplied"] = job.contract.words
        described = [f.describe(accumulator=job.class_name, contract=job.contract_name) for f in reduced.findings]
        campaign.enter(result, total, reduced, _list_requirements(job, total, reduced), described)
        coverage = empty_coverage(job)
        for one in results:
            coverage.merge(one["coverage"])
        campaign.report.details.setdefault("product_coverage", {})[job.fmt] = coverage.counts() if results else {}
        campaign.products += reduced.findings


def _sum_results(results: Sequence[Result]) -> Result:
    """The batches of one product together."""
    names = ("products", "outputs", "certain", "elements", "failing", "wrong_outputs")
    total: Result = {"batches": 0, **dict.fromkeys(names, 0), "topics": {}, "no_answers": {}, "relations": {}}
    for result in results:
        add_up(total, result, *names)
        for topic, (tested, wrong) in result["topics"].items():
            counted = total["topics"].setdefault(topic, [0, 0])
            counted[0] += tested
            counted[1] += wrong
    return total


def _list_requirements(job: ProductJob, total: Result, reduced: Reduced) -> list[Requirement]:
    """A requirement for each topic that was drawn, and one for calls without an answer."""
    requirements = []
    for topic, (tested, wrong) in sorted(total["topics"].items()):
        count = count_findings([f for f in reduced.findings if f.topic == topic], tested)
        count.failing = wrong
        if wrong and reduced.deviation is not None:
            count.explained_by = reduced.deviation.name
        if wrong and not count.note:
            count.note = "; ".join(f.words for f in reduced.findings)[:400] or (
                "wrong in its batch, and right when the same calls were made again: it depends on chance, or on earlier calls"
            )
        level = topic_level(topic, OPERATION, job.fmt)
        requirements.append(judge_count(f"fuzz/{job.fmt}/{topic}", level, topic_text(topic, OPERATION), count))
    return [*requirements, judge_answers(job.fmt, total["products"], total["no_answers"])]


def make_files(findings: Sequence[ProductFinding]) -> Mapping[str, bytes]:
    """The products of each format in a file of its own; operands that are too large are left out."""
    files: dict[str, list[Any]] = {}
    for finding in findings:
        stored = store_product(finding.stored)
        if stored is not None:
            files.setdefault(f"matmul-{finding.job.fmt.replace('#', '-')}.json", []).append(stored)
    return {name: (json.dumps({"schema": SCHEMA, "products": p}, indent=1) + "\n").encode("ascii") for name, p in files.items()}


def is_products(document: Any) -> bool:
    """Whether a file is one of products."""
    return isinstance(document, dict) and document.get("schema") == SCHEMA


def replay_products(path: Path, document: Any, session: TargetSession, _restart: Restart | None = None) -> list[Replayed]:
    """Every product of a file, run again.

    Raises ValueError where a product is none.
    """
    products = document.get("products")
    if not isinstance(products, list):
        raise ValueError(f"{path} has no list of products")
    results = []
    for number, one in enumerate(products):
        stored = read_product(one, f"{path.name}: product {number}")
        answer = ask_case(session, stored.case)
        if isinstance(answer, NoAnswer):
            results.append(Replayed(stored.case.label, answer.kind, answer.message))
            continue
        with np.errstate(all="ignore"):
            allowed = allow(refer_case(stored.case, stored.contract), stored.case, get_accumulator(stored.accumulator))
            wrong = int((~allowed.accepts(answer)).sum())
        words = f"{wrong} of {answer.size} outputs" if wrong else ""
        results.append(Replayed(stored.case.label, "differs" if wrong else "right", words))
    return results


PRODUCTS = Subject(
    job=ProductJob, finding=ProductFinding, ask=ask_products, conclude=conclude, write=make_files, owns=is_products,
    replay=replay_products,
)  # fmt: skip
