"""Functions of affine integers and of sparse operands in a campaign: the jobs, the verdict on their batches, and their files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mxspec_conformance.campaign.verdicts import worst_rows
from mxspec_conformance.fuzzing.operations.draw import list_inputs, make_document
from mxspec_conformance.fuzzing.operations.findings import OperationFinding, ask_groups, judge_document, reduce_groups
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.subject import Campaign, Reduced, Replayed, Request, Restart, Result, Settings, Subject, count_findings
from mxspec_conformance.results.report import GOOD, FormatResult, Requirement, Verdict
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS
from mxspec_conformance.targets.interface import SPARSE_FUNCTIONS
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import topic_text


def plan_operations(request: Request) -> list[OperationJob]:
    """A job for each function in each format: of those named `function` or `function.format`; without names all.

    None where a profile, a block format or a product is requested, and no function. Raises ValueError for a name that the target
    does not have.
    """
    settings, capabilities = request.settings, request.session.capabilities
    names = settings.operations
    if (settings.profile is not None or settings.formats or settings.products) and not names:
        return []
    claims = {"quantize_affine": capabilities.affine_profile, "dequantize_affine": capabilities.affine_contract}
    planned = [
        OperationJob(function=function, operand=operand, claim=claims.get(function) or None, **request.common)
        for function in (*AFFINE_FUNCTIONS, *SPARSE_FUNCTIONS)
        if capabilities.has(function)
        for operand in (capabilities.affine if function in AFFINE_FUNCTIONS else capabilities.sparse_formats)
    ]
    for name in names:
        if not any(name in (job.function, job.fmt) for job in planned):
            known = ", ".join(job.fmt for job in planned) or "none"
            raise ValueError(f"{capabilities.name} has no operation {name!r}; it has {known}")
    return [job for job in planned if not names or {job.function, job.fmt} & set(names)]


def conclude(request: Request, jobs: Sequence[OperationJob], done: Sequence[tuple[OperationJob, int, Result]], campaign: Campaign) -> None:
    """What each function is like, its totals, causes and requirements."""
    for job in jobs:
        own = {number: result for one, number, result in done if one is job}
        results = list(own.values())
        wrong = [number for number, result in own.items() if result["wrong"]]
        reduced = reduce_groups(job, wrong, request.session, request.progress) if wrong else Reduced()
        sums = {name: sum(r[name] for r in results) for name in ("groups", "elements", "failing")}
        total = {"batches": len(results), **sums, "relations": {}, "no_answers": {}}
        judged = Counter(r["judged"] for r in results).most_common(1)
        against = job.claim or (judged[0][0] if judged else "") or "the model, ties and zeros as left open"
        result = FormatResult(
            format=job.fmt, judged_against=against, chosen="claimed" if job.claim else "nearest", provisional=False,
            distance=total["failing"], cases=total["groups"], operations=[job.function], deviations=[f.words for f in reduced.findings],
        )  # fmt: skip
        described = [f.describe(profile=against) for f in reduced.findings]
        campaign.enter(result, total, reduced, _list_requirements(job, results, reduced), described)
        campaign.report.details["not_seen_again"] += [f"{job.fmt}: {reduced.lost} batches"] * bool(reduced.lost)
        campaign.operations += reduced.findings


def _list_requirements(job: OperationJob, results: Sequence[Result], reduced: Reduced) -> list[Requirement]:
    """A requirement for each topic, with the worst verdict of all batches."""
    found: list[Requirement] = []
    for topic in sorted({topic for r in results for topic in r["topics"]}):
        rows = [r["topics"][topic] for r in results if topic in r["topics"]]
        worst = worst_rows(rows)
        count = count_findings([f for f in reduced.findings if f.topic == topic], sum(row[0] for row in rows))
        found.append(
            Requirement(
                id=f"fuzz/{job.fmt}/{topic}", level=worst[0][3], text=topic_text(topic, job.function), verdict=Verdict(worst[0][2]),
                cases=count.cases, failing=sum(row[1] for row in rows),
                note=count.note or (str(worst[0][4])[:400] if worst is not rows else ""), failing_cases=count.labels[:20],
                first=count.first,
            )
        )  # fmt: skip
    return found


def make_files(findings: Sequence[OperationFinding]) -> Mapping[str, bytes]:
    """The groups of each function and format in a file of its own."""
    files = {}
    for job in dict.fromkeys(f.job for f in findings):
        groups = dict.fromkeys(one for f in findings if f.job == job for one in f.inputs)
        files[f"{job.function}-{job.format_name}.json"] = (json.dumps(make_document(job, list(groups)), indent=1) + "\n").encode("ascii")
    return files


def is_operations(document: Any) -> bool:
    """Whether a file is one of groups."""
    return isinstance(document, dict) and document.get("operation") in (*AFFINE_FUNCTIONS, "sparse")


def replay_operations(path: Path, document: Any, session: TargetSession, _restart: Restart | None = None) -> list[Replayed]:
    """The groups of a file, run again together, by the answers that the model gives now: a row for each requirement.

    Raises ValueError for a file that is none, and where the target does not have its function.
    """
    results: list[Replayed] = []
    try:
        sparse = document["operation"] == "sparse"
        functions = dict.fromkeys(e["function"] for e in document["cases"]) if sparse else {document["operation"]: None}
        for function in functions:
            own = {**document, "cases": [e for e in document["cases"] if not sparse or e["function"] == function]}
            groups = list(list_inputs(own).values())
            job = plan_operations(Request(session, session, Settings(operations=(f"{function}.{document['format']}",))))[0]
            for r in judge_document(job, session, make_document(job, groups))[0]:
                verdict = "right" if r.verdict in GOOD else "differs"
                words = f"{r.failing} of {r.cases}: {r.note}".rstrip(": ") if verdict == "differs" else ""
                results.append(Replayed(f"{job.fmt}/{r.topic}", verdict, words))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{path} has groups that cannot be run: {type(error).__name__} {error}") from None
    return results


OPERATIONS = Subject(
    job=OperationJob, finding=OperationFinding, ask=ask_groups, conclude=conclude, write=make_files, owns=is_operations,
    replay=replay_operations,
)  # fmt: skip
