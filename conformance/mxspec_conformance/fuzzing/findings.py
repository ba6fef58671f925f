"""From sightings to findings: each cause once, with its smallest block, drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mxspec_conformance.campaign.draw import name_equals
from mxspec_conformance.counterexample.diagnose import Cause, cause_words, diagnose
from mxspec_conformance.counterexample.failure import describe_bits, explain_steps, make_snippet
from mxspec_conformance.counterexample.probe import Prober, Seen, Way
from mxspec_conformance.counterexample.sample_space import Float32s
from mxspec_conformance.counterexample.shrink import find_block, find_way, shrink_lanes, simplify
from mxspec_conformance.fuzzing import values
from mxspec_conformance.fuzzing.batch import Job, Sighting
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import QuantizeCase

#: Findings that are told, and sightings that are tried to find them.
MAX_FINDINGS, MAX_TRIES = 16, 48


@dataclass(slots=True)
class Finding:
    """One cause, and the smallest block that shows it."""

    job: Job
    topic: str
    words: str
    #: Sightings that it explains.
    sightings: int
    failure: Failure
    #: The call's blocks [n, k], which of them is wrong, and how they are called; None for dequantize.
    blocks: Float32s | None = None
    place: int = 0
    way: Way = field(default_factory=Way)
    seen: Seen | None = None
    #: Codes [n, k] and scales [n, 1], for dequantize.
    stored: tuple[Any, Any] | None = None

    @property
    def nonzero(self) -> int:
        """Lanes of the wrong block that are not +0."""
        if self.blocks is None:
            assert self.stored is not None
            return int(np.count_nonzero(self.stored[0][self.place]))
        return int(np.count_nonzero(self.blocks[self.place].view(np.uint32)))


@dataclass(slots=True)
class Reduced:
    """What became of all sightings."""

    findings: list[Finding] = field(default_factory=list)
    #: Sightings that were not seen again, and those that were not tried.
    lost: int = 0
    left: int = 0
    lost_words: list[str] = field(default_factory=list)


def order_sightings(sightings: Sequence[tuple[Job, Sighting]]) -> Iterator[tuple[Job, Sighting]]:
    """First one of each kind, part and pair of codes; then of each kind and part another; and so on."""
    groups: dict[tuple[Any, ...], list[tuple[Job, Sighting]]] = {}
    for job, s in sightings:
        groups.setdefault((job.fmt, job.dtype == "codes", s.part, s.kind.split(" ")[0]), []).append((job, s))
    queues = [iter(g) for g in groups.values()]
    while queues:
        for queue in list(queues):
            item = next(queue, None)
            if item is None:
                queues.remove(queue)
            else:
                yield item


def reduce_sightings(
    sightings: Sequence[tuple[Job, Sighting]], session: TargetSession, restart: Callable[[], TargetSession] | None, *,
    seconds: float = 40.0, progress: Callable[[str], None] = lambda _: None,
) -> Reduced:  # fmt: skip
    """Shrink and diagnose until everything seen is explained, or enough is."""
    reduced = Reduced()
    known: list[tuple[Job, Cause, Finding]] = []
    deadline, tries = time.monotonic() + seconds, 0
    for job, sighting in order_sightings(sightings):
        sign_bit = 0 if job.ground_format.element.twos_complement else job.ground_format.element.sign_bit
        same = next((f for j, c, f in known if j.fmt == job.fmt and (j.dtype == "codes") == (job.dtype == "codes") and c.explains(sighting, sign_bit)), None)  # fmt: skip
        if same is not None:
            same.sightings += 1
            continue
        if tries >= MAX_TRIES or len(known) >= MAX_FINDINGS or time.monotonic() > deadline:
            reduced.left += 1
            continue
        tries += 1
        progress(f"reducing: {len(known)} causes")
        found = (
            _reduce_values(job, sighting, session)
            if job.dtype == "codes"
            else _reduce(job, sighting, session, restart)
        )
        if found is None:
            reduced.lost += 1
            words = (
                f"batch {sighting.batch}: {sighting.part} wrong in a {sighting.kind} call of {sighting.blocks} blocks"
            )
            reduced.lost_words.append(words)
            continue
        cause, finding = found
        twin = next(
            (f for j, c, f in known if j.fmt == job.fmt and (c.key == cause.key or f.words == finding.words)), None
        )
        if twin is not None:
            twin.sightings += 1
            continue
        known.append((job, cause, finding))
        reduced.findings.append(finding)
    return reduced


def _reduce(
    job: Job, sighting: Sighting, session: TargetSession, restart: Callable[[], TargetSession] | None
) -> tuple[Cause, Finding] | None:
    prober = Prober(session, job.ground, restart)
    call, blocks, row = find_block(job, sighting)
    found = find_way(prober, call, blocks, row)
    if found is None:
        return None
    way, block = found
    block = shrink_lanes(prober, block, way)
    seen = prober.look(block, way)
    if seen is None:
        return None
    cause = diagnose(prober, block, way, seen)
    small = simplify(prober, block, way)
    after = prober.look(small, way)
    if after is not None and after.part == seen.part:
        block, seen = small, after
    x, place = prober.lay(block, way)
    words = cause_words(cause, seen, int(np.count_nonzero(block.view(np.uint32))))
    finding = Finding(
        job=job, topic=_topic(block, cause), words=words, sightings=1, blocks=x, place=place, way=way, seen=seen,
        failure=_draw(job, block, way, seen, words),
    )  # fmt: skip
    return cause, finding


def _topic(block: Float32s, cause: Cause) -> str:
    if cause.way.kind != "block" or cause.calls:
        return "calls"
    if not np.isfinite(block).all() or not block.any():
        return "special"
    return {"scale": "scale", "code": "element"}.get(cause.part, cause.part)


def _draw(job: Job, block: Float32s, way: Way, seen: Seen, words: str) -> Failure:
    ground = job.ground
    case = QuantizeCase(id="fuzz", topic="mixture", x=block[None], tensor=ground.entry)
    scales, codes = ground.expect(block[None])
    want_scale, returned = int(scales[0, 0]), np.array(seen.codes, np.uint8)
    lanes = [i for i in range(len(block)) if block.view(np.uint32)[i] or codes[0, i] != returned[i]]
    try:
        steps = explain_steps(case, ground.fmt, ground.profile, seen.scale, returned)
    except ValueError as error:  # codes beyond the format's width have no explanation
        steps = [str(error)]
    return Failure(
        case=words,
        given={
            "x": {f"lane {i}": describe_bits(block[i]) for i in lanes},
            "other lanes": "+0",
            "call": way.words,
            **({} if ground.entry is None else {"tensor scale": ground.entry.as_dict()}),
        },
        expected={"scale": f"{want_scale:02x}", "codes": {f"lane {i}": f"{int(codes[0, i]):02x}" for i in lanes}},
        returned={"scale": f"{seen.scale:02x}", "codes": {f"lane {i}": f"{int(returned[i]):02x}" for i in lanes}},
        steps=steps,
        also=name_equals(
            ground.fmt, ground.profile, block[None], ground.entry, np.array([[seen.scale]], np.uint8), returned[None]
        ),
        snippet=make_snippet(case, ground.fmt, ground.profile, want_scale),
    )


def _reduce_values(job: Job, sighting: Sighting, session: TargetSession) -> tuple[Cause, Finding] | None:
    ground = values.ground_of(job)
    codes, scales = values.draw_codes(ground.fmt, job.blocks, job.generator(sighting.batch, 0))
    rows = values.plan_value_calls(len(codes), job.generator(sighting.batch, 1))[sighting.call]
    block, scale = codes[rows[sighting.row]], scales[rows[sighting.row]]
    lane = sighting.lane

    def look(row: Any) -> tuple[int, int] | None:
        return values.look_alone(session, ground, row, scale, lane)

    alone = np.zeros_like(block)
    alone[lane] = block[lane]
    way, stored, place = Way(), (alone[None], scale[None]), 0
    seen = look(alone)
    if seen is None:
        seen, stored = look(block), (block[None], scale[None])
    if seen is None:
        way = Way("call", blocks=len(rows), place=sighting.row)
        stored, place = (codes[rows], scales[rows]), sighting.row
        seen = (sighting.returned, 0)
        if not values.still_wrong(session, ground, *stored, place):
            return None
    code, byte = int(block[lane]), int(scale[0])
    shown = [i for i in range(len(block)) if values.look_alone(session, ground, np.roll(alone, i - lane), scale, i)]
    other_scales = [
        s for s in range(ground.fmt.scale.code_count)
        if values.look_alone(session, ground, alone, np.array([s], np.uint8), lane)
    ]  # fmt: skip
    lanes = tuple(shown) if 0 < len(shown) < len(block) else None
    under = tuple(other_scales) if 0 < len(other_scales) <= 8 else None
    same = (code, code) if under is None or len(under) == 1 else None
    cause = Cause(part=sighting.part, way=way, lanes=lanes, scales=under, codes=same, calls="", sign="")
    limits = [f"under scale byte {byte:02x}"]
    if lanes is not None:
        limits.append("in even lanes" if all(i % 2 == 0 for i in lanes) else "in odd lanes" if all(i % 2 for i in lanes) else f"in lanes {', '.join(map(str, lanes))}")  # fmt: skip
    want = values.expect_values(ground, stored[0], stored[1])[place, lane]
    what = "the sign of zero of code" if sighting.part == "zero-sign" else "the value of code"
    words = f"{what} {code:02x} {', '.join(limits)} is 0x{seen[0]:08x}, not 0x{int(want.view(np.uint32)):08x}"
    failure = Failure(
        case=words, given={"code": f"{code:02x}", "scale": f"{byte:02x}", "lane": lane, "call": way.words},
        expected={"value": describe_bits(float(want))}, returned={"value": f"0x{seen[0]:08x}"}, steps=[words],
    )  # fmt: skip
    topic = "value" if sighting.part == "value" else "value-zero-sign"
    return replace(cause), Finding(
        job=job, topic=topic, words=words, sightings=1, failure=failure, stored=stored, place=place, way=way
    )
