"""The pieces of a proof, as functions that a worker runs: they name their inputs, and return plain data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import ScaleCodes, code_dtype
from mxspec.formats import get_block, get_rows
from mxspec.profiles import get_profile
from mxspec.stepfunctions import StepFunction, digest_bytes, scale_steps
from mxspec_conformance.campaign import call_target
from mxspec_conformance.counterexample.sample_space import LAST_FINITE
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.proving import maxima, values
from mxspec_conformance.proving.answers import PairAnswers, compare_chunk, digest_answers
from mxspec_conformance.proving.lanes import probe_lanes
from mxspec_conformance.proving.pairs import PairSpace, Patterns, as_float32, as_floats
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.build_dequantize import list_scales
from mxspec_vectors.tensor_scales import TensorScales, native_scale

#: Blocks of one call.
CALL_BLOCKS = 1 << 16

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """One target, format, profile, dtype and tensor scale."""

    target: Any
    fmt: str
    profile: str
    #: What the numbers are: `bfloat16`, `float16`, or `float32` for maxima and values.
    dtype: str
    #: float32 bits of the tensor's largest magnitude; None: no tensor scale.
    tensor: int | None
    timeout: float
    in_process: bool = False

    @property
    def name(self) -> str:
        """dtype and tensor, for keys."""
        return f"{self.dtype}/{'one-level' if self.tensor is None else f't{self.tensor:08x}'}"


def tensor_scales(bits: int | None) -> TensorScales | None:
    """The tensor scale of a tensor maximum in its three kinds."""
    return None if bits is None else TensorScales.from_amax(bits)


def pair_space(job: Job) -> PairSpace:
    """The pairs of a job: under a tensor scale, those up to the tensor's own maximum."""
    bound = None if job.tensor is None else float(np.uint32(job.tensor).view(np.float32))
    return PairSpace.below(job.dtype, get_block(job.fmt).k, bound)


def exact_scale_steps(fmt: str, profile: str, tensor: int | None) -> StepFunction:
    """The scale byte of every maximum by the exact model, under the scale of a tensor with this maximum.

    Raises ValueError where the profile's scale is not a function of the maximum alone.
    """
    chosen = get_profile(profile, fmt)
    return scale_steps(chosen, get_block(fmt), native_scale(chosen, tensor_scales(tensor)), exact_model=True)


@lru_cache(maxsize=4)
def _answers(fmt: str, profile: str, dtype: str, tensor: int | None, space: PairSpace) -> PairAnswers:
    return PairAnswers(get_rows(fmt), get_profile(profile, fmt), space, tensor_scales(tensor))


def pair_answers(job: Job) -> PairAnswers:
    """The profile's tables for a job."""
    return _answers(job.fmt, job.profile, job.dtype, job.tensor, pair_space(job))


def run_piece(piece: Callable[..., Result], job: Job, *arguments: Any) -> Result:
    """One piece of a job, on its target; where a call had no answer, why."""
    session = call_target(job.target, job.timeout, in_process=job.in_process)
    try:
        return piece(session, job, *arguments)
    except CallError as failure:
        return {"no_answer": {"kind": failure.kind, "message": str(failure), "detail": failure.detail[-500:]}}


def _extra(session: TargetSession, tensor: int | None) -> dict[str, Any]:
    return dict(tensor_argument(tensor_scales(tensor), session.capabilities))


def ask_patterns(session: TargetSession, job: Job, patterns: Patterns, *before: str, width: int = 1, axis: int = -1) -> tuple[Any, Any]:
    """Scales [n] and codes [n, k] of blocks of patterns; passed as float32 where the target does not take the dtype.

    before: an arrangement in memory; width: blocks of a line; axis: along which lines lie, the last or the first.
    """
    extra = _extra(session, job.tensor)
    convert = as_floats if job.dtype in session.capabilities.dtypes else as_float32
    lines = convert(patterns, job.dtype).reshape(-1, width * patterns.shape[1])
    if axis == 0:
        codes, scales = session.call(*before, "quantize", np.ascontiguousarray(lines.T), job.fmt, axis=0, **extra)
        codes, scales = np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)
    else:
        codes, scales = session.call(*before, "quantize", lines, job.fmt, **extra)
    return scales.reshape(-1), codes.reshape(patterns.shape)


