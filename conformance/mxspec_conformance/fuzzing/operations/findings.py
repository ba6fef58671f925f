"""Batches of groups, judged by the rules of the vectors; then the causes of wrong ones, each with the smallest that is still wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxspec_conformance.fuzzing.operations.draw import Input, draw_inputs, lanes_of, list_inputs, make_document, read_cases, with_lanes
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.subject import Dependence, Finding, Progress, Reduced, Result
from mxspec_conformance.judge.affine.stage import judge_affine
from mxspec_conformance.judge.sparse import judge_sparse
from mxspec_conformance.results.report import GOOD, Failure, Requirement
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import SparseFunction

#: Batches with wrong groups that are run again, causes that are reported, wrong groups that are tried alone, and calls to shrink one.
_BATCHES, _CAUSES, _TRIED, _CALLS = 3, 6, 4, 40


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


@dataclass(slots=True, kw_only=True)
class OperationFinding(Finding):
    """One cause, among the wrong groups of one batch."""

    depends: Dependence
    #: The groups that show it: one where it is wrong alone.
    inputs: tuple[Input, ...]


def reduce_groups(job: OperationJob, batches: Sequence[int], session: TargetSession, progress: Progress = lambda _: None) -> Reduced:
    """The causes in some batches, in order of their numbers."""
    reduced = Reduced(left=len(batches[_BATCHES:]))
    known: set[str] = set()
    for number in batches[:_BATCHES]:
        progress(f"{job.fmt}: batch {number} again")
        inputs = draw_inputs(job, number)
        wrong = list_wrong(judge_document(job, session, make_document(job, inputs))[0])
        reduced.lost += not wrong
        for requirement in wrong:
            words = requirement.note.removeprefix("as if ").removeprefix("as ") or _describe(requirement.first)
            if (words or requirement.topic) in known or len(known) >= _CAUSES:
                continue
            known.add(words or requirement.topic)
            progress(f"{job.fmt}: reducing {requirement.topic}")
            reduced.findings.append(_reduce(job, session, inputs, requirement, words or f"wrong {requirement.topic}"))
    return reduced


def _describe(failure: Failure | None) -> str:
    """What is wrong, without the numbers of one group."""
    return failure.steps[0].partition(":")[0] if failure is not None and failure.steps and ":" in failure.steps[0] else ""


def _reduce(job: OperationJob, session: TargetSession, inputs: Sequence[Input], requirement: Requirement, words: str) -> OperationFinding:
    by_label = list_inputs(make_document(job, inputs))
    drawn = list(by_label.values())
    wrong = [by_label[label] for label in requirement.failing_cases if label in by_label]

    def judge(groups: Sequence[Input]) -> Requirement | None:
        found = list_wrong(judge_document(job, session, make_document(job, groups), calls=False)[0])
        return found[0] if found else None

    chosen, again, depends = list(drawn), None, Dependence.CALL
    for one in wrong[:_TRIED]:
        if (again := judge([one])) is not None:
            chosen, depends = [one], Dependence.NOTHING
            break
    if again is None:
        for one in wrong[:_TRIED]:
            at = drawn.index(one)
            adjacent = [drawn[(at + i) % len(drawn)] for i in (0, 1, -1)]
            if (again := judge(adjacent)) is not None:
                chosen, depends = adjacent, Dependence.NEIGHBOURS
                break
    if depends is Dependence.NOTHING:
        chosen = [_simplify(chosen[0], judge)]
        again = judge(chosen)
    failure = (None if again is None else again.first) or requirement.first
    failure = failure or Failure(case=requirement.topic, given={}, expected={}, returned={}, steps=[requirement.note])
    failure.snippet = ""  # it would look for the group in the vectors
    if depends is not Dependence.NOTHING:
        words += f", {depends}"
    return OperationFinding(
        job=job, topic=requirement.topic, words=words, mismatches=requirement.failing, failure=failure, how=depends.value,
        nonzero=sum(lane != 0 for lane in lanes_of(chosen[0])), depends=depends, inputs=tuple(chosen),
    )  # fmt: skip


def _simplify(one: Input, judge: Callable[[Sequence[Input]], Requirement | None]) -> Input:
    """Values and codes set to zero, in runs that are halved, as long as the group stays wrong."""
    left, length = _CALLS, max(len(lanes_of(one)) // 2, 1)
    while length >= 1 and left > 0:
        for start in range(0, len(lanes_of(one)), length):
            lanes = lanes_of(one)
            emptied = (*lanes[:start], *(0 for _ in lanes[start : start + length]), *lanes[start + length :])
            if emptied == lanes or left <= 0:
                continue
            left -= 1
            if judge([with_lanes(one, emptied)]) is not None:
                one = with_lanes(one, emptied)
        length //= 2
    return one
