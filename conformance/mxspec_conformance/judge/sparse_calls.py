"""Pruning, compressing and decompressing in calls of other sizes, in other memory, from several threads, and of ragged rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mxspec.layouts import get_layout
from mxspec.sparsity import find_largest
from mxspec_conformance.judge.explanation import Cause
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.history import Drawn, Workload, judge_history
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pools import Places, draw_places
from mxspec_conformance.judge.invariance.reach import REFUSALS, SEES_SHAPES
from mxspec_conformance.judge.sparse_groups import Asked, Bools
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import makes_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import SparseFunction

#: (rows, groups in a row) of the calls that are made for memory and history, of each group the first that a target takes: small
#: ones, tiles, and several tiles, ragged both ways or whole, with rows of more than 512 codes.
SHAPES = (((32, 8), (32, 16), (32, 32)), ((32, 32),), ((64, 64),), ((72, 130), (96, 160)))


def judge_sparse_calls(session: TargetSession, pool: Asked, scorecard: Scorecard) -> None:
    """Enter calls made of a case's groups, which are to come back as they did when the case was asked."""
    pool = pool.join_zeros()
    group, takes = pool.fmt.group, partial(takes_shape, session, pool)
    items = Items(
        width=group, fill=partial(_fill, pool), ordinary=np.arange(pool.count), special={"zeros": pool.find_zeros()}, takes=takes,
    )  # fmt: skip
    shapes = dict.fromkeys(shape for every in SHAPES for shape in list(filter(takes, every))[:1])
    work = Workload(
        session=session, function=pool.case.function.value, scorecard=scorecard, draw=items.draw,
        sizes={f"{rows} x {wide * group}": (rows, wide) for rows, wide in shapes},
        show=partial(_show, pool), turn=session.capabilities.sparse_formats.index(pool.fmt.name),
    )  # fmt: skip
    judge_items(work, items)
    judge_history(work)
    if session.transport in SEES_SHAPES:
        _ask_ragged(session, pool, scorecard)


def _fill(pool: Asked, places: Places) -> Drawn:
    """The call of chosen groups [rows, groups of a row]."""
    part = pool.choose(places.reshape(-1))

    def find_mistake(answer: Any) -> str:
        wrong = _find_wrong(part, answer)
        return _describe(wrong) if wrong.any() else ""

    return Drawn(part.arguments(len(places)), find_mistake=find_mistake)


def takes_shape(session: TargetSession, pool: Asked, shape: tuple[int, int]) -> bool:
    """Whether the target takes matrices of so many rows, and groups in a row, and its layouts hold them."""
    rows, wide = shape
    if not session.capabilities.limits.allow((rows, wide * pool.fmt.group)):
        return False
    shapes = (rows, wide * pool.fmt.group // 2), (rows, wide)
    try:
        for name, shape in zip(session.capabilities.sparse_layout, shapes, strict=False):
            if name != "unpacked":
                get_layout(name).size(shape)
    except ValueError:
        return False
    return True


def _find_wrong(part: Asked, answer: Any) -> Bools:
    """Which groups came back as something else than when the case was asked."""
    assert part.answers is not None
    assert part.strayed is not None
    returned = part.read(answer)
    return ~part.equal(part.mean(returned), part.answers) | (part.find_strays(returned) & ~part.strayed)


def _describe(wrong: Bools) -> str:
    return f"{int(wrong.sum())} of {wrong.size} groups differ; the first is group {int(np.argmax(wrong))}"


def _show(part: Asked, label: str, text: str) -> Failure:
    return replace(call_failure(label, text), given={"format": part.fmt.name, "call": label})


def _ask_ragged(session: TargetSession, pool: Asked, scorecard: Scorecard) -> None:
    """Rows that end within a group: refused, or answered as if zeros followed."""
    if pool.case.function is not SparseFunction.PRUNE:
        return
    fmt, rows = pool.fmt, 4
    for ragged in (1, fmt.group // 2):
        whole = pool.choose(draw_places(rows * 9, pool.count, ragged))
        dense = whole.case.codes.reshape(rows, -1).copy()
        k = dense.shape[1] - fmt.group + ragged
        label = f"{rows} x {k}, which ends within a group"
        if not session.capabilities.limits.allow((rows, k)) or not makes_call(quick=False):
            continue
        answer = run_once(partial(session.call, "prune", dense[:, :k], fmt.name))
        if isinstance(answer, NoAnswer):
            if answer.kind in REFUSALS:
                scorecard.count("refusal", label, ok=True)
            continue  # a malformed answer is noticed by whoever gets it
        dense[:, k:] = 0
        returned = np.pad(answer, ((0, 0), (0, dense.shape[1] - k))).reshape(-1, fmt.group)
        groups = dense.reshape(-1, fmt.group)
        padded = replace(
            pool, case=replace(pool.case, codes=groups, patterns=find_largest(groups, kind=fmt.kind, sparsity=fmt.sparsity)[:, 0])
        )
        # Of the groups that were cut any rule will do: how the target chooses is judged elsewhere.
        right = padded.find_right((returned,))
        for explanation, other in padded.list_alternatives():
            right |= padded.equal(returned, other) & (explanation.cause is Cause.PROFILE)
        show = partial(_show, padded, label, _describe(~right))
        scorecard.count("refusal", label, ok=bool(right.all()), show=show)
