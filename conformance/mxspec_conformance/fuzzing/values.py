"""Fuzzing `dequantize`: blocks of codes under scale bytes, in calls of every size."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_table
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind
from mxspec_conformance.counterexample.calls import CALL_SIZES, scale_argument
from mxspec_conformance.counterexample.kinds import CallKind
from mxspec_conformance.counterexample.mismatch import Part
from mxspec_conformance.counterexample.sample_space import Codes, SampleSpace, get_sample_space
from mxspec_conformance.fuzzing.coverage import Reach
from mxspec_conformance.fuzzing.job import PER_BATCH, Job, note_no_answer
from mxspec_conformance.observations.tables import same_values
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.targets.sessions import TargetSession

Floats = npt.NDArray[np.float32]


def space_of(job: Job) -> SampleSpace:
    """The tables of a job; the input's dtype does not matter."""
    return get_sample_space(job.fmt, job.profile, job.tensor, "float32")


def draw_codes(fmt: BlockFormat, n: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Codes [n, k] and scales [n, 1]: every scale byte as often as any other; blocks of any codes, of few, of one."""
    codes = rng.integers(0, fmt.element.code_count, (n, fmt.k))
    few = rng.random(n) < 0.3
    codes[few] = np.where(
        rng.random((int(few.sum()), fmt.k)) < 0.1, codes[few], rng.integers(0, 2) * fmt.element.sign_bit
    )
    scales = (np.arange(n) + rng.integers(0, 1 << 16)) % fmt.scale.code_count
    return codes.astype(np.uint8), rng.permutation(scales).astype(np.uint8)[:, None]


def expect_values(space: SampleSpace, codes: Codes, scales: Codes) -> Floats:
    """The profile's values."""
    with np.errstate(all="ignore"):
        values: Floats = mxspec.dequantize(
            codes, scales, space.fmt, profile=space.profile, tensor_scale=space.native
        )
    return values


def find_wrong_values(space: SampleSpace, codes: Codes, want: Floats, got: Floats) -> tuple[Any, Any]:
    """Lanes [n, k] with a wrong value, and with the wrong sign of zero."""
    same, unsigned = same_values(got, want), same_values(got, want, signs=False)
    judged = np.ones(want.shape, bool)
    if space.profile.kind is Kind.NORMATIVE:  # products beyond float32 are open
        judged = ~np.isinf(want) | np.isinf(decode_table(space.fmt.element)[codes])
    return ~unsigned & judged, ~same & unsigned & judged


def plan_value_calls(n: int, rng: np.random.Generator) -> list[npt.NDArray[np.intp]]:
    """Which blocks each call holds."""
    calls = [np.arange(n)]
    order = rng.permutation(n)
    start = 0
    for size in rng.permutation(np.array(CALL_SIZES)).tolist():
        calls.append(order[np.arange(start, start + size) % n])
        start += size
    return [*calls, np.arange(n // 4)]


def run_values(session: TargetSession, job: Job, number: int) -> dict[str, Any]:
    """One batch of codes."""
    started = time.perf_counter()
    space = space_of(job)
    codes, scales = draw_codes(space.fmt, job.blocks, job.generator(number, 0))
    want = expect_values(space, codes, scales)
    extra = scale_argument(session, space)
    no_answers: dict[str, Any] = {}
    mismatches: list[dict[str, Any]] = []
    blocks = failing = 0
    calls = plan_value_calls(len(codes), job.generator(number, 1))
    for index, rows in enumerate(calls):
        try:
            got = session.call("dequantize", codes[rows], scales[rows], space.fmt.name, **extra)
        except CallError as failure:
            if failure.kind is FailureKind.UNSUPPORTED:
                break
            note_no_answer(no_answers, failure, f"dequantize of {len(rows)} blocks", number, index, job=job.name)
            if failure.final or failure.kind is FailureKind.TIMEOUT:
                break
            continue
        blocks += len(rows)
        for part, wrong in zip(
            (Part.VALUE, Part.ZERO_SIGN), find_wrong_values(space, codes[rows], want[rows], got), strict=True
        ):
            bad = np.argwhere(wrong)
            failing += len(np.unique(bad[:, 0])) if len(bad) else 0
            for row, lane in bad[np.unique(np.linspace(0, max(len(bad) - 1, 0), 12).astype(int))] if len(bad) else ():
                mismatches.append(
                    {
                        "batch": number, "call": index, "row": int(row), "kind": CallKind.WHOLE if index == 0 else CallKind.SIZE,
                        "part": part, "lane": int(lane), "scale": int(scales[rows][row, 0]),
                        "expected": int(codes[rows][row, lane]), "returned": int(got[row, lane].view(np.uint32)),
                        "blocks": len(rows),
                    }
                )  # fmt: skip
    hit = np.zeros(space.fmt.scale.code_count << space.fmt.element.bits, np.bool_)
    hit[(scales.astype(np.intp) << space.fmt.element.bits | codes).reshape(-1)] = True
    return {
        "blocks": blocks, "elements": blocks * space.fmt.k, "calls": len(calls), "failing": failing,
        "mismatches": mismatches[:PER_BATCH], "coverage": {Reach.CODES_UNDER_SCALES.value: np.packbits(hit).tobytes().hex()},
        "relations": {"compared": {}, "broken": {}}, "no_answers": no_answers, "memory": {},
        "seconds": round(time.perf_counter() - started, 3),
    }  # fmt: skip


def look_alone(session: TargetSession, space: SampleSpace, row: Codes, scale: Codes, lane: int) -> tuple[int, int] | None:
    """Bits returned and expected of one lane of one block, if they differ."""
    try:
        got = session.call("dequantize", row[None], scale[None], space.fmt.name, **scale_argument(session, space))
    except CallError:
        return None
    want = expect_values(space, row[None], scale[None])
    wrong, signs = find_wrong_values(space, row[None], want, got)
    if not (wrong | signs)[0, lane]:
        return None
    return int(got[0, lane].view(np.uint32)), int(want[0, lane].view(np.uint32))


def still_wrong(session: TargetSession, space: SampleSpace, codes: Codes, scales: Codes, place: int) -> bool:
    """Whether one block of a call is wrong again."""
    try:
        got = session.call("dequantize", codes, scales, space.fmt.name, **scale_argument(session, space))
    except CallError:
        return False
    wrong, signs = find_wrong_values(space, codes, expect_values(space, codes, scales), got)
    return bool((wrong | signs)[place].any())
