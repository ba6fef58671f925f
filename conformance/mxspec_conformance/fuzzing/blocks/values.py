"""Fuzzing `dequantize`: blocks of codes under scale bytes, in calls of every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import code_dtype
from mxspec.formats import BlockFormat
from mxspec_conformance.campaign import values
from mxspec_conformance.counterexample.calls import CALL_SIZES, scale_argument
from mxspec_conformance.counterexample.kinds import CallKind
from mxspec_conformance.counterexample.mismatch import Part
from mxspec_conformance.counterexample.sample_space import Codes, SampleSpace
from mxspec_conformance.fuzzing.blocks.coverage import Reach, count_scale_places, place_scales
from mxspec_conformance.fuzzing.blocks.job import PER_BATCH, PER_CALL, BlockJob
from mxspec_conformance.fuzzing.subject import Result, note_no_answer
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.build_dequantize import list_scales

Floats = npt.NDArray[np.float32]


def draw_codes(fmt: BlockFormat, n: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Codes [n, k] and scales [n, 1]: every scale (of float32 those of `list_scales`) as often as any other; blocks of any codes, of few, of one."""
    codes = rng.integers(0, fmt.element.code_count, (n, fmt.k))
    few = rng.random(n) < 0.3
    codes[few] = np.where(rng.random((int(few.sum()), fmt.k)) < 0.1, codes[few], rng.integers(0, 2) * fmt.element.sign_bit)
    every = np.array(list_scales(fmt.scale))
    scales = every[(np.arange(n) + rng.integers(0, 1 << 16)) % len(every)]
    return codes.astype(np.uint8), rng.permutation(scales).astype(code_dtype(fmt.scale))[:, None]


def draw_value_calls(job: BlockJob, number: int) -> tuple[Codes, Codes, list[npt.NDArray[np.intp]]]:
    """The codes and scales of a batch, and which blocks each of its calls holds."""
    codes, scales = draw_codes(job.block_format, job.blocks, job.generator(number))
    n, rng = len(codes), job.generator(number, 1)
    calls = [np.arange(n)]
    order = rng.permutation(n)
    start = 0
    for size in rng.permutation(np.array(CALL_SIZES)).tolist():
        calls.append(order[np.arange(start, start + size) % n])
        start += size
    return codes, scales, [*calls, np.arange(n // 4)]


def expect_values(space: SampleSpace, codes: Codes, scales: Codes) -> Floats:
    """The profile's values."""
    return values.expect_values(space.fmt, space.profile, space.native, codes, scales)


def look_at_values(session: TargetSession, space: SampleSpace, codes: Codes, scales: Codes) -> tuple[Floats, Floats, Any]:
    """What is returned, what the profile gives, and lanes [n, k] where they differ. Raises CallError."""
    got = session.call("dequantize", codes, scales, space.fmt.name, **scale_argument(session, space))
    want = expect_values(space, codes, scales)
    wrong, signs = values.find_wrong_values(space.fmt, space.profile, codes, want, got)
    return got, want, wrong | signs


def look_alone(session: TargetSession, space: SampleSpace, row: Codes, scale: Codes, lane: int) -> tuple[int, int] | None:
    """Bits returned and expected of one lane of one block, if they differ."""
    try:
        got, want, wrong = look_at_values(session, space, row[None], scale[None])
    except CallError:
        return None
    return (int(got[0, lane].view(np.uint32)), int(want[0, lane].view(np.uint32))) if wrong[0, lane] else None


def ask_values(session: TargetSession, job: BlockJob, number: int) -> Result:
    """One batch of codes."""
    space = job.space
    codes, scales, calls = draw_value_calls(job, number)
    want, extra = expect_values(space, codes, scales), scale_argument(session, space)
    no_answers: Result = {}
    mismatches: list[Result] = []
    blocks = failing = 0
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
        found = values.find_wrong_values(space.fmt, space.profile, codes[rows], want[rows], got)
        for part, wrong in zip((Part.VALUE, Part.ZERO_SIGN), found, strict=True):
            bad = np.argwhere(wrong)
            failing += len(np.unique(bad[:, 0]))
            for row, lane in bad[np.unique(np.linspace(0, len(bad) - 1, PER_CALL).astype(int))] if len(bad) else ():
                mismatches.append(
                    {
                        "batch": number, "call": index, "row": int(row), "kind": CallKind.WHOLE if index == 0 else CallKind.SIZE,
                        "part": part, "lane": int(lane), "scale": int(scales[rows][row, 0]),
                        "expected": int(codes[rows][row, lane]), "returned": int(got[row, lane].view(np.uint32)),
                        "blocks": len(rows),
                    }
                )  # fmt: skip
    hit = np.zeros(count_scale_places(space.fmt.scale) << space.fmt.element.bits, np.bool_)
    hit[(place_scales(scales, space.fmt.scale) << space.fmt.element.bits | codes).reshape(-1)] = True
    return {
        "blocks": blocks, "elements": blocks * space.fmt.k, "calls": len(calls), "failing": failing,
        "mismatches": mismatches[:PER_BATCH], "coverage": {Reach.CODES_UNDER_SCALES.value: np.packbits(hit).tobytes().hex()},
        "relations": {"compared": {}, "broken": {}}, "no_answers": no_answers,
    }  # fmt: skip
