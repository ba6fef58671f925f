"""Affine functions in calls of other shapes, in other memory, and after other calls: a group's answer depends on the group alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mxspec_conformance.judge.affine.groups import Groups
from mxspec_conformance.judge.invariance.history import Drawn, Workload, judge_history
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pools import Places
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.targets.sessions import TargetSession

#: (rows, groups in a row) of the calls that are made for memory and history: small, of one tile, and of several ragged ones.
SHAPES = ((3, 3), (23, 3), (72, 9))


def judge_calls(session: TargetSession, function: str, name: str, groups: Groups, scorecard: Scorecard) -> None:
    """Enter calls of a function with groups that it has answered; name: of the format, as the target declares it."""
    group, groups = groups.group, _add_zeros(session, function, name, groups)
    items = Items(
        width=group, fill=partial(_fill, groups, name), ordinary=groups.ordinary, special=groups.special,
    )  # fmt: skip
    taken = [(rows, wide) for rows, wide in SHAPES if session.capabilities.limits.allow((rows, wide * group))]
    work = Workload(
        session=session, function=function, scorecard=scorecard, draw=items.draw,
        sizes={f"{rows} x {wide * group}": (rows, wide) for rows, wide in taken},
        turn=session.capabilities.affine.index(name),
    )  # fmt: skip
    judge_items(work, items)
    judge_history(work)


def _add_zeros(session: TargetSession, function: str, name: str, groups: Groups) -> Groups:
    """The groups and one of zeros, or of codes that are zero, as it was answered next to another one; as they are where it is refused."""
    places = groups.ordinary[[0, 0]]
    first, *others = (a[places] for a in groups.arguments)
    given = np.where([[True], [False]], np.zeros_like(first), first), *others
    answer = run_once(partial(session.call, function, *(a.reshape(1, -1) for a in given), name))
    return groups if isinstance(answer, NoAnswer) else groups.join_first(given, answer)


def _fill(groups: Groups, name: str, places: Places) -> Drawn:
    """The call of chosen groups [rows, groups of a row]; of those with NaN and Inf nothing is asked."""
    rows, flat = len(places), places.reshape(-1)

    def find_mistake(answer: Any) -> str:
        wrong = groups.find_wrong(flat, answer, rows) & groups.finite[flat]
        if not wrong.any():
            return ""
        count = f"{int(wrong.sum())} of {wrong.size} groups have another answer than in a small, contiguous call"
        return f"{count}; the first is group {int(np.argmax(wrong))}"

    return Drawn((*groups.give(flat, rows), name), find_mistake=find_mistake)
