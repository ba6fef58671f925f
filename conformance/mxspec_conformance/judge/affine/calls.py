"""Affine functions in other memory, in calls of other shapes, and after other calls: a group's answer depends on the group alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mxspec_conformance.judge.affine.groups import Groups, Places
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.edges import EDGES
from mxspec_conformance.judge.invariance.history import Drawn, Workload, judge_history
from mxspec_conformance.judge.invariance.pace import LARGEST_OF
from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import keeps_call
from mxspec_conformance.targets.sessions import TargetSession

#: (rows, groups in a row) of the call that is made at every level and over every transport, of those in other memory, and of a larger
#: one of these where memory is within reach: several tiles of rows, eight groups and more.
FIRST, LAID, LARGE = (257, 3), (23, 3), (72, 9)
#: Groups in a row, or rows, beside a size that is varied.
BESIDE = 3
#: (rows, groups in a row) beside the edges: one group, long rows, many rows, ragged tiles both ways, a million values and more.
SHAPES = ((1, 1), (1, 8), (1, 300), (64, 64), (130, 9), (257, 33), (1025, 3), (2049, 2), (4096, 1))
#: k, in values, that a row of groups makes whole, with the rows of each.
LENGTHS = ((384, 8), (768, 5), (4096, 4), (8192, 2), (12288, 1), (16384, 3))
#: Groups in a row where there are as many rows as values in one.
SQUARE_GROUPS = (1, 2, 4)
#: Values of calls in which kernels count in other units, with groups in a row.
MANY = ((1 << 17, 2), (1 << 20, 4), (1 << 22, 1))
#: Values of the largest call, and beyond which a slow target is asked no more, with the seconds that make it one.
LARGEST, SMALL, PATIENCE = 1 << 23, 1 << 14, 1.5


@dataclass
class Caller:
    """One function of a target, called with groups that it has answered."""

    session: TargetSession
    function: str
    #: As the target declares the format.
    name: str
    groups: Groups
    scorecard: Scorecard
    slow: bool = False
    #: Values of the largest call that was answered in time.
    taken: int = 0

    def wants(self, label: str, values: int, *, quick: bool = False) -> bool:
        """Whether a call of so many values is made."""
        most = min(LARGEST_OF.get(self.session.transport, LARGEST), SMALL if self.slow else LARGEST)
        return (quick or values <= most) and keeps_call("affine", self.scorecard.format, label, quick=quick)

    @property
    def laid(self) -> Iterator[tuple[int, int]]:
        """(rows, groups in a row) of the calls that are looked at for memory and neighbours."""
        yield LAID
        rows, wide = LARGE
        k = wide * self.groups.group
        near = self.session.transport in LOCAL and self.session.capabilities.limits.allow((rows, k))
        if near and 4 * rows * k <= self.taken and keeps_call("affine", self.scorecard.format, f"{rows} x {k}: memory", quick=False):
            yield LARGE

    @property
    def workload(self) -> Workload:
        """Calls of the function, to be looked at for what they do to each other."""
        sizes = {f"{rows} x {wide * self.groups.group}": (rows, wide) for rows, wide in ((BESIDE, BESIDE), *self.laid)}
        return Workload(
            session=self.session, function=self.function, scorecard=self.scorecard, draw=self.draw, sizes=sizes,
            chosen_by=("affine", self.scorecard.format),
        )  # fmt: skip

    def draw(self, size: tuple[int, int], number: int) -> Drawn:
        """A call of (rows, groups in a row)."""
        places = self.groups.fill(*size, 20 + number)

        def find_mistake(answer: Any) -> str:
            wrong = self.groups.find_wrong(places, answer, size[0])
            return f"{int(wrong.sum())} of {wrong.size} groups have another answer than in a small, contiguous call" if wrong.any() else ""

        return Drawn((*self.groups.give(places, size[0]), self.name), find_mistake=find_mistake)

    def tell(self, rows: int, wide: int, text: str) -> str:
        """The label of such a call."""
        return text if (rows, wide) == LAID else f"{rows} x {wide * self.groups.group}: {text}"

    def ask(self, topic: str, label: str, *call: Any) -> Any:
        """The answer to a call; None where there is none, which is counted."""
        answer = run_once(partial(self.session.call, *call))
        if isinstance(answer, NoAnswer):
            self.scorecard.count_no_answer(topic, label, answer)
            return None
        return answer

    def enter(self, topic: str, label: str, places: Places, rows: int, *before: Any, only: Any = slice(None), text: str = "") -> None:
        """One call with chosen groups, and its answers beside those that they had; only: the groups that are looked at."""
        answer = self.ask(topic, label, *before, self.function, *self.groups.give(places, rows), self.name)
        if answer is not None:
            wrong = self.groups.find_wrong(places, answer, rows)[only]
            shown = f"; the first is group {int(np.flatnonzero(wrong)[0])}" if wrong.any() else ""
            text = text or f"{int(wrong.sum())} of {wrong.size} groups have another answer than in a small, contiguous call{shown}"
            self.count(topic, label, ok=not wrong.any(), text=text)

    def count(self, topic: str, label: str, *, ok: bool, text: str) -> None:
        """Count what a call showed."""
        self.scorecard.count(topic, label, ok=ok, show=partial(call_failure, label, text))


def list_shapes(group: int) -> Iterator[tuple[int, int]]:
    """(rows, groups in a row) of all calls, small ones first."""
    shapes = [*SHAPES, *((edge, BESIDE) for edge in EDGES), *((BESIDE, edge) for edge in EDGES)]
    shapes += [(rows, k // group) for k, rows in LENGTHS if k % group == 0]
    shapes += [(rows, k // group + 1) for k, rows in LENGTHS[-2:] if k % group == 0]
    shapes += [(values // (wide * group) + 1, wide) for values, wide in MANY]
    shapes += [(wide * group, wide) for wide in SQUARE_GROUPS]
    yield from sorted(dict.fromkeys(shapes), key=lambda shape: (shape[0] * shape[1], shape))


def judge_calls(
    session: TargetSession, function: str, name: str, groups: Groups, scorecard: Scorecard
) -> None:
    """Enter calls of a function with groups that it has answered."""
    caller = Caller(session, function, name, groups, scorecard)
    _enter_sizes(caller)
    if session.transport == "results-file":
        return
    _enter_beside_specials(caller)
    judge_history(caller.workload)


def _enter_sizes(caller: Caller) -> None:
    groups, limits = caller.groups, caller.session.capabilities.limits
    caller.enter("call-size", f"{FIRST[0]} rows", groups.fill(FIRST[0], FIRST[1]), FIRST[0])
    for rows, wide in list_shapes(groups.group):
        label = f"{rows} x {wide * groups.group}"
        if (rows, wide) == FIRST or not limits.allow((rows, wide * groups.group)):
            continue
        if caller.session.transport == "results-file" or not caller.wants(label, rows * wide * groups.group):
            continue
        started = time.monotonic()
        caller.enter("call-size", label, groups.fill(rows, wide), rows)
        if time.monotonic() - started > PATIENCE:
            caller.slow = True
        else:
            caller.taken = max(caller.taken, rows * wide * groups.group)


def _enter_beside_specials(caller: Caller) -> None:
    """Groups among others that hold NaN and Inf."""
    groups = caller.groups
    special = np.flatnonzero(~groups.finite)
    for high, long in caller.laid if special.size else ():
        places = groups.fill(high, long, 3)
        chosen = np.arange(4, len(places), 17)
        places[chosen] = np.resize(special, chosen.size)
        label = caller.tell(high, long, "beside groups with NaN and Inf")
        caller.enter("call-size", label, places, high, only=groups.finite[places])
