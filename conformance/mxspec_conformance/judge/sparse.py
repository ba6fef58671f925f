"""Judging `prune`, `compress` and `decompress`: by the numbers that come back, never by metadata.

Any choice that keeps the largest is right, and any legal encoding of the same numbers. Which of equal magnitudes is kept is open,
unless the target claims a rule.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.sparsity import KEPT, RULES, SparseFormat, find_illegal, get_sparse
from mxspec_conformance.judge.explanation import Explanation
from mxspec_conformance.judge.sparse_calls import judge_sparse_calls
from mxspec_conformance.judge.sparse_groups import Asked, Bools, Codes, list_masks, place_kept
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.observations.sparse_cases import REFUSABLE, list_sparse_cases
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import SparseCase, SparseFunction, load_sparse_cases

#: Groups in a row, and rows, of the calls that ask cases: whole words and tiles of every layout of metadata.
_WIDE, _HIGH = 32, 32

#: Topics of a function that follow from what comes back.
_FOLLOWING = {SparseFunction.PRUNE: ("tie-choice",), SparseFunction.COMPRESS: ("metadata", "zero-metadata"), SparseFunction.DECOMPRESS: ()}


def list_topics(function: str, fmt: str) -> list[str]:
    """The topics under which a function may be judged for a sparse format."""
    topics = dict.fromkeys(case.topic for case in load_sparse_cases(fmt) if case.function == function)
    return [*topics, *_FOLLOWING[SparseFunction(function)], "call-size", "memory", "state", "refusal"]


def judge_sparse(
    session: TargetSession, function: str, fmt: str, given: Sequence[SparseCase] | None = None, *, calls: bool = True
) -> list[Requirement]:
    """The requirements of one function for one sparse format.

    given: the cases; None: those of the vectors. calls: whether calls of other sizes and in other memory are made as well.
    """
    chosen, scorecard = get_sparse(fmt), Scorecard(function, fmt)
    rule = session.capabilities.prune_rule if function == SparseFunction.PRUNE else ""
    failures = Counter[FailureKind]()
    pools: list[Asked] = []
    adjacent: list[Asked] = []
    answers = False
    contradicted: set[Explanation] = set()
    for case in list_sparse_cases(fmt) if given is None else given:
        if case.function != function:
            continue
        asked = Asked(case, chosen, rule)
        if given is not None or keeps("sparse", fmt, case.id):
            found = run_bisected(range(asked.count), partial(_ask, session, asked), failures=failures)
            answered = _enter(asked, found, scorecard)
            answers |= answered is not None
            if answered is not None:
                contradicted |= answered.list_contradicted()
            if answered is not None and case.topic in ("largest", "pattern"):
                pools.append(answered)
            elif answered is not None and _belongs_to_calls(answered):
                adjacent.append(answered)
    if pools and calls:
        judge_sparse_calls(session, reduce(Asked.join, adjacent, pools[0]), scorecard)
    order = {name: number for number, name in enumerate(RULES)}
    explanation = common_explanation(scorecard.tallies.values(), lambda e: (e.cause, order.get(e.name, 0)), contradicted.__contains__)
    requirements = []
    for tally in scorecard.tallies.values():
        requirement = judge_tally(tally, explanation, _show_first, described=bool(rule), may_refuse=answers)
        if requirement.note and requirement.verdict is Verdict.FAIL and explanation is not None:
            requirement.note = f"as if {explanation.text}"
        requirements.append(requirement)
    return requirements


def _belongs_to_calls(answered: Asked) -> bool:
    """Whether groups are asked in calls of other sizes together with the ordinary ones: groups of few numbers, of which a packer has to name
    places that hold none; and ties, where the target claims a rule. Without one each call may choose anew."""
    function, topic = answered.case.function, answered.case.topic
    return (function is SparseFunction.COMPRESS and topic == "few") or (topic == "prune-tie" and bool(answered.rule))


def _show_first(tally: Tally) -> Failure | None:
    return None if tally.show is None else tally.show()


def fit_rows(session: TargetSession, count: int, fmt: SparseFormat) -> tuple[int, int]:
    """(rows, groups in a row) of a call that holds so many groups, in a shape that the target takes."""
    limits = session.capabilities.limits
    wide = math.lcm(limits.columns, _WIDE * fmt.group) // fmt.group
    step = math.lcm(limits.rows, _HIGH)
    rows = max(-(-count // wide), limits.least_rows)
    return -(-rows // step) * step, wide


def _ask(session: TargetSession, asked: Asked, index: Sequence[int]) -> list[tuple[Codes, ...]]:
    """What comes back for some groups, which are repeated to fill the call."""
    rows, wide = fit_rows(session, len(index), asked.fmt)
    part = asked.choose(np.resize(np.array(index, np.intp), rows * wide))
    returned = part.read(session.call(asked.case.function.value, *part.arguments(rows)))
    return [tuple(a[i] for a in returned) for i in range(len(index))]


def _enter(asked: Asked, found: Sequence[Any], scorecard: Scorecard) -> Asked | None:
    """Count a case's groups; gives those that were answered, with the answers."""
    case = asked.case
    answered = [i for i, answer in enumerate(found) if not isinstance(answer, NoAnswer)]
    for i, answer in enumerate(found):
        refusable = case.topic == "illegal-metadata" or REFUSABLE in case.flags
        if isinstance(answer, NoAnswer) and refusable and answer.kind is FailureKind.ERROR and answer.is_refusal:
            scorecard.count(case.topic, f"{case.id}[{i}]", ok=True, origin=case.id)
        elif isinstance(answer, NoAnswer):
            given = partial(_describe, asked.choose(np.array([i], np.intp)))
            scorecard.count_no_answer(case.topic, f"{case.id}[{i}]", answer, origin=case.id, given=given)
    if not answered:
        return None
    part = asked.choose(np.array(answered, np.intp))
    returned = tuple(np.array([found[i][n] for i in answered]) for n in range(len(found[answered[0]])))
    _count_answers(part, returned, scorecard, [f"{case.id}[{i}]" for i in answered])
    return replace(part, answers=part.mean(returned), strayed=part.find_strays(returned))


