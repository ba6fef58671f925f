"""Judging `quantize` with block scales that are given: they come back as they are, and elements are those that they scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mxspec.elements import code_dtype
from mxspec.expressions import AMAX, leaves
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.judge.invariance.history import Drawn, Verb, Workload, judge_history
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pools import Flags, Places
from mxspec_conformance.judge.quantize import judge_lanes
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.quantize import WHOLE_BLOCK, Observed, group_rows, tensor_argument
from mxspec_conformance.observations.selection import makes_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import bind_profile

TOPIC = "given-scale"
#: By how many codes the scales that are given differ from the profile's own: equal, then such that elements overflow or get small.
_STEPS = {
    "the profile's own scales": 0,
    "scales one code higher": 1,
    "scales one code lower": -1,
    "scales 4 codes higher": 4,
    "scales 4 codes lower": -4,
}
#: (rows, blocks of a row) of calls that are made for memory and history; tensor scales, and none, under which they are.
WATCHED_SHAPES, WATCHED = ((6, 4), (24, 4)), 3
#: Blocks to a row, and the axis along which they lie; the options that this needs.
_SHAPES: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "a block to a row": (1, -1, ()), "four blocks to a row": (4, -1, ()), "blocks along the first axis": (4, 0, ("axis",)),
}  # fmt: skip


def judge_given_scales(
    session: TargetSession, fmt: BlockFormat, profile: Profile, answered: Sequence[Observed], scorecard: Scorecard
) -> None:
    """Enter the finite rows of the vectors that were answered, under scales at and near the profile's own."""
    capabilities = session.capabilities
    if not capabilities.has("quantize", "scales"):
        return
    watched = 0
    for rows in _list_rows(answered, profile, capabilities.dtypes):
        tensor, dtype = rows[0].case.tensor, rows[0].dtype
        own = np.array([r.case.answers[profile.id][0].scale[0] for r in rows], code_dtype(fmt.scale))
        for (by, step), (shape, (width, axis, needed)) in ((b, s) for b in _STEPS.items() for s in _SHAPES.items()):
            label = f"{by}, {shape}, {dtype}" + (f", tensor maximum {tensor.amax!r}" if tensor else "")
            count, offered = len(rows) // width * width, all(capabilities.has("quantize", option) for option in needed)
            if not (count and offered and makes_call(quick=width == 1 or step == 1)):
                continue
            given = _move(own, step, fmt)[:count]
            answer = _ask(session, fmt, rows[:count], given, width, axis, tensor_argument(tensor, capabilities))
            if isinstance(answer, NoAnswer):
                scorecard.count_no_answer(TOPIC, label, answer)
                continue
            _enter(rows[:count], given, answer, fmt, profile, label, scorecard)
        if fmt.scale.nan_code is not None:
            label, few = f"scales that are NaN, {dtype}" + (f", tensor maximum {tensor.amax!r}" if tensor else ""), rows[:8]
            given = np.full(len(few), fmt.scale.nan_code, code_dtype(fmt.scale))
            answer = _ask(session, fmt, few, given, 1, -1, tensor_argument(tensor, capabilities))
            if not isinstance(answer, NoAnswer):  # a target may refuse them
                _enter(few, given, answer, fmt, profile, label, scorecard)
        watched += dtype == capabilities.dtypes[0]
        if dtype == capabilities.dtypes[0] and watched <= WATCHED:
            _judge_calls(session, fmt, profile, rows, own, scorecard)


def _list_rows(answered: Sequence[Observed], profile: Profile, dtypes: Sequence[str]) -> Iterator[list[Observed]]:
    for dtype in dtypes:
        for tensor, group in group_rows(answered, dtype).items():
            rows = [o for o in group if o.case.topic not in WHOLE_BLOCK and np.isfinite(o.case.x).all() and o.case.answers.get(profile.id)]
            if not rows or (tensor is not None and tensor.is_special):
                continue
            # Where elements are scaled by the block's maximum too, a scale that is given says nothing of them.
            if AMAX.name not in leaves(bind_profile(profile, tensor)[0].scaled):
                yield rows


