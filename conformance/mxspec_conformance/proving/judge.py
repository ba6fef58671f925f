"""From the results of pieces to requirements, statements and the first counterexample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.campaign.chunks import format_chunks
from mxspec_conformance.campaign.draw import draw_block
from mxspec_conformance.campaign.verdicts import Count, judge_count, judge_no_answers
from mxspec_conformance.counterexample.probe import CallPattern, Prober
from mxspec_conformance.counterexample.sample_space import get_sample_space
from mxspec_conformance.counterexample.shrink import shrink_lanes, simplify
from mxspec_conformance.proving.answers import read_block
from mxspec_conformance.proving.maxima import maxima_blocks
from mxspec_conformance.proving.pairs import as_float32
from mxspec_conformance.proving.work import Job, largest_maximum, pair_answers, pair_space, tensor_scales
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


class ProofJudge:
    """The outcome of a proof."""

    def __init__(self, session: TargetSession, fmt: BlockFormat, profile: Profile, finished: Mapping[str, Result]) -> None:
        self.session, self.fmt, self.profile, self.finished = session, fmt, profile, dict(sorted(finished.items()))
        self.requirements: list[Requirement] = []
        self.statements: list[str] = []
        self.claims: list[Result] = []
        self.independence: Result = {}
        #: What the target took for the pairs.
        self.seconds = 0.0
        self._counts: defaultdict[str, Count] = defaultdict(Count)
        #: Topics that were tested only in part.
        self._parts: set[str] = set()

    @property
    def operations(self) -> list[str]:
        """The operations that were tested."""
        tested = {key.partition("/")[0] for key in self.finished}
        return [name for kind, name in (("pairs", "quantize"), ("thresholds", "scale"), ("values", "dequantize")) if kind in tested]

    @property
    def deviations(self) -> list[str]:
        """How the target departs, in words."""
        return [r.note for r in self.requirements if r.verdict is not Verdict.PASS and r.note]

    def judge(self, lanes: Mapping[str, Job], left_out: Sequence[str], part: tuple[int, int]) -> None:
        """Requirements and statements from the finished pieces."""
        for key, job in lanes.items():
            if key in self.finished:
                self._judge_lanes(job, self.finished[key])
        for job in lanes.values():
            self._judge_pairs(job)
        for name in sorted({*self._list("maxima"), *self._list("thresholds")}):
            self._judge_maxima(name)
        for name, results in self._list("values").items():
            self._judge_values(name, results[""])
        for topic, count in self._counts.items():
            self.requirements.append(self._conclude(topic, count))
        self.statements += [f"not covered: {reason}" for reason in left_out]
        self.statements.append("not covered: NaN and infinities, which `mxspec check` judges")
        if part[1] > 1:
            self.statements.append(f"this is part {part[0]} of {part[1]}")

    def _list(self, kind: str) -> dict[str, dict[str, Result]]:
        """Results of one kind by job (`dtype/tensor`), then by what follows."""
        found: dict[str, dict[str, Result]] = {}
        for key, result in self.finished.items():
            head, *rest = key.split("/")
            if head == kind:
                found.setdefault("/".join(rest[:2]), {})["/".join(rest[2:])] = result
        return found

    def _judge_lanes(self, job: Job, result: Result) -> None:
        count = self._counts["lane-independence"]
        if "no_answer" in result:
            _enter_no_answer(count, result["no_answer"])
            return
        compared, broken = sum(result["compared"].values()), sum(result["broken"].values())
        count.cases += compared
        count.failing += broken
        left_out = result.get("left_out", [])
        self.independence[job.name] = {"compared": result["compared"], "broken": result["broken"], "not_varied": left_out}
        if broken:
            first = result["first"]
            count.labels.append(f"{job.name}: {first['context']}")
            count.note = first["words"]
            x = as_float32(read_block(first["block"]), job.dtype)[None]
            # A context is no block, but where the block alone is wrong too, it is the better example.
            count.first = self._draw(x, job.tensor, f"{first['context']} {job.name}") or Failure(
                case=job.name, given={"call": first["context"]}, expected={}, returned={}, steps=[first["words"]]
            )
            self.statements.append(
                f"{_name_form(job)}: no proof, as lanes depend on what else the call holds ({', '.join(result['broken'])}): "
                f"{broken} of {compared} comparisons of a lane with itself elsewhere differ"
            )
        if left_out:
            self.statements.append(f"not varied in {_name_form(job)}: {', '.join(left_out)}")

    def _judge_pairs(self, job: Job) -> None:
        chunks = {int(number): r for number, r in self._list("pairs").get(job.name, {}).items()}
        if not chunks:
            return
        space, answers = pair_space(job), pair_answers(job)
        total = len(space.chunks())
        answered = {n: r for n, r in chunks.items() if "no_answer" not in r}
        missing = [r["no_answer"] for r in chunks.values() if "no_answer" in r]
        elements = sum(r["elements"] for r in answered.values())
        wrong: dict[str, int] = {}
        for topic in ("scale", "element", "zero-sign"):
            count = self._counts[topic]
            count.cases += elements
            if len(answered) < total:
                self._parts.add(topic)
            for number, result in answered.items():
                found = (result["wrong"] or {}).get(topic)
                if found is None:
                    continue
                label = f"{job.name} chunk {number}"
                count.failing += found["count"]
                wrong[topic] = wrong.get(topic, 0) + found["count"]
                count.labels.append(label)
                if count.first is None:
                    count.first = self._draw_simplest(job, as_float32(read_block(found["first"]), job.dtype)[None], label)
            if missing and count.unanswered is None:
                _enter_no_answer(count, missing[0])
        self.seconds += sum(r["target_seconds"] for r in answered.values())
        self.claims.append(
            {
                "what": "pairs", "profile": job.profile, "dtype": job.dtype, "tensor": _describe_tensor(job.tensor),
                "pairs": space.pairs, "elements": elements, "of": space.elements(), "largest": f"{space.largest:04x}",
                "chunks": format_chunks(answered), "chunk_count": total, "digests": [r["digest"] for r in answered.values()],
                "answers_digest": answers.digest(), "wrong": wrong,
            }
        )  # fmt: skip
        tested = self.independence.get(job.name, {}).get("compared", {})
        outcome = "no difference" if not wrong else ", ".join(f"{n:,} lanes with another {t}" for t, n in wrong.items())
        bound = "" if job.tensor is None else " up to the tensor's"
        words = (
            f"all {space.pairs:,} pairs of a finite maximum{bound} and an element up to it, in all signs: {elements:,} elements, "
            f"{outcome}; exhaustive under lane independence, which was tested by {sum(tested.values()):,} comparisons "
            f"({', '.join(tested)}) and not proven"
        )
        if len(answered) < total:
            words = f"{elements:,} of {space.elements():,} elements (chunks {format_chunks(answered)} of {total}), {outcome}; a part, not a proof"
        self.statements.append(f"{_name_form(job)}: {words}")

    def _judge_maxima(self, name: str) -> None:
        plain, chunks = self._list("thresholds").get(name, {}).get("", {}), self._list("maxima").get(name, {})
        count, tensor = self._counts["scale-float32"], _tensor_bits(name)
        largest = largest_maximum(tensor)
        found: Result = {}
        for result in [*([plain] if plain else []), *chunks.values()]:
            if "no_answer" in result:
                _enter_no_answer(count, result["no_answer"])
                continue
            count.cases += result["maxima"]
            wrong = (result["wrong"] or {}).get("scale")
            if wrong is not None:
                count.failing += wrong["count"]
                found = found or wrong
        if found:
            label = f"{name} maximum {found['first']}"
            count.labels.append(label)
            if count.first is None:
                count.first = self._draw(maxima_blocks(np.array([int(found["first"], 16)], np.uint32), self.fmt.k), tensor, label)
        tested = sum(r.get("maxima", 0) for r in chunks.values())
        self.claims.append(
            {
                "what": "maxima", "dtype": "float32", "tensor": _describe_tensor(tensor), "changes": plain.get("changes", 0),
                "asked": plain.get("maxima", 0), "exhaustive": tested, "of": largest, "chunks": format_chunks(map(int, chunks)),
                "digests": [r["digest"] for r in chunks.values() if "digest" in r],
            }
        )  # fmt: skip
        parts = []
        if "maxima" in plain and tested < largest:
            parts.append(
                f"{plain['maxima']:,} tested, both sides of each of the {plain['changes']} places where the exact scale "
                "changes among them: exhaustive if the target's scale is monotone between"
            )
        if tested:
            parts.append(f"all {largest:,} tested" if tested >= largest else f"{tested:,} of all {largest:,} tested, a part")
        self.statements.append(f"float32 maxima{_name_tensor(tensor)}: {'; '.join(parts) or 'no answer'}")

    def _judge_values(self, name: str, result: Result) -> None:
        if "no_answer" in result:
            if result["no_answer"]["kind"] == "unsupported":
                self.statements.append(f"dequantize {name}: the target refuses it: {result['no_answer']['message']}")
            else:
                _enter_no_answer(self._counts["value"], result["no_answer"])
            return
        for kind, topic in (("value", "value"), ("zero-sign", "value-zero-sign")):
            count = self._counts[topic]
            count.cases += result["values"]
            wrong = (result["wrong"] or {}).get(kind)
            if wrong is None:
                continue
            count.failing += wrong["count"]
            first = wrong["first"]
            code, scale = f"{first['code']:02x}", f"{first['scale']:02x}"
            label = f"{name} code {code} scale {scale}"
            count.labels.append(label)
            count.first = count.first or Failure(
                case=f"{label} lane {first['lane']}", given={"code": code, "scale": scale, "lane": first["lane"]},
                expected={"value": f"0x{first['expected']}"}, returned={"value": f"0x{first['returned']}"},
                steps=[f"the value of code {code} under scale byte {scale} is another"],
            )  # fmt: skip
        pairs = ", and each 4-bit code next to every other" if self.fmt.element.bits == 4 else ""
        tensor = _tensor_bits(name)
        self.statements.append(
            f"dequantize{_name_tensor(tensor)}: every code under every scale byte ({result['bytes']}) in every lane{pairs}: "
            f"{result['values']:,} values"
        )
        self.claims.append({"what": "values", "tensor": _describe_tensor(tensor), "values": result["values"], "bytes": result["bytes"]})

    def _conclude(self, topic: str, count: Count) -> Requirement:
        level, text = _TEXTS[topic]
        if topic in self._parts and not count.failing:
            count.note = "no counterexample in the tested part; not a proof"
        level = bind_level(level, self.fmt.name, described=self.profile.kind is not Kind.NORMATIVE)
        return judge_count(f"prove/{self.fmt.name}/{topic}", level, text, count)

    def _draw(self, x: npt.NDArray[np.float32], tensor: int | None, label: str) -> Failure | None:
        return draw_block(self.session, self.fmt, self.profile, x, tensor_scales(tensor), label)

    def _draw_simplest(self, job: Job, x: npt.NDArray[np.float32], label: str) -> Failure | None:
        """A counterexample [1, k] with few lanes and simple numbers; unchanged where that changes the answer."""
        profile, dtypes = pair_answers(job).profile, self.session.capabilities.dtypes
        space = get_sample_space(self.fmt.name, profile.id, job.tensor, job.dtype if job.dtype in dtypes else dtypes[0])
        prober = Prober(self.session, space)
        block = simplify(prober, shrink_lanes(prober, x[0], CallPattern()), CallPattern())
        tensor = tensor_scales(job.tensor)
        small = draw_block(self.session, self.fmt, profile, block[None], tensor, label)
        return small or draw_block(self.session, self.fmt, profile, x, tensor, label)


def _enter_no_answer(count: Count, no_answer: Result) -> None:
    count.unanswered = judge_no_answers([no_answer["kind"]], timeouts=True)
    count.no_answer_note = f"{no_answer['kind']}: {no_answer['message']}"


def _describe_tensor(bits: int | None) -> dict[str, str] | None:
    scales = tensor_scales(bits)
    return None if scales is None else scales.as_dict()


def _name_form(job: Job) -> str:
    form = "" if job.tensor is None else f", tensor maximum {float(np.uint32(job.tensor).view(np.float32)):g}"
    return f"{job.dtype}{form}"


def _name_tensor(bits: int | None) -> str:
    return "" if bits is None else f", tensor maximum {bits:08x}"


def _tensor_bits(name: str) -> int | None:
    text = name.partition("/")[2]
    return None if text == "one-level" else int(text.removeprefix("t"), 16)
