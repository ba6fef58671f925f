"""Block formats in a campaign: its jobs, and the verdict on their batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mxspec.formats import BLOCKS as FORMATS, BlockFormat, get_rows
from mxspec.profiles import find_variant, get_profile
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.campaign import Named
from mxspec_conformance.campaign.profile import find_profile, nearest_profile
from mxspec_conformance.campaign.verdicts import judge_count
from mxspec_conformance.counterexample.mismatch import Mismatch
from mxspec_conformance.fuzzing.blocks.batch import ask_batch
from mxspec_conformance.fuzzing.blocks.coverage import BlockCoverage, Reach, count_scale_places
from mxspec_conformance.fuzzing.blocks.files import make_files, replay_cases
from mxspec_conformance.fuzzing.blocks.findings import BlockFinding, Sighting, reduce_mismatches
from mxspec_conformance.fuzzing.blocks.job import BlockJob
from mxspec_conformance.fuzzing.blocks.no_answers import reduce_no_answer
from mxspec_conformance.fuzzing.subject import Campaign, Coverage, Reduced, Request, Result, Subject, add_up, count_findings, judge_answers
from mxspec_conformance.judge.choosing import require_formats
from mxspec_conformance.results.report import Failure, FormatResult, Requirement
from mxspec_vectors.entries import has_level
from mxspec_vectors.points import TENSOR_AMAXES
from mxspec_vectors.topics import Level, bind_level

#: Tensor maxima under which nvfp4 is fuzzed.
TENSORS = ("unit", "odd", "thousandth", "large")
#: Mismatches that are kept of a campaign.
MAX_SIGHTINGS = 4000
#: Numbers of a batch that are added up.
_COUNTED = ("blocks", "elements", "calls", "failing")

#: What a target has to offer.
_NEEDED = "it needs quantize, dequantize, matmul, or a function of affine integers or of sparse operands"

_TEXTS = {
    "scale": (Level.SHOULD, "scales are the profile's"),
    "element": (Level.MUST, "elements are the profile's under the scale returned"),
    "zero-sign": (Level.OPEN, "the sign of zero is the profile's"),
    "special": (Level.OPEN, "blocks with NaN, infinities or zeros are stored as the profile says, or as OCP leaves open"),
    "calls": (Level.CONTRACT, "an answer does not depend on the call: its size, place, memory and number"),
    "memory": (Level.CONTRACT, "a call leaves its inputs and earlier answers alone"),
    "value": (Level.MUST, "dequantized values are the profile's"),
    "value-zero-sign": (Level.OPEN, "the sign of a dequantized zero is the profile's"),
}


def plan_formats(request: Request, *, optional: bool) -> tuple[list[FormatResult], list[BlockJob]]:
    """The jobs of quantizers, and a result for each of their formats.

    optional: whether there are products or operations, so that there need be no quantizer.
    Raises ValueError for a format or a profile that does not fit, and where nothing can be fuzzed.
    """
    settings, capabilities = request.settings, request.session.capabilities
    if settings.products or settings.operations:
        return [], []
    require_formats(capabilities, settings.formats)
    wanted = settings.formats or tuple(f for f in FORMATS if f in capabilities.formats)
    planned: list[BlockJob] = []
    formats: list[FormatResult] = []
    lost: list[str] = []
    for name in wanted:
        if optional and name not in capabilities.formats:
            continue
        request.progress(f"{name}: which profile is nearest")
        fmt = get_rows(name)
        try:
            profile, distance, compared = (
                nearest_profile(request.session, fmt) if settings.profile is None else (find_profile(settings.profile, fmt), 0, 0)
            )
        except ValueError as error:
            if settings.profile is not None:
                raise
            lost.append(f"{name}: {error}")
            continue
        mine = _plan_format(request, fmt, profile)
        planned += mine
        decodes = {j.decodes for j in mine}
        formats.append(
            FormatResult(
                format=name, judged_against=profile.id, chosen="asked" if settings.profile else "nearest",
                provisional=profile.provisional, distance=distance, cases=compared,
                operations=["quantize"] * (False in decodes) + ["dequantize"] * (True in decodes),
            )
        )  # fmt: skip
    if planned or optional:
        return formats, planned
    if capabilities.repeats or capabilities.has("dequantize"):
        found = ", ".join(lost + [f"{f.format}: {f.judged_against}" for f in formats])
        raise ValueError(
            f"{capabilities.name} has nothing that can be fuzzed: the profiles found ({found}) do not fit its dtypes or tensor "
            "scale; if it answers no call, `mxspec check` says why, else pass --profile"
        )
    why = "its quantize rounds stochastically" if capabilities.has("quantize") else _NEEDED
    raise ValueError(f"{capabilities.name} has nothing that can be fuzzed: {why}")


def _plan_format(request: Request, fmt: BlockFormat, profile: Profile) -> list[BlockJob]:
    capabilities = request.session.capabilities
    planned: list[BlockJob] = []

    def takes(function: str, tensor: int | None) -> bool:
        offered = capabilities.repeats if function == "quantize" else capabilities.has(function)
        if not offered or not has_level(profile, two_level=tensor is not None):
            return False
        return capabilities.one_level if tensor is None else capabilities.has(function, "tensor_scale")

    def plan(own: Profile, tensor: int | None, dtype: str) -> None:
        planned.append(BlockJob(fmt=fmt.name, profile=own.id, tensor=tensor, dtype=dtype, **request.common))

    for tensor in [None, *(TENSOR_AMAXES[t] for t in TENSORS if fmt.has_tensor_scale)]:
        for dtype in capabilities.dtypes if takes("quantize", tensor) else ():
            own = find_variant(profile, dtype)
            if own is not None and has_level(own, two_level=tensor is not None):
                plan(own, tensor, dtype)
        if takes("dequantize", tensor):
            plan(profile, tensor, "codes")
    return planned


def conclude(request: Request, jobs: Sequence[BlockJob], batches: Sequence[tuple[BlockJob, int, Result]], campaign: Campaign) -> None:
    """Every batch added up, each cause reduced to its smallest block."""
    totals: dict[str, Result] = {}
    mismatches: list[Sighting] = []
    for job, _, result in batches:
        empty = {**dict.fromkeys(("batches", *_COUNTED), 0), "relations": {}, "no_answers": {}, "memory": {}}
        total = totals.setdefault(job.fmt, empty)
        add_up(total, result, *_COUNTED)
        for name in ("compared", "broken"):
            for relation, number in result["relations"][name].items():
                total["relations"].setdefault(relation, {"compared": 0, "broken": 0})[name] += number
        total["memory"] |= result["memory"]
        label = f"{job.fmt} {job.dtype}" if job.decodes else job.fmt
        campaign.coverage.setdefault(label, _empty_coverage(job)).merge(result["coverage"])
        if len(mismatches) < MAX_SIGHTINGS:
            mismatches += [(job, Mismatch.from_dict(s)) for s in result["mismatches"]]
    # A file is reloaded in this process; a module or library only in a new one.
    restart = partial(request.spec.open, request.timeout) if isinstance(request.spec, Named) else None
    reduced = reduce_mismatches(mismatches, request.session, restart, request.progress)
    by_name = {j.name: j for j in jobs}
    no_answers: dict[str, Failure] = {}
    for fmt, total in totals.items():
        for text, no_answer in list(total["no_answers"].items())[:3]:
            request.progress(f"reducing: {text[:40]}")
            drawn = reduce_no_answer(by_name[no_answer["job"]], no_answer, request.session)
            if drawn is not None:
                no_answers.setdefault(fmt, drawn)
    report = campaign.report
    for described in report.formats:
        total, fmt = totals.get(described.format, {}), described.format
        if total:
            report.requirements += _list_requirements(described, total, reduced)
            report.requirements.append(judge_answers(fmt, total["blocks"], total["no_answers"], no_answers.get(fmt)))
    campaign.findings = reduced.findings
    report.details |= {
        "totals": totals, "coverage": {name: c.counts() for name, c in campaign.coverage.items()},
        "findings": [f.describe(profile=f.job.profile) for f in reduced.findings], "not_seen_again": reduced.lost_words[:20], "not_reduced": reduced.left,
    }  # fmt: skip


def _empty_coverage(job: BlockJob) -> Coverage:
    fmt = job.block_format
    if job.decodes:
        return Coverage.of_sizes({Reach.CODES_UNDER_SCALES: count_scale_places(fmt.scale) << fmt.element.bits})
    return BlockCoverage.empty(job.space)


def _list_requirements(result: FormatResult, total: Result, reduced: Reduced) -> list[Requirement]:
    quantizes, dequantizes = "quantize" in result.operations, "dequantize" in result.operations
    topics = (
        *(("scale", "element", "zero-sign", "special", "calls", "memory") if quantizes else ("calls",)),
        *(("value", "value-zero-sign") if dequantizes else ()),
    )  # fmt: skip
    described = get_profile(result.judged_against, result.format).kind is not Kind.NORMATIVE
    requirements = []
    for topic in topics:
        level, text = _TEXTS[topic]
        own = [f for f in reduced.findings if f.job.fmt == result.format and f.topic == topic]
        count = count_findings(own, total["blocks"], reduced.left_topics[result.format, topic])
        if topic == "memory" and total["memory"]:
            count.failing, count.note = len(total["memory"]), "; ".join(total["memory"].values())[:400]
        if topic == "calls" and not own and reduced.lost:
            count.failing = reduced.lost
            count.note = f"{reduced.lost} wrong answers did not come again when the same call was repeated: they depend on chance, or on earlier calls"
        level = bind_level(level, result.format, described=described)
        requirements.append(judge_count(f"fuzz/{result.format}/{topic}", level, text, count))
    return requirements


BLOCKS = Subject(
    job=BlockJob, finding=BlockFinding, ask=ask_batch, conclude=conclude, write=make_files, owns=lambda _: True, replay=replay_cases
)
