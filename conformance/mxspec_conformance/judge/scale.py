"""Judging the scale rule alone: every block maximum at which some profile's scale byte changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan_codes
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.counterexample.failure import describe_bits, describe_case, explain_scale, make_snippet
from mxspec_conformance.judge.explanation import by_profile
from mxspec_conformance.judge.quantize import LOW_END
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.scale import ObservedScales, scale_blocks
from mxspec_conformance.results.report import Failure
from mxspec_vectors.cases import Codes, QuantizeCase, ScaleCase
from mxspec_vectors.tensor_scales import TensorScales


def judge_scales(
    results: Sequence[ObservedScales], fmt: BlockFormat, profile: Profile, scorecard: Scorecard, *, naming: bool = True
) -> None:
    """Enter every maximum into the scorecard of a profile; naming: look for other profiles that give a wrong byte."""
    for item in results:
        case, returned = item.case, item.returned
        expected = case.answers.get(profile.id)
        if expected is None:
            continue
        if isinstance(returned, NoAnswer):
            name = case.label(0) if returned.topic else case.id
            scorecard.count_no_answer(case.topic, name, returned, given=partial(_describe, case, fmt))
            continue
        low = _flag_low_end(returned, expected, fmt, profile)
        for i, ok in enumerate(returned == expected):
            show = None if ok else partial(_show, case, i, int(expected[i]), int(returned[i]), fmt, profile)
            if low[i]:
                scorecard.count(LOW_END, case.label(i), ok=False, show=show)
                continue
            names = () if ok or not naming else (n for n, a in case.answers.items() if a[i] == returned[i])
            scorecard.count(case.topic, case.label(i), ok=bool(ok), equals=map(by_profile, names), show=show)


def _describe(case: ScaleCase, fmt: BlockFormat) -> dict[str, Any]:
    """The first block of a run of maxima."""
    return describe_case(QuantizeCase(id=case.id, topic=case.topic, x=scale_blocks(case, fmt.k)[:1], tensor=case.tensor), "float32")


def _show(case: ScaleCase, i: int, expected: int, returned: int, fmt: BlockFormat, profile: Profile) -> Failure:
    """One maximum whose scale byte is another."""
    x = scale_blocks(case.keep([i]), fmt.k)
    lane = int(np.flatnonzero(x[0])[0]) if x.any() else 0
    one = QuantizeCase(id=case.label(i), topic=case.topic, x=x, tensor=case.tensor)
    steps = explain_scale(one, fmt, profile, returned)
    return Failure(
        case=case.label(i),
        given={
            "x": {f"lane {lane}": describe_bits(float(x[0, lane]))}, "other lanes": "+0",
            **({} if case.tensor is None else {"tensor scale": case.tensor.as_dict()}),
        },
        expected={"scale": f"{expected:02x}", "codes": {}}, returned={"scale": f"{returned:02x}", "codes": {}},
        steps=steps, snippet=make_snippet(one, fmt, profile, expected),
    )  # fmt: skip


def _flag_low_end(returned: Codes, expected: Codes, fmt: BlockFormat, profile: Profile) -> npt.NDArray[np.bool_]:
    """Where the smallest scale is wanted and the next one was returned, which OCP leaves open."""
    if profile.kind is not Kind.NORMATIVE or not fmt.is_mx:
        return np.zeros(len(returned), bool)
    low: npt.NDArray[np.bool_] = (expected == 0) & (returned == 1)
    return low


def count_wrong_scales(results: Sequence[ObservedScales], profile: str) -> int:
    """Maxima whose scale byte is not the profile's."""
    total = 0
    for item in results:
        expected = item.case.answers.get(profile)
        if expected is None:
            continue
        if not isinstance(item.returned, NoAnswer):
            total += int((item.returned != expected).sum())
        elif not item.returned.is_unsupported:
            total += len(item.case.amax)
    return total


def count_supported(results: Sequence[ObservedScales]) -> int:
    """Maxima that the target offers to answer."""
    return sum(len(item.case.amax) for item in results if not (isinstance(item.returned, NoAnswer) and item.returned.is_unsupported))


def weigh_wrong_scales(results: Sequence[ObservedScales], profile: str, *, silence_is_wrong: bool = False) -> int:
    """How many maxima get another scale byte than the profile's, those between two adjacent ones of a binade included.

    What lies between a wrong maximum and a right one, or another binade's, counts as right: where few are tried, the float below a power
    of two, at which a float32 log2 is wrong, would else stand for a binade.
    silence_is_wrong: whether maxima count of which the profile says nothing.
    """
    total = 0
    groups: dict[TensorScales | None, list[tuple[ScaleCase, npt.NDArray[np.bool_]]]] = {}
    for item in results:
        case, returned = item.case, item.returned
        if isinstance(returned, NoAnswer):
            continue
        expected = case.answers.get(profile)
        if expected is not None:
            groups.setdefault(case.tensor, []).append((case, returned != expected))
        elif silence_is_wrong:
            groups.setdefault(case.tensor, []).append((case, np.ones(returned.shape, bool)))
    for members in groups.values():
        bits, place = np.unique(np.concatenate([c.amax for c, _ in members]).astype(np.int64), return_inverse=True)
        wrong = np.zeros(len(bits), bool)
        wrong[place[np.concatenate([w for _, w in members])]] = True
        both = wrong[1:] & wrong[:-1] & (bits[1:] >> 23 == bits[:-1] >> 23)
        total += int(wrong.sum()) + int((np.diff(bits) - 1)[both].sum())
    return total


def scales_identical(results: Sequence[ObservedScales], fmt: BlockFormat, profile: Profile) -> bool:
    """Whether every scale byte returned is the profile's; where it leaves NaN blocks open, any NaN for a NaN."""
    for item in results:
        case, returned = item.case, item.returned
        if profile.id not in case.answers:
            continue
        if isinstance(returned, NoAnswer):
            if not returned.is_unsupported:
                return False
            continue
        expected = case.answers[profile.id]
        same = returned == expected
        if profile.unspecified_nan_block_codes:
            same |= flag_nan_codes(returned, fmt.scale) & flag_nan_codes(expected, fmt.scale)
        if not same.all():
            return False
    return True
