"""Pruning, compressing and decompressing in calls of other sizes, in other memory, from several threads, and of ragged rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mxspec.layouts import get_layout
from mxspec.sparsity import find_largest
from mxspec_conformance.judge.explanation import Cause
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.edges import EDGES
from mxspec_conformance.judge.invariance.history import Drawn, Workload, judge_history
from mxspec_conformance.judge.invariance.pace import LARGEST_OF
from mxspec_conformance.judge.invariance.reach import LOCAL, REFUSALS, SEES_SHAPES
from mxspec_conformance.judge.sparse_groups import Asked, Bools
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import keeps_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import SparseFunction

#: (rows, groups in a row) in order of the calls.
SHAPES = (
    (1, 1), (1, 8), (3, 8), (2, 16), (16, 16), (5, 24), (32, 32), (16, 64), (33, 32), (64, 64), (7, 160), (1, 1024), (257, 16),
    *((edge, 8) for edge in EDGES), *((3, edge) for edge in EDGES), (3, 12), (8, 48), (8, 96), (5, 192), (3, 1025), (2, 2048), (32, 8), (64, 16), (256, 64),
)  # fmt: skip
#: Those that come last.
LARGEST = ((1, 4097), (2048, 8), (4097, 8), (128, 128), (256, 256), (1024, 257), (4096, 257))
#: Those that are asked in other memory, and for what is done to memory.
LAID = ((32, 32), (64, 64))
#: Larger ones, of which the first that a target takes is asked in the same ways where memory is within reach, and in threads: ragged
#: tiles both ways, or whole ones; rows of more than 512 codes.
LARGE = ((72, 130), (96, 160))
#: Groups in a row of the smallest call: the first number that a target takes.
FEW = (8, 16, 32)
#: Codes in calls that every target is asked for, and the seconds for them beyond which no larger ones are.
_SMALL, _PATIENCE = 1 << 12, 1.0


def judge_sparse_calls(session: TargetSession, pool: Asked, scorecard: Scorecard) -> None:
    """Enter calls made of a case's groups, which are to come back as they did when the case was asked."""
    largest = LARGEST_OF.get(session.transport, 1 << 30)
    large = _find_large(session, pool) if session.transport in LOCAL else None
    slow = False
    for shape, part in _list_calls(session, pool, large):
        codes = shape[0] * shape[1] * pool.fmt.group
        if codes > largest or (slow and codes > _SMALL):
            continue
        label = f"{shape[0]} x {shape[1] * pool.fmt.group}"
        if keeps_call("sparse", pool.fmt.name, label, quick=True):
            started = time.monotonic()
            answer = run_once(partial(session.call, pool.case.function.value, *part.arguments(shape[0])))
            slow |= time.monotonic() - started > _PATIENCE
            if isinstance(answer, NoAnswer):
                scorecard.count_no_answer("call-size", label, answer)
            else:
                _enter(part, answer, scorecard, "call-size", label)
    judge_history(_make_workload(session, pool, [*LAID, *([] if large is None else [large])], scorecard))
    if session.transport in SEES_SHAPES:
        _ask_ragged(session, pool, scorecard)


def _make_workload(session: TargetSession, pool: Asked, shapes: Sequence[tuple[int, int]], scorecard: Scorecard) -> Workload:
    """Calls of the pool's groups, to be looked at for what they do to each other."""
    small = [(LAID[0][0], few) for few in FEW if takes_shape(session, pool, LAID[0][0], few)]
    taken = [*small[:1], *(shape for shape in shapes if takes_shape(session, pool, *shape))]

    def draw(shape: tuple[int, int], number: int) -> Drawn:
        part = fill_call(pool, shape[0] * shape[1], 100 + number)

        def find_mistake(answer: Any) -> str:
            wrong = _find_wrong(part, answer)
            return _describe(wrong) if wrong.any() else ""

        return Drawn(part.arguments(shape[0]), find_mistake=find_mistake)

    return Workload(
        session=session, function=pool.case.function.value, scorecard=scorecard, draw=draw,
        sizes={f"{rows} x {wide * pool.fmt.group}": (rows, wide) for rows, wide in taken}, chosen_by=("sparse", pool.fmt.name),
    )  # fmt: skip


def _find_large(session: TargetSession, pool: Asked) -> tuple[int, int] | None:
    """The first of the larger shapes that the target takes."""
    return next((shape for shape in LARGE if takes_shape(session, pool, *shape)), None)


def _list_calls(session: TargetSession, pool: Asked, large: tuple[int, int] | None) -> Iterator[tuple[tuple[int, int], Asked]]:
    """(shape, the groups that fill it) for the shapes that the target takes; no two groups that lie near each other are alike."""
    for rows, wide in (*SHAPES, *([] if large is None else [large]), *LARGEST):
        if takes_shape(session, pool, rows, wide):
            yield (rows, wide), fill_call(pool, rows * wide, rows)


def fill_call(pool: Asked, count: int, turn: int) -> Asked:
    """So many groups of a pool, without a pattern."""
    z = (np.arange(count, dtype=np.uint64) + np.uint64(turn << 24)) * np.uint64(0x9E3779B97F4A7C15)
    return pool.choose(((z >> np.uint64(33)) % np.uint64(pool.count)).astype(np.intp))


def takes_shape(session: TargetSession, pool: Asked, rows: int, wide: int) -> bool:
    """Whether the target takes matrices of this shape, and its layouts hold them."""
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


def _enter(part: Asked, answer: Any, scorecard: Scorecard, topic: str, label: str) -> None:
    """Count one call, by all its groups."""
    wrong = _find_wrong(part, answer)
    scorecard.count(topic, label, ok=not wrong.any(), show=lambda: _show(part, label, _describe(wrong)))


def _show(part: Asked, label: str, text: str) -> Failure:
    return replace(call_failure(label, text), given={"format": part.fmt.name, "call": label})


def _ask_ragged(session: TargetSession, pool: Asked, scorecard: Scorecard) -> None:
    """Rows that end within a group: refused, or answered as if zeros followed."""
    if pool.case.function is not SparseFunction.PRUNE:
        return
    fmt, rows = pool.fmt, 4
    for ragged in (1, fmt.group // 2):
        whole = fill_call(pool, rows * 9, ragged)
        dense = whole.case.codes.reshape(rows, -1).copy()
        k = dense.shape[1] - fmt.group + ragged
        label = f"{rows} x {k}, which ends within a group"
        if not session.capabilities.limits.allow((rows, k)) or not keeps_call("sparse", fmt.name, label, quick=False):
            continue
        answer = run_once(partial(session.call, "prune", dense[:, :k], fmt.name))
        if isinstance(answer, NoAnswer):
            if answer.kind in REFUSALS:
                scorecard.count("refusal", label, ok=True)
            continue  # a malformed answer is noticed by whoever gets it
        dense[:, k:] = 0
        returned = np.pad(answer, ((0, 0), (0, dense.shape[1] - k))).reshape(-1, fmt.group)
        groups = dense.reshape(-1, fmt.group)
        padded = replace(pool, case=replace(pool.case, codes=groups, patterns=find_largest(groups, kind=fmt.kind, sparsity=fmt.sparsity)[:, 0]))
        # Of the groups that were cut any rule will do: how the target chooses is judged elsewhere.
        right = padded.find_right((returned,))
        for explanation, other in padded.list_alternatives():
            right |= padded.equal(returned, other) & (explanation.cause is Cause.PROFILE)
        show = partial(_show, padded, label, _describe(~right))
        scorecard.count("refusal", label, ok=bool(right.all()), show=show)