def _ask(
    session: TargetSession, fmt: BlockFormat, rows: Sequence[Observed], given: Codes, width: int, axis: int, options: dict[str, Any]
) -> tuple[Codes, Codes] | NoAnswer:
    """Codes [n, k] and scales [n]."""
    x = cast_input(np.concatenate([r.case.x for r in rows]), rows[0].dtype).reshape(len(rows) // width, -1)
    scales = given.reshape(len(x), -1)
    if axis == 0:
        x, scales, options = np.ascontiguousarray(x.T), np.ascontiguousarray(scales.T), {**options, "axis": 0}
    answer: Any = run_once(partial(session.call, "quantize", x, fmt.name, scales=scales, **options))
    if isinstance(answer, NoAnswer):
        return answer
    codes, returned = (a.T if axis == 0 else a for a in answer)
    return np.ascontiguousarray(codes).reshape(-1, fmt.k), np.ascontiguousarray(returned).reshape(-1)


def _find_wrong(
    rows: Observed, given: Codes, codes: Codes, scales: Codes, fmt: BlockFormat, profile: Profile
) -> tuple[Flags, Flags, Codes]:
    """Blocks [n] that are wrong, their wrong lanes [n, k], and the codes of the profile; rows: a block to a row."""
    # Judged under the scales that were given, whatever came back.
    (lanes,) = judge_lanes([replace(rows, scales=given[:, None], codes=codes)], fmt, profile, naming=False)
    return lanes.wrong.any(axis=1) | (scales != given), lanes.wrong, lanes.expected


def _stack(rows: Sequence[Observed]) -> Observed:
    """Blocks of one dtype and tensor scale as the rows of one matrix."""
    x = np.concatenate([r.case.x.reshape(1, -1) for r in rows])
    return replace(rows[0], case=replace(rows[0].case, x=x, axis=-1))


def _enter(
    rows: Sequence[Observed], given: Codes, answer: tuple[Codes, Codes], fmt: BlockFormat, profile: Profile, label: str, scorecard: Scorecard
) -> None:  # fmt: skip
    """The call as one case: its first wrong block is shown."""
    codes, scales = answer
    bad, wrong, expected = _find_wrong(_stack(rows), given, codes, scales, fmt, profile)

    def show() -> Failure:
        n = int(np.argmax(bad))
        lane = int(np.argmax(wrong[n]))
        parts = {"scale": f"{given[n]:02x}"}, {"scale": f"{scales[n]:02x}"}
        if wrong[n].any():
            parts[0][f"code {lane}"], parts[1][f"code {lane}"] = f"{expected[n, lane]:02x}", f"{codes[n, lane]:02x}"
        x = {f"lane {i}": describe_bits(float(v)) for i, v in enumerate(rows[n].case.x.reshape(-1)) if v}
        steps = [f"{int(bad.sum())} of {len(rows)} blocks are wrong; this is the first, block {n} of the call"]
        return Failure(
            case=f"{rows[n].label}, {label}", given={"x": x, "scale that is given": f"{given[n]:02x}"}, expected=parts[0], returned=parts[1],
            steps=steps,
        )  # fmt: skip

    scorecard.count(TOPIC, label, ok=not bad.any(), show=show)


def _judge_calls(
    session: TargetSession, fmt: BlockFormat, profile: Profile, rows: Sequence[Observed], own: Codes, scorecard: Scorecard
) -> None:
    """Enter calls of these blocks in every size, and after and together with others, under scales that are not the profile's own."""
    every, options = _stack(rows), tensor_argument(rows[0].case.tensor, session.capabilities)
    x, moved = cast_input(every.case.x, every.dtype), _move(own, 1 + np.arange(len(own)) % 2, fmt)

    def fill(places: Places) -> Drawn:
        flat = places.reshape(-1)
        chosen = replace(every, case=replace(every.case, x=every.case.x[flat]))

        def find_mistake(answer: Any) -> str:
            codes, scales = (np.ascontiguousarray(a) for a in answer)
            bad = _find_wrong(chosen, moved[flat], codes.reshape(-1, fmt.k), scales.reshape(-1), fmt, profile)[0]
            return f"{int(bad.sum())} of {len(bad)} blocks are not scaled by the scales that were given" if bad.any() else ""

        return Drawn((x[flat].reshape(len(places), -1), fmt.name), {**options, "scales": moved[places]}, find_mistake)

    items = Items(width=fmt.k, fill=fill, ordinary=np.arange(len(rows)))
    prefix = "under given scales: " + (f"tensor maximum {every.case.tensor.amax!r}, " if every.case.tensor else "")
    work = Workload(
        session=session, function="quantize", scorecard=scorecard, draw=items.draw,
        sizes={f"{prefix}{rows} x {wide * fmt.k}": (rows, wide) for rows, wide in WATCHED_SHAPES}, memory=TOPIC, state=TOPIC, size=TOPIC,
        prefix=prefix, turn=session.capabilities.formats.index(fmt.name),
    )  # fmt: skip
    judge_items(work, items)
    judge_history(work, set(Verb) - {Verb.OTHERS, Verb.REPEAT})


def _move(scales: Codes, steps: int | Places, fmt: BlockFormat) -> Codes:
    """Scales so many codes on, but the largest, whose reciprocal is subnormal or not by how elements are scaled; and zero, where that is no
    power of two."""
    least = 0 if fmt.scale.is_power_of_two else 1
    moved = np.clip(scales.astype(np.int64) + steps, least, fmt.scale.max_code - 1)
    return np.where(scales == 0, 0, moved).astype(scales.dtype)
