"""From mismatches to findings: each cause once, with its smallest block, drawn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mxspec_conformance.campaign.draw import name_equals
from mxspec_conformance.counterexample.diagnose import Cause, describe_cause, describe_lanes, diagnose
from mxspec_conformance.counterexample.failure import describe_bits, explain_steps, make_snippet
from mxspec_conformance.counterexample.kinds import PatternKind
from mxspec_conformance.counterexample.mismatch import Mismatch, Part
from mxspec_conformance.counterexample.probe import CallPattern, ObservedMismatch, Prober
from mxspec_conformance.counterexample.sample_space import Float32s
from mxspec_conformance.counterexample.shrink import find_pattern, shrink_lanes, simplify
from mxspec_conformance.fuzzing.blocks import values
from mxspec_conformance.fuzzing.blocks.batch import find_block
from mxspec_conformance.fuzzing.blocks.job import BlockJob
from mxspec_conformance.fuzzing.subject import Finding, Progress, Reduced, Restart
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.build_dequantize import list_scales
from mxspec_vectors.cases import QuantizeCase

#: Findings that are reported, mismatches that are tried to find them, and the time after which no other is tried.
MAX_FINDINGS, MAX_TRIES, MAX_SECONDS = 16, 48, 40.0

Sighting = tuple[BlockJob, Mismatch]


@dataclass(slots=True, kw_only=True)
class BlockFinding(Finding):
    """One cause, and the smallest block that shows it."""

    #: The facts reported: findings with the same facts are one.
    facts: tuple[object, ...]
    #: The call's blocks [n, k], which of them is wrong, and how they are called; None for dequantize.
    blocks: Float32s | None = None
    place: int = 0
    pattern: CallPattern = field(default_factory=CallPattern)
    #: Codes [n, k] and scales [n, 1], for dequantize.
    stored: tuple[Any, Any] | None = None


def order_mismatches(mismatches: Sequence[Sighting]) -> Iterator[Sighting]:
    """First one of each kind and part, then of each another, and so on.

    Lost signs of zero come last in each round: what loses a code loses signs, too, and is then explained by the code.
    """
    groups: dict[tuple[Any, ...], list[Sighting]] = {}
    for job, s in mismatches:
        groups.setdefault((job.fmt, job.decodes, s.part, s.kind), []).append((job, s))
    queues = [iter(group) for _, group in sorted(groups.items(), key=lambda item: item[0][2] is Part.ZERO_SIGN)]
    while queues:
        for queue in list(queues):
            item = next(queue, None)
            if item is None:
                queues.remove(queue)
            else:
                yield item


def reduce_mismatches(mismatches: Sequence[Sighting], session: TargetSession, restart: Restart | None, progress: Progress) -> Reduced:
    """Shrink and diagnose until everything seen is explained, or enough is."""
    reduced = Reduced()
    known: list[tuple[Cause, BlockFinding]] = []
    deadline, tries = time.monotonic() + MAX_SECONDS, 0
    for job, mismatch in order_mismatches(mismatches):
        element = job.block_format.element
        sign_bit = 0 if element.twos_complement else element.sign_bit
        alike = [(c, f) for c, f in known if f.job.fmt == job.fmt]
        same = next((f for c, f in alike if f.job.decodes == job.decodes and c.explains(mismatch, sign_bit)), None)
        if same is not None:
            same.mismatches += 1
            continue
        if tries >= MAX_TRIES or len(known) >= MAX_FINDINGS or time.monotonic() > deadline:
            reduced.left += 1
            reduced.left_topics[job.fmt, _guess_topic(job, mismatch)] += 1
            continue
        tries += 1
        progress(f"reducing: {len(known)} causes")
        found = _reduce_values(job, mismatch, session) if job.decodes else _reduce(job, mismatch, session, restart)
        if found is None:
            reduced.lost += 1
            reduced.lost_words.append(
                f"batch {mismatch.batch}: {mismatch.part} wrong in a {mismatch.kind} call of {mismatch.blocks} blocks"
            )
            continue
        cause, finding = found
        twin = next((f for c, f in alike if c.key == cause.key or f.facts == finding.facts), None)
        if twin is not None:
            twin.mismatches += 1
            continue
        known.append((cause, finding))
        reduced.findings.append(finding)
    return reduced


def _reduce(job: BlockJob, mismatch: Mismatch, session: TargetSession, restart: Restart | None) -> tuple[Cause, BlockFinding] | None:
    prober = Prober(session, job.space, restart)
    call, blocks, row = find_block(job, mismatch.batch, mismatch.call, mismatch.row)
    found = find_pattern(prober, call, blocks, row)
    if found is None:
        return None
    pattern, block = found
    block = shrink_lanes(prober, block, pattern)
    seen = prober.look(block, pattern)
    if seen is None:
        return None
    cause = diagnose(prober, block, pattern, seen)
    small = simplify(prober, block, pattern)
    after = prober.look(small, pattern)
    if after is not None and after.part == seen.part:
        block, seen = small, after
    x, place = prober.lay(block, pattern)
    words = describe_cause(cause, seen, int(np.count_nonzero(block.view(np.uint32))))
    facts = cause.facts(*((seen.want_scale, seen.got_scale) if cause.part is Part.SCALE else (seen.expected, seen.returned)))
    return cause, BlockFinding(
        job=job, topic=_find_topic(block, cause.part, cause), words=words, facts=facts, mismatches=1, blocks=x, place=place, pattern=pattern,
        how=pattern.words, nonzero=int(np.count_nonzero(x[place].view(np.uint32))), failure=_draw(job, block, pattern, seen, words),
    )  # fmt: skip


def _find_topic(block: Float32s, part: Part, cause: Cause | None = None) -> str:
    if cause is not None and (cause.pattern.kind is not PatternKind.BLOCK or cause.calls is not None):
        return "calls"
    if not np.isfinite(block).all() or not block.any():
        return "special"
    return {Part.SCALE: "scale", Part.CODE: "element"}.get(part, part.value)


def _guess_topic(job: BlockJob, mismatch: Mismatch) -> str:
    """The topic of what is not reduced, as if it were wrong whatever the call."""
    if job.decodes:
        return "value" if mismatch.part is Part.VALUE else "value-zero-sign"
    _, blocks, row = find_block(job, mismatch.batch, mismatch.call, mismatch.row)
    return _find_topic(blocks[row], mismatch.part)


def _draw(job: BlockJob, block: Float32s, pattern: CallPattern, seen: ObservedMismatch, words: str) -> Failure:
    space = job.space
    case = QuantizeCase(id="fuzz", topic="mixture", x=block[None], tensor=space.entry)
    scales, codes = space.expect(block[None])
    want_scale, returned = int(scales[0, 0]), np.array(seen.codes, np.uint8)
    lanes = [i for i in range(len(block)) if block.view(np.uint32)[i] or codes[0, i] != returned[i]]
    try:
        steps = explain_steps(case, space.fmt, space.profile, seen.scale, returned)
    except ValueError as error:  # codes beyond the format's width have no explanation
        steps = [str(error)]
    return Failure(
        case=words,
        given={
            "x": {f"lane {i}": describe_bits(block[i]) for i in lanes},
            "other lanes": "+0",
            "call": pattern.words,
            **({} if space.entry is None else {"tensor scale": space.entry.as_dict()}),
        },
        expected={"scale": f"{want_scale:02x}", "codes": {f"lane {i}": f"{int(codes[0, i]):02x}" for i in lanes}},
        returned={"scale": f"{seen.scale:02x}", "codes": {f"lane {i}": f"{int(returned[i]):02x}" for i in lanes}},
        steps=steps,
        also=name_equals(space.fmt, space.profile, block[None], space.entry, np.array([[seen.scale]], scales.dtype), returned[None]),
        snippet=make_snippet(case, space.fmt, space.profile, want_scale),
    )


def _reduce_values(job: BlockJob, mismatch: Mismatch, session: TargetSession) -> tuple[Cause, BlockFinding] | None:
    space, lane = job.space, mismatch.lane
    codes, scales, calls = values.draw_value_calls(job, mismatch.batch)
    rows = calls[mismatch.call]
    block, scale = codes[rows[mismatch.row]], scales[rows[mismatch.row]]
    alone = np.zeros_like(block)
    alone[lane] = block[lane]
    pattern, stored, place = CallPattern(), (alone[None], scale[None]), 0
    seen = values.look_alone(session, space, alone, scale, lane)
    if seen is None:
        seen, stored = values.look_alone(session, space, block, scale, lane), (block[None], scale[None])
    if seen is None:
        pattern = CallPattern(PatternKind.CALL, blocks=len(rows), place=mismatch.row)
        stored, place, seen = (codes[rows], scales[rows]), mismatch.row, (mismatch.returned, 0)
        try:
            if not values.look_at_values(session, space, *stored)[2][place].any():
                return None
        except CallError:
            return None
    code, byte = int(block[lane]), int(scale[0])
    shown = [i for i in range(len(block)) if values.look_alone(session, space, np.roll(alone, i - lane), scale, i)]
    other_scales = [
        s for s in list_scales(space.fmt.scale)
        if values.look_alone(session, space, alone, np.array([s], scale.dtype), lane)
    ]  # fmt: skip
    lanes = tuple(shown) if 0 < len(shown) < len(block) else None
    under = tuple(other_scales) if 0 < len(other_scales) <= 8 else None
    same = (code, code) if under is None or len(under) == 1 else None
    cause = Cause(part=mismatch.part, pattern=pattern, lanes=lanes, scales=under, codes=same, calls=None, sign="")
    where = "" if lanes is None else f", in {describe_lanes(lanes)}"
    want = values.expect_values(space, *stored)[place, lane]
    bits = int(want.view(np.uint32))
    what, topic = ("the value of code", "value") if mismatch.part is Part.VALUE else ("the sign of zero of code", "value-zero-sign")
    words = f"{what} {code:02x} under scale byte {byte:02x}{where} is 0x{seen[0]:08x}, not 0x{bits:08x}"
    failure = Failure(
        case=words, given={"code": f"{code:02x}", "scale": f"{byte:02x}", "lane": lane, "call": pattern.words},
        expected={"value": describe_bits(float(want))}, returned={"value": f"0x{seen[0]:08x}"}, steps=[words],
    )  # fmt: skip
    return cause, BlockFinding(
        job=job, topic=topic, words=words, facts=(code, byte, *cause.facts(bits, seen[0])), mismatches=1, failure=failure,
        how=pattern.words, nonzero=int(np.count_nonzero(stored[0][place])), stored=stored, place=place, pattern=pattern,
    )  # fmt: skip
