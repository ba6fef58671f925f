"""From the results of pieces to requirements, statements and the first counterexample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.campaign.chunks import format_chunks
from mxspec_conformance.campaign.draw import draw_block
from mxspec_conformance.counterexample.probe import CallPattern, Prober
from mxspec_conformance.counterexample.sample_space import get_sample_space
from mxspec_conformance.counterexample.shrink import shrink_lanes, simplify
from mxspec_conformance.proving.compare import read_block
from mxspec_conformance.proving.maxima import maxima_blocks
from mxspec_conformance.proving.pairs import as_float32
from mxspec_conformance.proving.work import Job, pair_answers, pair_space, tensor_scales
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import Level, bind_level

Result = dict[str, Any]

_TEXTS = {
    "lane-independence": (Level.CONTRACT, "a lane's code and the block's scale are the same whatever else the call holds"),
    "scale": (Level.SHOULD, "every 16-bit maximum gets the profile's scale"),
    "scale-float32": (Level.SHOULD, "every float32 maximum gets the profile's scale"),
    "element": (Level.MUST, "every 16-bit element beside every maximum gets the profile's code under the scale returned"),
    "zero-sign": (Level.OPEN, "the sign of zero is the profile's"),
    "value": (Level.MUST, "every code under every scale byte means the profile's value"),
    "value-zero-sign": (Level.OPEN, "the sign of a dequantized zero is the profile's"),
}


@dataclass(slots=True)
class Judged:
    """What a proof came to."""

    requirements: list[Requirement] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    claims: list[Result] = field(default_factory=list)
    independence: Result = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    #: What the target took for the pairs.
    seconds: float = 0.0


@dataclass(slots=True)
class _Tally:
    cases: int = 0
    failing: int = 0
    labels: list[str] = field(default_factory=list)
    first: Failure | None = None
    no_answer: Result | None = None
    #: Whether everything was asked that there is.
    complete: bool = True
    note: str = ""


def judge_proof(
    session: TargetSession, fmt: BlockFormat, profile: Profile, lanes: Mapping[str, Job], finished: Mapping[str, Result],
    totals: Mapping[str, int], left_out: Sequence[str], part: tuple[int, int],
) -> Judged:  # fmt: skip
    """Requirements and statements from the finished pieces."""
    judged = Judged()
    tallies: dict[str, _Tally] = {}
    for key, job in lanes.items():
        if key in finished:
            _judge_lanes(session, fmt, profile, job, finished[key], tallies, judged)
    for name, total in totals.items():
        job = lanes[f"lanes/{name.partition('/')[2]}"]
        _judge_pairs(session, fmt, profile, job, _members(finished, name), total, tallies, judged)
    _judge_maxima(session, fmt, profile, finished, tallies, judged)
    _judge_values(fmt, finished, tallies, judged)
    for topic, tally in tallies.items():
        judged.requirements.append(_requirement(fmt, profile, topic, tally))
    judged.statements += [f"not covered: {reason}" for reason in left_out]
    judged.statements.append("not covered: NaN and infinities, which `mxspec check` judges")
    if part[1] > 1:
        judged.statements.append(f"this is part {part[0]} of {part[1]}")
    for kind, operation in (("pairs", "quantize"), ("thresholds", "scale"), ("values", "dequantize")):
        if any(key.startswith(f"{kind}/") for key in finished):
            judged.operations.append(operation)
    judged.deviations = [r.note for r in judged.requirements if r.verdict is not Verdict.PASS and r.note]
    return judged


def _members(finished: Mapping[str, Result], name: str) -> dict[int, Result]:
    return {int(k.rpartition("/")[2]): r for k, r in sorted(finished.items()) if k.startswith(f"{name}/")}


def _tensor_json(bits: int | None) -> dict[str, str] | None:
    scales = tensor_scales(bits)
    return None if scales is None else scales.as_dict()


def _where(job: Job) -> str:
    form = "" if job.tensor is None else f", tensor maximum {float(np.uint32(job.tensor).view(np.float32)):g}"
    return f"{job.dtype}{form}"


def _judge_lanes(
    session: TargetSession, fmt: BlockFormat, profile: Profile, job: Job, result: Result, tallies: dict[str, _Tally],
    judged: Judged,
) -> None:  # fmt: skip
    tally = tallies.setdefault("lane-independence", _Tally())
    if "no_answer" in result:
        tally.no_answer = result["no_answer"]
        return
    compared, broken = sum(result["compared"].values()), sum(result["broken"].values())
    tally.cases += compared
    tally.failing += broken
    left_out = result.get("left_out", [])
    judged.independence[job.name] = {"compared": result["compared"], "broken": result["broken"], "not_varied": left_out}
    if broken:
        first = result["first"]
        tally.labels.append(f"{job.name}: {first['context']}")
        tally.note = first["words"]
        x = as_float32(read_block(first["block"]), job.dtype)[None]
        # A context is no block, but where the block alone is wrong too, it is the better picture.
        tally.first = draw_block(session, fmt, profile, x, tensor_scales(job.tensor), f"{first['context']} {job.name}")
        if tally.first is None:
            tally.first = Failure(
                case=job.name, given={"call": first["context"]}, expected={}, returned={}, steps=[first["words"]]
            )
        judged.statements.append(
            f"{_where(job)}: no proof, as lanes depend on what else the call holds ({', '.join(result['broken'])}): "
            f"{broken} of {compared} comparisons of a lane with itself elsewhere differ"
        )
    if left_out:
        judged.statements.append(f"not varied in {_where(job)}: {', '.join(left_out)}")


def _judge_pairs(
    session: TargetSession, fmt: BlockFormat, profile: Profile, job: Job, chunks: Mapping[int, Result], total: int,
    tallies: dict[str, _Tally], judged: Judged,
) -> None:  # fmt: skip
    if not chunks:
        return
    space, answers = pair_space(job), pair_answers(job)
    answered = {n: r for n, r in chunks.items() if "no_answer" not in r}
    elements = sum(r["elements"] for r in answered.values())
    complete = len(answered) == total
    wrong: dict[str, int] = {}
    for topic in ("scale", "element", "zero-sign"):
        tally = tallies.setdefault(topic, _Tally())
        tally.cases += elements
        tally.complete &= complete
        for number, result in answered.items():
            found = (result["wrong"] or {}).get(topic)
            if found is None:
                continue
            tally.failing += found["count"]
            wrong[topic] = wrong.get(topic, 0) + found["count"]
            if len(tally.labels) < 20:
                tally.labels.append(f"{job.name} chunk {number}")
            if tally.first is None:
                x = as_float32(read_block(found["first"]), job.dtype)[None]
                label = f"{job.name} chunk {number}"
                tally.first = _draw_simplest(session, fmt, answers.profile, job, x, label)
        for result in chunks.values():
            tally.no_answer = tally.no_answer or result.get("no_answer")
    judged.seconds += sum(r["target_seconds"] for r in answered.values())
    judged.claims.append(
        {
            "what": "pairs", "profile": job.profile, "dtype": job.dtype, "tensor": _tensor_json(job.tensor), "pairs": space.pairs,
            "elements": elements, "of": space.elements(), "largest": f"{space.largest:04x}",
            "chunks": format_chunks(answered), "chunk_count": total,
            "digests": [r["digest"] for _, r in sorted(answered.items())],
            "answers_digest": answers.digest(), "wrong": wrong,
        }
    )  # fmt: skip
    compared = sum(judged.independence.get(job.name, {}).get("compared", {}).values())
    contexts = ", ".join(judged.independence.get(job.name, {}).get("compared", {}))
    outcome = "no difference" if not wrong else ", ".join(f"{n:,} lanes with another {t}" for t, n in wrong.items())
    if complete:
        bound = "" if job.tensor is None else " up to the tensor's"
        words = (
            f"all {space.pairs:,} pairs of a finite maximum{bound} and an element up to it, in all signs: {elements:,} "
            f"elements, {outcome}; exhaustive under lane independence, which was tested by {compared:,} comparisons "
            f"({contexts}) and not proven"
        )
    else:
        words = (
            f"{elements:,} of {space.elements():,} elements (chunks {format_chunks(answered)} of {total}), {outcome}; "
            "a part, not a proof"
        )
    judged.statements.append(f"{_where(job)}: {words}")


def _draw_simplest(
    session: TargetSession, fmt: BlockFormat, profile: Profile, job: Job, x: npt.NDArray[np.float32], label: str
) -> Failure | None:
    """A counterexample [1, k] with few lanes and simple numbers; as it came where that changes the answer."""
    dtypes = session.capabilities.dtypes
    dtype = job.dtype if job.dtype in dtypes else dtypes[0]
    prober = Prober(session, get_sample_space(fmt.name, profile.id, job.tensor, dtype))
    block = simplify(prober, shrink_lanes(prober, x[0], CallPattern()), CallPattern())
    tensor = tensor_scales(job.tensor)
    small = draw_block(session, fmt, profile, block[None], tensor, label)
    return draw_block(session, fmt, profile, x, tensor, label) if small is None else small


def _jobs_of(finished: Mapping[str, Result], kind: str) -> dict[str, dict[str, Result]]:
    """Results of one kind by job (`dtype/tensor`), then by what follows."""
    found: dict[str, dict[str, Result]] = {}
    for key, result in sorted(finished.items()):
        head, *rest = key.split("/")
        if head == kind:
            found.setdefault("/".join(rest[:2]), {})["/".join(rest[2:])] = result
    return found


def _tensor_bits(name: str) -> int | None:
    text = name.partition("/")[2]
    return None if text == "one-level" else int(text.removeprefix("t"), 16)


def _judge_maxima(
    session: TargetSession, fmt: BlockFormat, profile: Profile, finished: Mapping[str, Result], tallies: dict[str, _Tally],
    judged: Judged,
) -> None:  # fmt: skip
    everything, thresholds = _jobs_of(finished, "maxima"), _jobs_of(finished, "thresholds")
    for name in sorted({*everything, *thresholds}):
        results = thresholds.get(name, {})
        tally = tallies.setdefault("scale-float32", _Tally())
        tensor = _tensor_bits(name)
        chunks = everything.get(name, {})
        largest = 0x7F7FFFFF if tensor is None else min(tensor, 0x7F7FFFFF)
        found: dict[str, Any] = {}
        for result in [*results.values(), *chunks.values()]:
            if "no_answer" in result:
                tally.no_answer = result["no_answer"]
                continue
            tally.cases += result["maxima"]
            wrong = (result["wrong"] or {}).get("scale")
            if wrong is not None:
                tally.failing += wrong["count"]
                found = found or wrong
        if found:
            tally.labels.append(f"{name} maximum {found['first']}")
            if tally.first is None:
                x = maxima_blocks(np.array([int(found["first"], 16)], np.uint32), fmt.k)
                tally.first = draw_block(
                    session, fmt, profile, x, tensor_scales(tensor), f"{name} maximum {found['first']}"
                )
        plain = {} if "no_answer" in results.get("", {}) else results.get("", {})
        asked = sum(r.get("maxima", 0) for r in chunks.values())
        judged.claims.append(
            {
                "what": "maxima", "dtype": "float32", "tensor": _tensor_json(tensor), "changes": plain.get("changes", 0),
                "asked": plain.get("maxima", 0), "exhaustive": asked, "of": largest,
                "chunks": format_chunks(int(n) for n in chunks),
                "digests": [r["digest"] for _, r in sorted(chunks.items()) if "digest" in r],
            }
        )  # fmt: skip
        parts = []
        if plain and asked < largest:
            parts.append(
                f"{plain['maxima']:,} asked, both sides of each of the {plain['changes']} places where the exact scale "
                "changes among them: exhaustive if the target's scale is monotone between"
            )
        if asked:
            share = f"all {largest:,} asked" if asked >= largest else f"{asked:,} of all {largest:,} asked, a part"
            parts.append(share)
        words = "; ".join(parts) or "no answer"
        judged.statements.append(f"float32 maxima{'' if tensor is None else f', tensor maximum {tensor:08x}'}: {words}")


def _judge_values(fmt: BlockFormat, finished: Mapping[str, Result], tallies: dict[str, _Tally], judged: Judged) -> None:
    for name, results in _jobs_of(finished, "values").items():
        result = results[""]
        tally = tallies.setdefault("value", _Tally())
        if "no_answer" in result:
            if result["no_answer"]["kind"] == "unsupported":
                tallies.pop("value") if not tally.cases else None
                judged.statements.append(f"dequantize {name}: the target refuses it: {result['no_answer']['message']}")
            else:
                tally.no_answer = result["no_answer"]
            continue
        signs = tallies.setdefault("value-zero-sign", _Tally())
        for kind, own in (("value", tally), ("zero-sign", signs)):
            own.cases += result["values"]
            wrong = (result["wrong"] or {}).get(kind)
            if wrong is None:
                continue
            own.failing += wrong["count"]
            first = wrong["first"]
            own.labels.append(f"{name} code {first['code']:02x} scale {first['scale']:02x}")
            own.first = own.first or Failure(
                case=f"{name} code {first['code']:02x} scale {first['scale']:02x} lane {first['lane']}",
                given={"code": f"{first['code']:02x}", "scale": f"{first['scale']:02x}", "lane": first["lane"]},
                expected={"value": f"0x{first['expected']}"},
                returned={"value": f"0x{first['returned']}"},
                steps=[f"the value of code {first['code']:02x} under scale byte {first['scale']:02x} is another"],
            )
        beside = ", and each 4-bit code beside every other" if fmt.element.bits == 4 else ""
        tensor = _tensor_bits(name)
        form = "" if tensor is None else f", tensor maximum {tensor:08x}"
        judged.statements.append(
            f"dequantize{form}: every code under every scale byte ({result['bytes']}) in every lane{beside}: "
            f"{result['values']:,} values"
        )
        judged.claims.append(
            {"what": "values", "tensor": _tensor_json(tensor), "values": result["values"], "bytes": result["bytes"]}
        )


def _requirement(fmt: BlockFormat, profile: Profile, topic: str, tally: _Tally) -> Requirement:
    text = _TEXTS[topic][1]
    level = bind_level(_TEXTS[topic][0], fmt.name, described=profile.kind is not Kind.NORMATIVE)
    if tally.failing:
        verdict, note = Verdict.OPEN if level is Level.OPEN else Verdict.FAIL, tally.note
    elif tally.no_answer is not None:
        kind = tally.no_answer["kind"]
        verdict = {"timeout": Verdict.TIMEOUT, "unsupported": Verdict.UNSUPPORTED}.get(kind, Verdict.ERROR)
        note = f"{kind}: {tally.no_answer['message']}"
    else:
        verdict = Verdict.PASS
        note = "" if tally.complete else "no counterexample in the part that was asked; not a proof"
    return Requirement(
        id=f"prove/{fmt.name}/{topic}", level=level.value, text=text, verdict=verdict, cases=tally.cases, failing=tally.failing,
        note=note, failing_cases=tally.labels[:20], first=tally.first,
    )  # fmt: skip
