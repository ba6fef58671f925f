"""Functions of affine integers and of sparse operands in a campaign: which there are, and what their batches came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mxspec_conformance.fuzzing.operations.findings import ReducedGroups, reduce_groups
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.results.report import GOOD, FormatResult, Requirement, Verdict
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS
from mxspec_conformance.targets.interface import SPARSE_FUNCTIONS
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import topic_text

Progress = Callable[[str], None]
Total = dict[str, Any]


def plan_operations(
    session: TargetSession, spec: Any, *, names: Sequence[str], seed: int, timeout: float, in_process: bool
) -> list[OperationJob]:
    """A job for each function in each format: of those named `function` or `function.format`; without names all.

    Raises ValueError for a name that the target does not have.
    """
    capabilities = session.capabilities
    claims = {"quantize_affine": capabilities.affine_profile, "dequantize_affine": capabilities.affine_contract}
    planned = [
        OperationJob(spec, function, operand, claims.get(function) or None, seed, timeout, in_process)
        for function in (*AFFINE_FUNCTIONS, *SPARSE_FUNCTIONS)
        if capabilities.has(function)
        for operand in (capabilities.affine if function in AFFINE_FUNCTIONS else capabilities.sparse_formats)
    ]
    for name in names:
        if not any(name in (job.function, job.fmt) for job in planned):
            known = ", ".join(job.fmt for job in planned) or "none"
            raise ValueError(f"{capabilities.name} has no operation {name!r}; it has {known}")
    return [job for job in planned if not names or {job.function, job.fmt} & set(names)]


def conclude_operation(
    job: OperationJob, keyed: Sequence[tuple[int, Mapping[str, Any]]], session: TargetSession, progress: Progress
) -> tuple[FormatResult, Total, ReducedGroups, list[Requirement]]:
    """What one function is like, its totals, causes and requirements.

    keyed: (number of the batch, its result), in order.
    """
    wrong = [number for number, result in keyed if result["wrong"]]
    reduced = reduce_groups(job, wrong, session, progress) if wrong else ReducedGroups()
    total: Total = {
        "batches": len(keyed), "groups": sum(r["groups"] for _, r in keyed), "elements": sum(r["elements"] for _, r in keyed),
        "failing": sum(r["failing"] for _, r in keyed), "relations": {}, "no_answers": {},
    }  # fmt: skip
    judged = Counter(r["judged"] for _, r in keyed).most_common(1)
    against = job.claim or (judged[0][0] if judged else "") or "the model, ties and zeros as left open"
    result = FormatResult(
        format=job.fmt, judged_against=against, chosen="claimed" if job.claim else "nearest", provisional=False,
        distance=total["failing"], cases=total["groups"], operations=[job.function], deviations=[f.words for f in reduced.findings],
    )  # fmt: skip
    return result, total, reduced, _list_requirements(job, [r for _, r in keyed], reduced)


def _list_requirements(job: OperationJob, results: Sequence[Mapping[str, Any]], reduced: ReducedGroups) -> list[Requirement]:
    """A requirement for each topic, with the worst verdict of all batches."""
    found: list[Requirement] = []
    for topic in sorted({topic for r in results for topic in r["topics"]}):
        rows = [r["topics"][topic] for r in results if topic in r["topics"]]
        bad = [row for row in rows if Verdict(row[2]) not in GOOD]
        worst = bad or [row for row in rows if Verdict(row[2]) is Verdict.OPEN] or rows
        own = [f for f in reduced.findings if f.topic == topic]
        found.append(
            Requirement(
                id=f"fuzz/{job.fmt}/{topic}", level=worst[0][3], text=topic_text(topic, job.function), verdict=Verdict(worst[0][2]),
                cases=sum(row[0] for row in rows), failing=sum(row[1] for row in rows),
                note=("; ".join(f.words for f in own) or (str(worst[0][4]) if worst is not rows else ""))[:400], failing_cases=[f.failure.case[:120] for f in own][:20],
                first=own[0].failure if own else None,
            )
        )  # fmt: skip
    return found
