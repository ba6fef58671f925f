"""One batch: draw, call, compare, count. Plain data in and out; the same for the same seed and number."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mxspec.formats import BlockFormat, get_block
from mxspec_conformance.campaign import call_target
from mxspec_conformance.counterexample.calls import Call, Relations, ask_blocks, plan_calls, probe_memory, relate
from mxspec_conformance.counterexample.mismatch import Wrong, find_wrong, find_wrong_special
from mxspec_conformance.counterexample.sample_space import Float32s, Ground, get_ground
from mxspec_conformance.fuzzing import values
from mxspec_conformance.fuzzing.blocks import draw_blocks, draw_special
from mxspec_conformance.fuzzing.coverage import Coverage
from mxspec_conformance.targets.errors import CallError

#: Blocks of a batch.
BLOCKS = 4096
#: Blocks with special values, in every such batch, so many to a call.
SPECIALS, SPECIAL_EVERY, SPECIAL_CALL = 192, 4, 48
#: Wrong lanes that are told of each call, and of each batch.
PER_CALL, PER_BATCH = 12, 96

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """What a batch is drawn from and asked of."""

    target: Any
    fmt: str
    profile: str
    tensor: int | None
    dtype: str
    seed: int
    timeout: float
    in_process: bool = False
    blocks: int = BLOCKS

    @property
    def ground(self) -> Ground:
        """The tables of the job."""
        return get_ground(self.fmt, self.profile, self.tensor, self.dtype)

    @property
    def ground_format(self) -> BlockFormat:
        """The block format."""
        return get_block(self.fmt)

    @property
    def name(self) -> str:
        """format, dtype and tensor, for keys."""
        return f"{self.fmt}/{self.dtype}/{'one-level' if self.tensor is None else f't{self.tensor:08x}'}"

    def generator(self, number: int, stream: int) -> np.random.Generator:
        """The random numbers of one batch; the same on every machine."""
        return np.random.Generator(np.random.PCG64([self.seed, number, stream]))


@dataclass(frozen=True, slots=True)
class Sighting:
    """One wrong lane, or scale, where a batch saw it."""

    batch: int
    #: Number of the call in the batch, and the block's place in the call.
    call: int
    row: int
    kind: str
    part: str
    lane: int
    scale: int
    expected: int
    returned: int
    blocks: int


def draw_batch(job: Job, number: int) -> tuple[Float32s, list[Call], Float32s]:
    """The blocks of a batch, its calls, and its special blocks (none in most batches)."""
    ground = job.ground
    x = draw_blocks(ground, job.blocks, job.generator(number, 0))
    calls = list(plan_calls(ground, len(x), job.generator(number, 1)))
    special = x[:0]
    if number % SPECIAL_EVERY == 0:
        special = draw_special(ground, SPECIALS, job.generator(number, 2))
    return x, calls, special


def run_batch(job: Job, number: int) -> Result:
    """Draw, call, compare."""
    session = call_target(job.target, job.timeout, in_process=job.in_process)
    started = time.perf_counter()
    if job.dtype == "codes":
        return values.run_values(session, job, number)
    ground = job.ground
    x, calls, special = draw_batch(job, number)
    coverage, relations = Coverage.empty(ground), Relations()
    want = ground.expect(x)
    want = (want[0].reshape(-1), want[1])
    coverage.enter(ground, x, *want)
    sightings: list[Sighting] = []
    no_answers: dict[str, Any] = {}
    base: tuple[Any, Any] | None = None
    blocks = failing = 0
    for index, call in enumerate(calls):
        asked = call.blocks(x)
        expected = (want[0][call.rows], want[1][call.rows])
        if call.negate or call.shift:
            scales, codes = ground.expect(asked)
            expected = (scales.reshape(-1), codes)
        try:
            got = call.ask(session, ground, asked)
        except CallError as failure:
            if call.kind in ("arranged", "wide", "reused") and failure.kind in ("error", "unsupported", "bad-return"):
                continue  # it may refuse what it was not made for
            note_trouble(no_answers, failure, call.words, number, index, job=job.name)
            if failure.final or failure.kind == "timeout":
                break
            continue
        blocks += len(asked)
        if call.kind == "whole":
            base = got
        if base is not None:
            relate(relations, ground, call, x, base, got)
        wrong = find_wrong(ground, asked, expected, got)
        if wrong is not None:
            failing += len(wrong.rows)
            sightings += _see(wrong, number, index, call, asked, expected, got)
    for start in range(0, len(special), SPECIAL_CALL):
        part = special[start : start + SPECIAL_CALL]
        coverage.enter_special(ground, part)
        call = Call("special", np.arange(len(part)))
        scales, codes = ground.expect(part)
        try:
            got = ask_blocks(session, ground, part)
        except CallError as failure:
            words = "blocks with NaN, infinities or zeros"
            note_trouble(no_answers, failure, words, number, len(calls), job=job.name, row=start)
            continue
        blocks += len(part)
        wrong = find_wrong_special(ground, part, (scales.reshape(-1), codes), got)
        if wrong is not None:
            failing += len(wrong.rows)
            sightings += _see(wrong, number, len(calls), call, part, (scales.reshape(-1), codes), got, start)
    memory = probe_memory(session, ground, x)
    keep = job.generator(number, 3).permutation(len(sightings))[:PER_BATCH]
    return {
        "blocks": blocks,
        "elements": blocks * ground.fmt.k,
        "calls": len(calls),
        "failing": failing,
        "sightings": [asdict(sightings[i]) for i in sorted(keep.tolist())],
        "coverage": coverage.pack(),
        "relations": asdict(relations),
        "no_answers": no_answers,
        "memory": memory,
        "seconds": round(time.perf_counter() - started, 3),
    }


def note_trouble(
    no_answers: dict[str, Any], failure: CallError, words: str, number: int, call: int, *, job: str, row: int = 0
) -> None:
    """Keep one call that had no answer, of each kind."""
    key = f"{failure.kind}: {str(failure)[:120]}"
    known = no_answers.setdefault(
        key, {"count": 0, "call": words, "batch": number, "number": call, "job": job, "row": row}
    )
    known["count"] += 1


def _see(
    wrong: Wrong, number: int, index: int, call: Call, x: Float32s, want: tuple[Any, Any], got: tuple[Any, Any],
    start: int = 0,
) -> Iterator[Sighting]:  # fmt: skip
    """A few of a call's wrong lanes, as many parts and rows as possible among them."""
    chosen = np.linspace(0, len(wrong.rows) - 1, min(PER_CALL, len(wrong.rows))).astype(np.intp)
    for i in np.unique(chosen).tolist():
        row = int(wrong.rows[i])
        if wrong.scale[i]:
            lane = int(np.argmax(np.abs(np.nan_to_num(x[row]))))  # where the maximum stands
            part, expected, returned = "scale", int(want[0][row]), int(got[0][row])
        else:
            lanes = wrong.codes[i] if wrong.codes[i].any() else wrong.signs[i]
            part = "code" if wrong.codes[i].any() else "zero-sign"
            lane = int(np.argmax(lanes)) if lanes.any() else -1
            expected = int(wrong.expected[i, lane]) if lane >= 0 else int(want[0][row])
            returned = int(got[1][row, lane]) if lane >= 0 else int(got[0][row])
        yield Sighting(
            batch=number, call=index, row=start + row, kind=call.words.split(" (")[0] if call.kind != "arranged" else call.words,
            part=part, lane=lane, scale=int(got[0][row]), expected=expected, returned=returned, blocks=len(x),
        )  # fmt: skip
