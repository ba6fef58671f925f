"""What a target returned for the scale cases: every block maximum at which some profile's scale byte changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.quantize import refuse_tensor, tensor_argument
from mxspec_conformance.observations.selection import kept_lanes
from mxspec_conformance.observations.strays import find_strays
from mxspec_conformance.targets.dtypes import DTYPES, is_representable, preferred_dtype
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Codes, ScaleCase
from mxspec_vectors.tensor_scales import TensorScales


@dataclass(frozen=True, slots=True)
class ObservedScales:
    """The scale bytes of a run of maxima, or why there are none; a case of which some maxima are not offered is two runs."""

    case: ScaleCase
    returned: Codes | NoAnswer


def scale_blocks(case: ScaleCase, k: int) -> npt.NDArray[np.float32]:
    """One block for each maximum: it stands at a moving position with alternating sign, the other lanes are zero."""
    blocks = np.zeros((len(case.amax), k), np.uint32)
    index = np.arange(len(case.amax))
    place = index if case.places is None else np.array(case.places)
    blocks[index, place % k] = case.amax | ((place & 1).astype(np.uint32) << np.uint32(31))
    return blocks.view(np.float32)


def keep_representable(case: ScaleCase, dtype: str) -> ScaleCase | None:
    """The case with those of its maxima that a dtype holds; None if it holds none."""
    kept = np.flatnonzero(is_representable(case.amax.view(np.float32), dtype))
    return case.keep(kept.tolist()) if kept.size else None


def _keep_selected(cases: Sequence[ScaleCase], fmt: str) -> Iterator[ScaleCase]:
    for case in cases:
        lanes = kept_lanes("scale", fmt, case.id, len(case.amax))
        if len(lanes) == len(case.amax):
            yield case
        elif lanes:
            yield case.keep(lanes)


def observe_scales(session: TargetSession, fmt: str, cases: Sequence[ScaleCase]) -> list[ObservedScales]:
    """The scale bytes that the target returns for each case, in float32, or else in its first dtype."""
    block, capabilities = get_block(fmt), session.capabilities
    cases = list(_keep_selected(cases, fmt))
    dtype = preferred_dtype(capabilities.dtypes)
    if dtype != "float32":
        cases = [c for c in (keep_representable(c, dtype) for c in cases) if c is not None]
    results: list[ObservedScales] = []
    groups: dict[TensorScales | None, list[ScaleCase]] = {}
    for case in cases:
        groups.setdefault(case.tensor, []).append(case)
    for tensor, members in groups.items():
        refusal = refuse_tensor("quantize", tensor, capabilities)
        if refusal is not None:
            results += [ObservedScales(c, refusal) for c in members]
            continue
        extra = tensor_argument(tensor, capabilities)

        strays = dict[str, dict[int, NoAnswer]]()

        def call(items: Sequence[ScaleCase], extra: dict[str, Any] = extra, strays: dict[str, dict[int, NoAnswer]] = strays) -> list[Codes]:
            rows = np.concatenate([scale_blocks(c, block.k) for c in items]).astype(DTYPES[dtype])
            _, scales = session.call("quantize", rows, fmt, **extra)
            odd, edges = find_strays(session, rows, fmt, **extra), np.cumsum([0, *(len(c.amax) for c in items)]).tolist()
            strays.update(
                {c.id: {i - e: n for i, n in odd.items() if 0 <= i - e < len(c.amax)} for c, e in zip(items, edges, strict=False)}
            )
            return list(np.split(scales.reshape(-1), edges[1:-1]))

        for case, answer in zip(members, run_bisected(members, call), strict=True):
            if odd := strays.get(case.id, {}):
                results += _leave_out(case, answer, odd)
            elif isinstance(answer, NoAnswer) and answer.is_unsupported:
                results += _ask_maxima(case, answer, call)
            else:
                results.append(ObservedScales(case, answer))
    return results


def _leave_out(case: ScaleCase, answer: Codes, strays: dict[int, NoAnswer]) -> Iterator[ObservedScales]:
    """A case without the maxima whose scales are no numbers of the format, and these, each alone."""
    if kept := [i for i in range(len(case.amax)) if i not in strays]:
        yield ObservedScales(case.keep(kept), answer[kept])
    yield from (ObservedScales(case.keep([i]), reason) for i, reason in strays.items())


def _ask_maxima(case: ScaleCase, refusal: NoAnswer, call: Callable[[Sequence[ScaleCase]], Sequence[Codes]]) -> Iterator[ObservedScales]:
    """A case that is not offered, in parts: one maximum that the target does not take would hide its scales of all others."""
    answers = run_bisected(range(len(case.amax)), lambda lanes: list(call([case.keep(lanes)])[0]))
    offered = [not (isinstance(a, NoAnswer) and a.is_unsupported) for a in answers]
    failure = next((a for a, known in zip(answers, offered, strict=True) if known and isinstance(a, NoAnswer)), None)
    taken, refused = np.flatnonzero(offered).tolist(), np.flatnonzero(~np.array(offered)).tolist()
    if taken:
        part = np.array([answers[lane] for lane in taken]) if failure is None else failure
        yield ObservedScales(case.keep(taken), part)
    if refused:
        yield ObservedScales(case.keep(refused) if taken else case, refusal)