def _count_answers(part: Asked, returned: tuple[Codes, ...], scorecard: Scorecard, labels: Sequence[str]) -> None:
    """Count groups that were answered, under their topic and under those that follow from what came back."""
    case, topic = part.case, part.case.topic
    _count(part, returned, scorecard, labels, topic, part.find_right(returned))
    if case.function is SparseFunction.COMPRESS:
        illegal = find_illegal(returned[1])
        empty = part.find_empty(returned[0])
        for name, where in (("zero-metadata", empty), ("metadata", ~empty)):
            if where.any():
                _count(part, returned, scorecard, labels, name, ~illegal, np.flatnonzero(where), explain=False)
    if case.function is SparseFunction.PRUNE and topic == "prune-tie":
        chosen = part.equal(returned[0], part.prune_by(part.rule or "lower"))
        _count(part, returned, scorecard, labels, "tie-choice", chosen)


def _count(
    part: Asked, returned: tuple[Codes, ...], scorecard: Scorecard, labels: Sequence[str], topic: str, right: Bools,
    index: npt.NDArray[np.intp] | None = None, *, explain: bool = True,
) -> None:  # fmt: skip
    equals = iter(part.explain(returned, ~right)) if explain else iter(())
    for i in range(part.count) if index is None else index.tolist():
        show = None if right[i] else partial(_show, part, returned, i, labels[i], topic)
        named = frozenset() if right[i] else next(equals, frozenset())
        scorecard.count(topic, labels[i], ok=bool(right[i]), equals=named, origin=part.case.id, show=show)


def _hex(codes: Codes, fmt: SparseFormat) -> str:
    return " ".join(f"{int(c):0{fmt.codes.digits}x}" for c in np.atleast_1d(codes))


def _describe(one: Asked) -> dict[str, Any]:
    """The input of a single group."""
    case, fmt = one.case, one.fmt
    if case.function is not SparseFunction.DECOMPRESS:
        return {"format": fmt.name, "codes": _hex(case.codes[0], fmt)}
    return {"format": fmt.name, "kept": _hex(case.kept[0], fmt), "nibble": f"{int(case.metadata[0]):x}"}


def _show(part: Asked, returned: tuple[Codes, ...], i: int, label: str, topic: str) -> Failure:
    one, fmt = part.choose(np.array([i], np.intp)), part.fmt
    case = one.case
    failure = Failure(case=label, given=_describe(one), expected={}, returned={}, steps=[], snippet=_make_snippet(one))
    if case.function is SparseFunction.PRUNE:
        masks = [m for m, bit in zip(list_masks(fmt), (int(case.patterns[0]) >> n & 1 for n in range(len(KEPT))), strict=True) if bit]
        rights = [part.rule] if part.rule else ["lower"] if topic == "tie-choice" else []
        legal = [one.prune_by(name)[0] for name in rights] or [np.where(m, case.codes[0], 0).astype(np.uint8) for m in masks]
        failure.expected["codes"] = " or ".join(dict.fromkeys(_hex(c, fmt) for c in legal))
        failure.returned["codes"] = _hex(returned[0][i], fmt)
    elif case.function is SparseFunction.DECOMPRESS:
        failure.expected["codes"], failure.returned["codes"] = _hex(case.codes[0], fmt), _hex(returned[0][i], fmt)
    else:
        nibble = int(returned[1][i])
        failure.returned |= {"kept": _hex(returned[0][i], fmt), "nibble": f"{nibble:x}"}
        if topic in ("metadata", "zero-metadata"):
            failure.expected["nibble"] = ", ".join(f"{n:x}" for n in sorted(KEPT))
            failure.steps.append(f"nibble {nibble:#x} names positions {nibble & 3} and {nibble >> 2}; ascending ones are legal")
        else:
            failure.expected["decompressed"] = _hex(case.codes[0], fmt)
            failure.returned["decompressed"] = _hex(place_kept(returned[0][i : i + 1], returned[1][i : i + 1], fmt)[0], fmt)
    return failure


def _make_snippet(one: Asked) -> str:
    """Lines that give a right answer."""
    case, fmt = one.case, one.fmt
    lines = ["import numpy as np", "from mxspec import sparsity"]
    options = f'kind="{fmt.kind}", sparsity="{fmt.sparsity.value}"'
    if case.function is SparseFunction.DECOMPRESS:
        lines.append(f"kept, metadata = np.array([{case.kept[0].tolist()}], np.uint8), np.array([[{int(case.metadata[0])}]], np.uint8)")
        call = f'sparsity.decompress(kept, metadata, sparsity="{fmt.sparsity.value}")'
    else:
        lines.append(f"codes = np.array([{case.codes[0].tolist()}], np.uint8)")
        rule = f', rule="{one.rule}"' if one.rule else ""
        call = f"sparsity.{case.function.value}(codes, {options}{rule})"
    return "\n".join([*lines, f"print({call})"])
