"""Judging blocks that are generated here from the profile: they are entered in addition to the vectors, of which none is one of them.

What is legal for them is computed, by the same sets of legal answers that the vectors were built with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import legal_rows
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.counterexample.failure import describe_case
from mxspec_conformance.judge.made_blocks import list_made
from mxspec_conformance.judge.quantize import as_answer, judge_all
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.quantize import Observed, group_rows, tensor_argument
from mxspec_conformance.observations.strays import find_strays
from mxspec_conformance.targets.dtypes import cast_input, is_representable
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Answer, Codes, QuantizeCase
from mxspec_vectors.tensor_scales import TensorScales, native_scale

#: Tensor scales, for each dtype, under which blocks are made: those of the most cases.
TENSORS = 1
#: Where a block that is right is counted.
TOPIC = "mixture"


@dataclass(frozen=True, slots=True)
class Judged:
    """A format, the profile by which it is judged, and all that may be named where bits are wrong."""

    fmt: BlockFormat
    profile: Profile
    others: Sequence[Profile]
    naming: bool


def judge_made(session: TargetSession, judged: Judged, seen: Sequence[Observed], scorecard: Scorecard) -> list[Observed]:
    """Ask and enter the blocks in every dtype and tensor scale in which others were answered; returns those that were not canonical."""
    found = []
    for dtype in session.capabilities.dtypes:
        groups = group_rows(seen, dtype)
        ordinary = [t for t in groups if t is not None and not t.is_special]
        tensors = sorted(ordinary, key=lambda t: (-len(groups[t]), t.amax))[:TENSORS]
        for tensor in ([None] if None in groups else []) + tensors:
            found += _judge_group(session, judged, dtype, tensor, scorecard)
    return found


def gives_made(session: TargetSession, fmt: BlockFormat, profile: Profile, seen: Sequence[Observed]) -> bool:
    """Whether no such block contradicts a profile."""
    scorecard = Scorecard("quantize", fmt.name)
    judge_made(session, Judged(fmt, profile, (), naming=False), seen, scorecard)
    return not any(tally.failing for tally in scorecard.tallies.values())


def _judge_group(session: TargetSession, judged: Judged, dtype: str, tensor: TensorScales | None, scorecard: Scorecard) -> list[Observed]:
    fmt, place = judged.fmt, "" if tensor is None else f"{tensor.amax:08x}/"
    cases = [QuantizeCase(f"made/{place}{name}", TOPIC, x[None], tensor=tensor) for name, x in list_made(fmt.name, dtype, tensor)]
    expected = _answer_all(cases, fmt, judged.profile) if cases else None
    if expected is None:  # the profile says nothing of them
        return []

    def call(items: Sequence[QuantizeCase]) -> list[Any]:
        x, extra = cast_input(np.concatenate([c.x for c in items]), dtype), tensor_argument(tensor, session.capabilities)
        codes, scales = session.call("quantize", x, fmt.name, **extra)
        strays = find_strays(session, x, fmt.name, **extra)
        return [strays.get(i, (scales[i : i + 1], codes[i : i + 1])) for i in range(len(items))]

    others = []
    for i, (case, answer) in enumerate(zip(cases, run_bisected(cases, call), strict=True)):
        if isinstance(answer, NoAnswer):
            one = Observed(case, dtype, np.zeros((1, 1), np.uint8), np.zeros((1, fmt.k), np.uint8))
            scorecard.count_no_answer(TOPIC, one.label, answer, given=partial(describe_case, case, dtype))
            continue
        item = Observed(case, dtype, *answer)
        same = int(item.scales[0, 0]) == int(expected[0][i]) and np.array_equal(item.codes[0], expected[1][i])
        if same:
            scorecard.count(TOPIC, item.label, ok=True)
        else:
            others.append(item)
    if others:
        others = _add_answers(others, judged)
        judge_all(others, fmt, judged.profile, scorecard, naming=judged.naming)
    return others


def _answer_all(cases: Sequence[QuantizeCase], fmt: BlockFormat, profile: Profile) -> tuple[Codes, Codes] | None:
    """Scales [n] and codes [n, k] by a profile; None where it says nothing of such blocks."""
    x, tensor = np.concatenate([c.x for c in cases]), cases[0].tensor
    try:
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native_scale(profile, tensor))
    except ValueError:
        return None
    return t.scales.reshape(-1), t.codes


def _add_answers(seen: Sequence[Observed], judged: Judged) -> list[Observed]:
    """The same with what every profile finds legal, as the vectors have it."""
    cases, fmt = [item.case for item in seen], judged.fmt
    answers: list[dict[str, tuple[Answer, ...]]] = [{} for _ in cases]
    for profile in dict.fromkeys((judged.profile, *(judged.others if judged.naming else ()))):
        expected = _answer_all(cases, fmt, profile)
        if expected is None:
            continue
        for i in _list_spoken_of(cases, profile):
            rows = legal_rows(cases[i].x[0], fmt, profile, int(expected[0][i]), expected[1][i])
            answers[i][profile.id] = tuple(as_answer(row, fmt) for row in rows)
    return [replace(item, case=replace(item.case, answers=a)) for item, a in zip(seen, answers, strict=True)]


def _list_spoken_of(cases: Sequence[QuantizeCase], profile: Profile) -> list[int]:
    """Of which cases a profile speaks: those of 16-bit code paths only of what the dtype holds."""
    if "float32" in profile.dtypes:
        return list(range(len(cases)))
    held: list[npt.NDArray[np.bool_]] = [
        np.concatenate([is_representable(c.x, dtype).all(axis=1) for c in cases]) for dtype in profile.dtypes
    ]
    return np.flatnonzero(np.any(held, axis=0)).tolist()