def prove_lanes(session: TargetSession, job: Job, seed: int) -> Result:
    """Whether the lanes are independent, as far as it was tried."""
    return asdict(probe_lanes(session.capabilities, pair_answers(job), partial(ask_patterns, session, job), seed))


def prove_pairs(session: TargetSession, job: Job, first: int, last: int) -> Result:
    """All elements of the maxima from first to last."""
    answers = pair_answers(job)
    patterns = answers.space.inputs(first, last)
    scales, codes = np.empty(len(patterns), code_dtype(answers.fmt.scale)), np.empty(patterns.shape, np.uint8)
    started = time.perf_counter()
    for start in range(0, len(patterns), CALL_BLOCKS):
        part = slice(start, start + CALL_BLOCKS)
        scales[part], codes[part] = ask_patterns(session, job, patterns[part])
    seconds = time.perf_counter() - started
    return {
        "elements": answers.space.elements(first, last), "digest": digest_answers(scales, codes),
        "wrong": compare_chunk(answers, first, last, patterns, scales, codes), "target_seconds": round(seconds, 3),
    }  # fmt: skip


def _ask_maxima(session: TargetSession, job: Job, bits: npt.NDArray[np.uint32]) -> ScaleCodes:
    k, extra = get_block(job.fmt).k, _extra(session, job.tensor)
    scales = np.empty(len(bits), code_dtype(get_block(job.fmt).scale))
    for start in range(0, len(bits), CALL_BLOCKS):
        part = slice(start, start + CALL_BLOCKS)
        scales[part] = session.call("quantize", maxima.maxima_blocks(bits[part], k), job.fmt, **extra)[1][:, 0]
    return scales


def largest_maximum(tensor: int | None) -> int:
    """float32 bits of the largest maximum that is tested, under the scale of a tensor with this maximum."""
    return LAST_FINITE if tensor is None else min(tensor, LAST_FINITE)


def _compare_maxima(expected: Any, scales: Any, bits: npt.NDArray[np.uint32]) -> Any:
    wrong = expected != scales
    if not wrong.any():
        return None
    return {"scale": {"count": int(wrong.sum()), "first": f"{int(bits[np.argmax(wrong)]):08x}"}}


def prove_thresholds(session: TargetSession, job: Job, seed: int) -> Result:
    """The scales of float32 maxima on both sides of every change, and of some between."""
    steps = exact_scale_steps(job.fmt, job.profile, job.tensor)
    bits = maxima.threshold_maxima(steps, largest_maximum(job.tensor), seed)
    scales = _ask_maxima(session, job, bits)
    return {"maxima": len(bits), "changes": len(steps.starts), "wrong": _compare_maxima(steps.at(bits), scales, bits)}


def prove_maxima(session: TargetSession, job: Job, chunk: int) -> Result:
    """The scales of one chunk of 2**24 float32 maxima."""
    steps = exact_scale_steps(job.fmt, job.profile, job.tensor)
    first = max(chunk << maxima.CHUNK_BITS, 1)
    last = min((chunk + 1 << maxima.CHUNK_BITS) - 1, largest_maximum(job.tensor))
    bits = np.arange(first, last + 1, dtype=np.uint32)
    scales = _ask_maxima(session, job, bits)
    wrong = _compare_maxima(steps.expand(first, last + 1), scales, bits)
    return {"maxima": len(bits), "digest": digest_bytes(scales.data), "wrong": wrong}


def prove_values(session: TargetSession, job: Job) -> Result:
    """Every code under every scale byte, of float32 scales under those of `list_scales`."""
    fmt, profile = get_rows(job.fmt), get_profile(job.profile, job.fmt)
    extra, tensor = _extra(session, job.tensor), tensor_scales(job.tensor)
    total: Result = {}
    compared = 0
    every = list_scales(fmt.scale)
    for byte in every:
        codes, scales = values.value_blocks(fmt, byte)
        got = session.call("dequantize", codes, scales, fmt.name, **extra)
        compared += got.size
        for kind, entry in values.compare_values(fmt, profile, tensor, codes, scales, got).items():
            known = total.setdefault(kind, {"count": 0, "first": entry["first"]})
            known["count"] += entry["count"]
    return {"values": compared, "bytes": len(every), "wrong": total or None}
