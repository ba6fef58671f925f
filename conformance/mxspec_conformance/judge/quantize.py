"""Judging `quantize`: is a block legal, are its elements right given its scale, is its scale right given the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import LegalRow, flag_nan, flag_nan_codes, fold_zeros, is_lowest_allowed, legal_rows
from mxspec.elements import code_dtype
from mxspec.elements_given_scale import LaneClass, classify_lanes, encode_given_scale
from mxspec.formats import BlockFormat, ScalarFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.explanation import ROUNDING_TEXT, Cause, Explanation, by_profiles
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.answers import answer_matches, equal_profiles, matching_profiles
from mxspec_conformance.observations.quantize import WHOLE_BLOCK, Observed
from mxspec_vectors.cases import Answer, Codes, QuantizeCase
from mxspec_vectors.points import INF
from mxspec_vectors.tensor_scales import bind_profile, native_scale

#: Topics that keep wrong scales to themselves; others report them under the format's scale topic.
OWN_SCALE = ("scale-boundary", "scale-clamp", "scale-tie", "tensor-scale", "position", "axis", "tail")
#: Topics that keep wrong ordinary lanes to themselves.
OWN_LANES = ("position", "mixture", "axis", "tail")

_LANE_TOPICS = {
    LaneClass.TIE: "tie-even",
    LaneClass.BELOW_TIE: "below-tie",
    LaneClass.ABOVE_TIE: "above-tie",
    LaneClass.OVERFLOW: "overflow",
    LaneClass.SUBNORMAL: "subnormal",
    LaneClass.EXACT: "exact",
}
#: Lanes whose code is a matter of rounding.
ORDINARY_LANES = frozenset(LaneClass) - {LaneClass.SPECIAL, LaneClass.OVERFLOW}


def default_scale_topic(fmt: BlockFormat) -> str:
    """Where a wrong scale is reported when the case is about something else."""
    return "scale-tie" if fmt.has_tensor_scale else "scale-boundary"


def as_blocks(case: QuantizeCase, fmt: BlockFormat, array: npt.NDArray[Any], *, divided: bool) -> npt.NDArray[Any]:
    """A tensor in the case's axis order as blocks [n, k], or (divided) its scales as [n]."""
    axis = case.axis % array.ndim
    moved = np.moveaxis(array, axis, -1)
    return np.ascontiguousarray(moved).reshape(-1) if divided else np.ascontiguousarray(moved).reshape(-1, fmt.k)


