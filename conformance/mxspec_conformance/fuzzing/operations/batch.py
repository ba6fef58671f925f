"""One batch of groups: draw, call, judge by the rules of the vectors. Plain data in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mxspec_conformance.fuzzing.operations.draw import draw_inputs, lanes_of, make_document, read_cases
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.subject import Result
from mxspec_conformance.judge.affine.stage import judge_affine
from mxspec_conformance.judge.sparse import judge_sparse
from mxspec_conformance.results.report import GOOD, Requirement
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import SparseFunction


def judge_document(
    job: OperationJob, session: TargetSession, document: Mapping[str, Any], *, calls: bool = True
) -> tuple[list[Requirement], str]:
    """The requirements that the groups of a document are judged by, and the profile, contract or rule of it; empty: none.

    calls: whether calls of other sizes and in other memory are made as well.
    """
    cases = read_cases(document)
    with np.errstate(all="ignore"):
        if job.is_affine:
            found, standing = judge_affine(session, job.function, job.operand, job.claim, cases, calls=calls)
            return found, "" if standing is None else standing.profile
        rule = session.capabilities.prune_rule if job.function == SparseFunction.PRUNE else ""
        return judge_sparse(session, job.function, job.operand, cases, calls=calls), rule


def list_wrong(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Those that are not met; what the specification leaves open is."""
    return [r for r in requirements if r.verdict not in GOOD]


def ask_groups(session: TargetSession, job: OperationJob, number: int) -> Result:
    """Draw, call, judge."""
    inputs = draw_inputs(job, number)
    found, judged = judge_document(job, session, make_document(job, inputs))
    return {
        "groups": len(inputs), "elements": sum(len(lanes_of(one)) for one in inputs), "judged": judged,
        "topics": {r.topic: [r.cases, r.failing, r.verdict.value, r.level, r.note] for r in found},
        "failing": sum(r.failing for r in list_wrong(found)), "wrong": [r.topic for r in list_wrong(found)], "no_answers": {},
    }  # fmt: skip
