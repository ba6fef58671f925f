"""One batch: draw, call, compare, count. Plain data in and out; the same for the same seed and number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from mxspec_conformance.counterexample.calls import Call, Relations, ask_blocks, plan_calls, probe_memory, relate
from mxspec_conformance.counterexample.kinds import CallKind
from mxspec_conformance.counterexample.mismatch import Mismatch, Part, Wrong, find_wrong, find_wrong_special
from mxspec_conformance.counterexample.sample_space import Codes, Float32s, SampleSpace
from mxspec_conformance.fuzzing.blocks.coverage import BlockCoverage
from mxspec_conformance.fuzzing.blocks.draw import draw_blocks, draw_special
from mxspec_conformance.fuzzing.blocks.job import PER_BATCH, PER_CALL, BlockJob
from mxspec_conformance.fuzzing.blocks.values import ask_values
from mxspec_conformance.fuzzing.subject import Result, note_no_answer
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.targets.sessions import TargetSession

#: Blocks with special values, in every such batch, so many to a call.
SPECIALS, SPECIAL_EVERY, SPECIAL_CALL = 192, 4, 48
#: How a target says that it was not made for a call.
_REFUSALS = (FailureKind.ERROR, FailureKind.UNSUPPORTED)
#: Calls that it may refuse. In other memory it may also see another shape than was meant; in rows and columns it may not.
_MAY_REFUSE = {
    CallKind.WIDE: _REFUSALS, CallKind.AXIS: _REFUSALS,
    CallKind.ARRANGED: (*_REFUSALS, FailureKind.BAD_RETURN), CallKind.REUSED: (*_REFUSALS, FailureKind.BAD_RETURN),
}  # fmt: skip


def draw_batch(job: BlockJob, number: int) -> tuple[Float32s, list[Call], Float32s]:
    """The blocks of a batch, its calls, and its special blocks (none in most batches)."""
    space = job.space
    x = draw_blocks(space, job.blocks, job.generator(number))
    calls = list(plan_calls(space, len(x), job.generator(number, 1)))
    special = x[:0]
    if number % SPECIAL_EVERY == 0:
        special = draw_special(space, SPECIALS, job.generator(number, 2))
    return x, calls, special


def find_block(job: BlockJob, batch: int, number: int, row: int) -> tuple[Call, Float32s, int]:
    """The call with this number in a batch, its blocks, and the place of the block of a row."""
    x, calls, special = draw_batch(job, batch)
    if number >= len(calls):
        start = row // SPECIAL_CALL * SPECIAL_CALL
        part = special[start : start + SPECIAL_CALL]
        return Call(CallKind.SPECIAL, np.arange(len(part))), part, row - start
    call = calls[number]
    return call, call.blocks(x), row


def ask_batch(session: TargetSession, job: BlockJob, number: int) -> Result:
    """Draw, call, compare."""
    if job.decodes:
        return ask_values(session, job, number)
    space = job.space
    x, calls, special = draw_batch(job, number)
    coverage, relations = BlockCoverage.empty(space), Relations()
    want = _expect(space, x)
    coverage.enter(space, x, *want)
    mismatches: list[Mismatch] = []
    no_answers: Result = {}
    base: tuple[Any, Any] | None = None
    blocks = failing = 0

    def judge(call: Call, index: int, given: Float32s, expected: tuple[Any, Any], got: tuple[Any, Any], start: int = 0) -> None:
        nonlocal blocks, failing, mismatches
        blocks += len(given)
        wrong = (find_wrong_special if call.kind is CallKind.SPECIAL else find_wrong)(space, given, expected, got)
        if wrong is not None:
            failing += len(wrong.rows)
            mismatches += _see(wrong, number, index, call, given, expected, got, start)

    for index, call in enumerate(calls):
        if call.axis == 0 and not session.capabilities.has("quantize", "axis"):
            continue
        given = call.blocks(x)
        expected = _expect(space, given) if call.negate or call.shift else (want[0][call.rows], want[1][call.rows])
        try:
            got = call.ask(session, space, given)
        except CallError as failure:
            if failure.kind in _MAY_REFUSE.get(call.kind, ()):
                continue
            note_no_answer(no_answers, failure, call.words, number, index, job=job.name)
            if failure.final or failure.kind is FailureKind.TIMEOUT:
                break
            continue
        if call.kind is CallKind.WHOLE:
            base = got
        if base is not None:
            relate(relations, space, call, x, base, got)
        judge(call, index, given, expected, got)
    for start in range(0, len(special), SPECIAL_CALL):
        part = special[start : start + SPECIAL_CALL]
        coverage.enter_special(space, part)
        try:
            got = ask_blocks(session, space, part)
        except CallError as failure:
            words = "blocks with NaN, infinities or zeros"
            note_no_answer(no_answers, failure, words, number, len(calls), job=job.name, row=start)
            continue
        judge(Call(CallKind.SPECIAL, np.arange(len(part))), len(calls), part, _expect(space, part), got, start)
    memory = probe_memory(session, space, x)
    keep = job.generator(number, 3).permutation(len(mismatches))[:PER_BATCH]
    return {
        "blocks": blocks, "elements": blocks * space.fmt.k, "calls": len(calls), "failing": failing,
        "mismatches": [asdict(mismatches[i]) for i in sorted(keep.tolist())], "coverage": coverage.pack(),
        "relations": asdict(relations), "no_answers": no_answers, "memory": memory,
    }  # fmt: skip


def _expect(space: SampleSpace, x: Float32s) -> tuple[Codes, Codes]:
    """The profile's scales [n] and codes [n, k]."""
    scales, codes = space.expect(x)
    return scales.reshape(-1), codes


def _see(
    wrong: Wrong, number: int, index: int, call: Call, x: Float32s, want: tuple[Any, Any], got: tuple[Any, Any], start: int
) -> Iterator[Mismatch]:
    """A few of a call's wrong lanes, as many parts and rows as possible among them."""
    chosen = np.linspace(0, len(wrong.rows) - 1, min(PER_CALL, len(wrong.rows))).astype(np.intp)
    for i in np.unique(chosen).tolist():
        row = int(wrong.rows[i])
        if wrong.scale[i]:
            lane = int(np.argmax(np.abs(np.nan_to_num(x[row]))))  # where the maximum stands
            part, expected, returned = Part.SCALE, int(want[0][row]), int(got[0][row])
        else:
            lanes = wrong.codes[i] if wrong.codes[i].any() else wrong.signs[i]
            part = Part.CODE if wrong.codes[i].any() else Part.ZERO_SIGN
            lane = int(np.argmax(lanes)) if lanes.any() else -1
            expected = int(wrong.expected[i, lane]) if lane >= 0 else int(want[0][row])
            returned = int(got[1][row, lane]) if lane >= 0 else int(got[0][row])
        yield Mismatch(
            batch=number, call=index, row=start + row, kind=call.kind, arrangement=call.arrangement,
            part=part, lane=lane, scale=int(got[0][row]), expected=expected, returned=returned, blocks=len(x),
        )  # fmt: skip