def padded_input(case: QuantizeCase, fmt: BlockFormat, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The input with the zeros that padding adds."""
    if case.x.shape == shape:
        return case.x
    return np.pad(case.x, [(0, n - m) for n, m in zip(shape, case.x.shape, strict=True)])


def judge_all(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile, scorecard: Scorecard, *, naming: bool = True) -> None:
    """Enter all returned tensors into the scorecard of a profile; naming: look for what else would return the wrong bits."""
    groups: dict[Any, list[Observed]] = {}
    for number, item in enumerate(seen):
        answers = item.case.answers.get(profile.id)
        if answers is None or _is_whole(item.case):
            continue
        if naming or not _is_canonical(item, answers[0], fmt):
            groups.setdefault(item.case.tensor if item.case.is_row else number, []).append(item)
    lanes: dict[int, _Lanes] = {}
    for members in groups.values():
        lanes |= {id(m): part for m, part in zip(members, judge_lanes(members, fmt, profile, naming), strict=True)}
    for item in seen:
        judge_observed(item, fmt, profile, scorecard, lanes.get(id(item)), naming=naming)


def _is_canonical(seen: Observed, answer: Answer, fmt: BlockFormat) -> bool:
    """Whether every bit is the canonical answer's, which passes."""
    return answer_matches(answer.compare_every_bit(), seen.scales, seen.codes, fmt.element, signs=True)


def _is_whole(case: QuantizeCase) -> bool:
    """Whether the case is compared with the legal answers as a whole."""
    return case.topic in WHOLE_BLOCK or (case.tensor is not None and case.tensor.is_special)


def judge_observed(
    seen: Observed, fmt: BlockFormat, profile: Profile, scorecard: Scorecard, lanes: _Lanes | None = None, *,
    naming: bool = True,
) -> None:  # fmt: skip
    """Enter one returned tensor into the scorecard of a profile; naming: look for what else would return the wrong bits.

    lanes: what was found of its lanes together with other tensors.
    """
    case = seen.case
    legal = case.answers.get(profile.id)
    if legal is None:
        return
    if (seen.codes >= fmt.element.code_count).any():  # bits beyond the format's width: no answer, whatever the block
        scorecard.count("mixture", seen.label, origin=case.id, ok=False)
        return
    if not naming and _is_canonical(seen, legal[0], fmt):
        scorecard.count(case.topic, seen.label, origin=case.id, ok=True)
        return
    strict = case.topic in ("zero-sign", "zero-block")
    # Zeros of another topic, such as those of a tensor of zeros: another scale of theirs is as open.
    moved = not (case.x.view(np.uint32) << np.uint32(1)).any() and bool((seen.scales.reshape(-1) != legal[0].scale).any())
    if (case.topic == "zero-block" or moved) and _is_open_zero(seen, fmt, profile, legal[0]):
        scorecard.count(case.topic, seen.label, origin=case.id, ok=True)
        return
    matched = any(answer_matches(a, seen.scales, seen.codes, fmt.element, signs=strict) for a in legal)
    if _is_whole(case):
        topic = case.topic if case.topic in WHOLE_BLOCK else _special_topic(case)
        unsigned = any(answer_matches(a, seen.scales, seen.codes, fmt.element, signs=False) for a in legal)
        if unsigned and not matched:
            scorecard.count("zero-sign", seen.label, origin=case.id, ok=False, equals=by_profiles(equal_profiles(seen, fmt, signs=True)))
        equals = frozenset() if unsigned else by_profiles(equal_profiles(seen, fmt, signs=False))
        milder = (topic == "nan" and _keeps_nan(seen, fmt)) or (topic == "zero-block" and _stays_zero(seen, fmt))
        scorecard.count(topic, seen.label, origin=case.id, ok=unsigned, equals=equals, milder=milder)
        return
    canonical = legal[0]
    scales = seen.scales.reshape(-1)
    scale_ok = scales == canonical.scale
    equals = frozenset[Explanation]() if (matched and not strict) or not naming else by_profiles(equal_profiles(seen, fmt, signs=strict))
    scale_topic = case.topic if case.topic in OWN_SCALE else default_scale_topic(fmt)
    if profile.kind is Kind.NORMATIVE and fmt.is_mx and (canonical.scale == 0).all():
        scale_topic = _judge_low_end(seen, fmt, scale_topic, scorecard)
        if scale_topic == LOW_END and not fold_zeros(fmt.element)[seen.codes].any():
            return
        scale_ok = scale_ok | (scale_topic == LOW_END)
    scorecard.count(scale_topic, seen.label, origin=case.id, ok=bool(scale_ok.all()), equals=equals)
    _enter_lanes(seen, fmt, scorecard, equals, lanes or judge_lanes([seen], fmt, profile, naming)[0])


def _keeps_nan(seen: Observed, fmt: BlockFormat) -> bool:
    """Whether every NaN is one still: what may be wrong is the scale, and what became of the other lanes."""
    lost = ~flag_nan(fmt.element)[seen.codes[np.isnan(seen.case.x)]]
    return not lost.any() or bool(flag_nan_codes(seen.scales, fmt.scale).all())


def _special_topic(case: QuantizeCase) -> str:
    """The topic of an ordinary block under the tensor scale of a tensor with NaN or Inf."""
    assert case.tensor is not None
    return "nan" if case.tensor.amax > INF else "inf"


def _is_open_zero(seen: Observed, fmt: BlockFormat, profile: Profile, due: Answer) -> bool:
    """A block of zeros may have any scale that is a number; for MX blocks the vectors list it, for NVFP4 no text does.

    Under float32 scales a library may make it NaN, by 0 / 0: zeros are right all the same.
    """
    divided = fmt.scale.bits > 8 and bool(flag_nan(fmt.element)[due.codes].all())
    return (divided or (profile.kind is Kind.NORMATIVE and fmt.has_tensor_scale)) and _stays_zero(seen, fmt)


def _stays_zero(seen: Observed, fmt: BlockFormat) -> bool:
    """Whether all elements are zeros, and scales numbers."""
    return not (fold_zeros(fmt.element)[seen.codes].any() or flag_nan_codes(seen.scales, fmt.scale).any())


#: The topic of blocks whose scale lies at the lower end of the range, or below.
LOW_END = "low-end"


def _judge_low_end(seen: Observed, fmt: BlockFormat, topic: str, scorecard: Scorecard) -> str:
    """The topic of the scale of a block that the rule puts at 2^-127, or below: OCP says nothing of what becomes of it.

    Implementations take the next scale, which is a normal float32, or give zeros.
    """
    case, scales = seen.case, seen.scales.reshape(-1)
    flushed = not fold_zeros(fmt.element)[seen.codes].any() and not flag_nan_codes(scales, fmt.scale).any()
    moved = bool((scales == 1).all())
    lost = flushed and not _underflows(seen, fmt)
    if not (moved or lost):
        return topic
    scorecard.count(LOW_END, seen.label, origin=case.id, ok=False)
    return LOW_END


def _underflows(seen: Observed, fmt: BlockFormat) -> bool:
    """Whether zeros are the right codes under the smallest scale."""
    smallest = float(fmt.element.magnitude(1)) * 2.0**-127
    return bool(np.abs(seen.case.x.astype(np.float64)).max() <= smallest / 2)


def as_answer(row: LegalRow, fmt: BlockFormat) -> Answer:
    """A legal answer for one block, as the vectors have it."""
    return Answer(
        scale=np.array([row.scale], code_dtype(fmt.scale)), scale_max=np.array([row.scale_max], code_dtype(fmt.scale)),
        codes=np.array(row.codes, np.uint8), mask=np.array(row.mask, np.uint8), nan_lanes=row.nan_lanes,
    )  # fmt: skip


def fails_topic(seen: Observed, topic: str, fmt: BlockFormat, profile: Profile) -> bool:
    """Whether a block that is no case of the vectors fails a topic: what is legal for it is computed."""
    case = seen.case
    special = {
        "nan": np.isnan(case.x).any(),
        "inf": np.isinf(case.x).any(),
        "zero-block": not (case.x.view(np.uint32) << np.uint32(1)).any(),
    }
    if case.topic in special and not special[case.topic]:
        return False
    with np.errstate(all="ignore"):
        t = mxspec.quantize(case.x, fmt, profile=profile, tensor_scale=native_scale(profile, case.tensor))
    rows = legal_rows(case.x.reshape(-1), fmt, profile, int(t.scales.reshape(-1)[0]), t.codes.reshape(-1))
    answers = tuple(as_answer(row, fmt) for row in rows)
    scorecard = Scorecard("quantize", fmt.name)
    judge_observed(replace(seen, case=replace(case, answers={profile.id: answers})), fmt, profile, scorecard, naming=False)
    found = scorecard.tallies.get(topic)
    return found is not None and bool(found.failing)


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The blocks [n, k] of one tensor, compared with the profile under the scales that were returned."""

    codes: Codes
    expected: Codes
    classes: npt.NDArray[Any]
    #: Blocks whose scale is a number.
    finite: npt.NDArray[np.bool_]
    wrong: npt.NDArray[np.bool_]
    #: Blocks whose codes the profile leaves open.
    open_codes: npt.NDArray[np.bool_]
    #: What the profile would return if it rounded its elements otherwise: name -> codes; empty where nothing is wrong.
    variants: dict[Explanation, Codes]


def judge_lanes(members: Sequence[Observed], fmt: BlockFormat, profile: Profile, naming: bool) -> list[_Lanes]:
    """The lanes of each of several tensors that have one tensor scale."""
    element = fmt.element
    blocks = [as_blocks(m.case, fmt, padded_input(m.case, fmt, m.codes.shape), divided=False) for m in members]
    x = np.concatenate(blocks)
    codes = np.concatenate([as_blocks(m.case, fmt, m.codes, divided=False) for m in members])
    scales = np.concatenate([as_blocks(m.case, fmt, m.scales, divided=True) for m in members])
    finite = scales <= fmt.scale.max_code
    steps, bindings = bind_profile(profile, members[0].case.tensor)
    usable = np.minimum(scales, fmt.scale.code_count - 1).astype(scales.dtype)
    expected, scaled = encode_given_scale(x, usable, fmt, profile, steps, bindings)
    classes = classify_lanes(scaled, x, element)
    fold = fold_zeros(element)
    wrong = (fold[codes] != fold[expected]) & finite[:, None]
    if profile.kind is Kind.NORMATIVE:
        wrong &= ~((codes == element.sign_bit) & is_lowest_allowed(element, scaled))
        # A number whose quotient is NaN, as zero times a reciprocal that overflowed: what a NaN becomes is open.
        undefined = np.isnan(scaled) & np.isfinite(x)
        if undefined.any():
            wrong &= ~(undefined & flag_nan_choices(element)[codes])
    if profile.unspecified_codes_under_zero:
        wrong &= (usable != 0)[:, None]
    variants = {}
    if naming and wrong.any():
        for rounding in ROUNDING_TEXT:
            if rounding is not steps.element.rounding:
                rule = replace(steps.element, rounding=rounding)
                other = encode_given_scale(x, usable, fmt, profile, steps, bindings, rule)[0]
                # Whoever rounds so does it in all elements.
                if ((fold[other] != fold[codes]) & ~wrong & finite[:, None] & np.isin(classes, list(ORDINARY_LANES))).any():
                    continue
                variants[Explanation(Cause.PROFILE_ROUNDED, profile.id, rounding)] = other
    edges = np.cumsum([0, *map(len, blocks)])
    parts = [slice(int(i), int(j)) for i, j in pairwise(edges)]
    return [
        _Lanes(
            codes=codes[part],
            expected=expected[part],
            classes=classes[part],
            finite=finite[part],
            wrong=wrong[part],
            open_codes=((usable == 0) & profile.unspecified_codes_under_zero)[part],
            variants={n: v[part] for n, v in variants.items()} if wrong[part].any() else {},
        )
        for part in parts
    ]


def flag_nan_choices(element: ScalarFormat) -> npt.NDArray[np.bool_]:
    """[code]: what a NaN may become where the format has none: zero or the largest number, of either sign."""
    chosen = (0, element.max_code)
    return np.isin(np.arange(256), [element.join(sign, code) for sign in (0, 1) for code in chosen]) & (element.nan_code is None)


def _enter_lanes(seen: Observed, fmt: BlockFormat, scorecard: Scorecard, equals: frozenset[Explanation], lanes: _Lanes) -> None:
    case, element = seen.case, fmt.element
    codes, expected, classes, wrong = lanes.codes, lanes.expected, lanes.classes, lanes.wrong
    finite = lanes.finite[:, None]
    fold = fold_zeros(element)
    own = case.topic if case.topic in OWN_LANES else "mixture"

    def enter(topic: str, members: npt.NDArray[np.bool_]) -> None:
        bad = wrong & members
        if not bad.any():
            scorecard.count(topic, seen.label, origin=case.id, ok=True)
            return
        named = {n for n, v in lanes.variants.items() if (fold[v[bad]] == fold[codes[bad]]).all()}
        scorecard.count(topic, seen.label, origin=case.id, ok=False, equals=equals | named)

    zeros = (fold[expected] == 0) & finite & ~lanes.open_codes[:, None]
    if element.has_minus_zero and zeros.any():
        signs = (codes != expected) & ~wrong & zeros
        if (signs & (expected == 0)).any():  # a sign may be dropped, never made
            scorecard.count("choice", seen.label, origin=case.id, ok=False)
        scorecard.count("zero-sign", seen.label, origin=case.id, ok=not signs.any(), equals=_sign_equals(seen, fmt, bool(signs.any())))
    for kind in np.unique(classes[lanes.finite]) if lanes.finite.any() else ():
        members = classes == kind
        if kind == LaneClass.ZERO:
            enter(own if case.topic in ("axis", "tail") else "subnormal", members)
        elif kind == LaneClass.SPECIAL:
            enter("overflow", members)
        else:
            enter(_LANE_TOPICS.get(LaneClass(int(kind)), own), members)


def _sign_equals(seen: Observed, fmt: BlockFormat, failing: bool) -> frozenset[Explanation]:
    return by_profiles(equal_profiles(seen, fmt, signs=True)) if failing else frozenset()


def count_failing(seen: Sequence[Observed], lost: Sequence[QuantizeCase], fmt: BlockFormat, profiles: Sequence[Profile]) -> dict[str, int]:
    """Failing cases under each profile; cases that got no answer fail under those that have one."""
    counts = {p.id: sum(p.id in c.answers for c in lost) for p in profiles}
    for observed in seen:
        for name, matches in matching_profiles(observed, fmt, signs=observed.case.topic == "zero-sign"):
            if not matches and name in counts:
                counts[name] += 1
    return counts


def identical_profiles(seen: Sequence[Observed], fmt: BlockFormat, profiles: Sequence[Profile]) -> set[str]:
    """Profiles whose canonical answer equals what was returned in every bit of every case that they answer.

    A profile that does not take a dtype says nothing of it.
    """
    alive = {p.id: p for p in profiles}
    answered = dict.fromkeys(alive, 0)
    for observed in seen:
        for name, profile in list(alive.items()):
            answers = observed.case.answers.get(name)
            if answers is None or observed.dtype not in profile.dtypes:
                continue
            answered[name] += 1
            if profile.unspecified_nan_input_scales and np.isnan(observed.case.x).any():
                continue
            if not _identical(answers[0], observed, fmt, profile):
                del alive[name]
    return {name for name in alive if answered[name]}


def _identical(answer: Answer, seen: Observed, fmt: BlockFormat, profile: Profile) -> bool:
    if profile.unspecified_scale_sign_bit and (seen.scales & fmt.scale.code_count).any():
        seen = replace(seen, scales=seen.scales & seen.scales.dtype.type(fmt.scale.code_count - 1))
    if (
        profile.unspecified_nan_block_codes
        and answer.scale.size == 1
        and fmt.scale.is_nan(int(answer.scale[0]) & (fmt.scale.code_count - 1))
    ):
        return bool(int(seen.scales.reshape(-1)[0]) & (fmt.scale.code_count - 1) == fmt.scale.nan_code)
    return answer_matches(answer.compare_every_bit(), seen.scales, seen.codes, fmt.element, signs=True)
