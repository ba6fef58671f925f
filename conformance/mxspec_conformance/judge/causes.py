"""Known causes of many failures at once, found from what a target returned: what a headline names first.

A cause is named where it explains every ordinary block that was asked, the right ones too. What explains only most of them
is worded as a guess, with the numbers. A cause is a type: no verdict depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import flag_nan, fold_zeros
from mxspec.arrays import ARRAYS
from mxspec.blocks import encode_elements
from mxspec.elements import decode_table
from mxspec.elements_given_scale import LaneClass, classify_lanes, encode_given_scale, scale_lanes
from mxspec.expressions import evaluate
from mxspec.formats import BlockFormat, ElementFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.counterexample.failure import Order, find_order
from mxspec_conformance.judge.alone import are_right_alone
from mxspec_conformance.judge.invariance.answered import ORDINARY, Answered
from mxspec_conformance.judge.misreadings import list_misreadings
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.quantize import Observed
from mxspec_conformance.observations.scale import ObservedScales
from mxspec_conformance.results import conclusion
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import TensorScales, bind_profile, native_scale


class KnownCause(StrEnum):
    """What makes many requirements fail at once."""

    NOT_DETERMINISTIC = "not-deterministic"
    NIBBLE_ORDER = "nibble-order"
    TENSOR_SCALE_KIND = "tensor-scale-kind"
    TRANSPOSED_SCALES = "scales-transposed"
    SUBNORMALS_FLUSHED = "subnormals-flushed"
    SCALE_OFFSET = "scale-offset"
    SCALE_BIAS = "scale-bias"
    SCALE_MISREAD = "scale-misread"
    TENSOR_SCALE_LEFT_OUT = "tensor-scale-left-out"
    ZERO_SCALE = "zero-scale"
    COARSE_BELOW = "subnormals-cut"
    NARROW_QUOTIENT = "narrow-quotient"
    UNROUNDED_SCALE = "unrounded-scale"
    NARROW_MAXIMUM = "narrow-maximum"
    RECIPROCAL = "reciprocal"
    ONE_DTYPE = "one-dtype"
    SIGNED_MAXIMUM = "signed-maximum"
    HALF_OF_THE_LANES = "lanes-not-looked-at"
    CALL_ALONE = "call-alone"
    SCALE_SEARCH = conclusion.SCALE_SEARCH
    NO_ANSWER = conclusion.NO_ANSWER


@dataclass(frozen=True, slots=True)
class Found:
    """A cause, and what is said of it."""

    cause: KnownCause
    text: str


#: (blocks, what the tensor scale binds) -> names and values that are other ones in the expressions.
_Change = Callable[["_Rows", Mapping[str, Any]], Mapping[str, Any]]
#: What is said where nothing but the requirement about calls fails, and where wrong blocks are right in calls of their own.
CALL_ALONE = Found(KnownCause.CALL_ALONE, "right block by block; the answer depends on the call that a block stands in")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Ordinary blocks of one dtype and tensor scale, what was returned and what the profile says."""

    x: npt.NDArray[np.float32]
    scales: Codes
    codes: Codes
    want_scales: Codes
    want_codes: Codes
    tensor: TensorScales | None

    def agree(self, scales: Codes, codes: Codes, fmt: BlockFormat) -> npt.NDArray[np.bool_]:
        """Blocks [n] that were answered with these bits; the signs of zero and NaN do not count, nor the scale of zeros."""
        fold = _fold_signs(fmt.element)
        same = (fold[codes] == fold[self.codes]).all(axis=1)
        empty = ~fold[self.codes].any(axis=1)
        result: npt.NDArray[np.bool_] = same & ((scales == self.scales) | (empty & (self.scales < 0xFF)))
        return result


@lru_cache(maxsize=32)
def _fold_signs(element: ElementFormat) -> Codes:
    """For each of 256 codes the code itself; zeros, and codes of NaN that differ by the sign alone, are one."""
    fold = fold_zeros(element).copy()
    nan = flag_nan(element)
    fold[nan] &= element.sign_bit - 1
    return fold


def find_silence(observations: Observations) -> Found | None:
    """The one reason for which no case of `quantize` has an answer; None where one has, or where reasons differ."""
    lost = [item.reason for item in observations.unanswered if not item.reason.is_unsupported]
    told = [reason.message for reason in lost if not reason.given_up]
    # Targets put shapes and counts into their messages.
    if observations.answered or not told or len({re.sub(r"\d+", "0", message) for message in told}) > 1:
        return None
    return Found(KnownCause.NO_ANSWER, f"none of {len(lost)} blocks has an answer: {told[0]}")


def find_causes(observations: Observations, profile: Profile, again: Answered | None) -> list[Found]:
    """The causes that are known of a quantizer that fails something; the one that explains most first.

    again: blocks that the target has answered in a call of their own, to be asked twice.
    """
    session, fmt = observations.session, observations.fmt
    changing = _is_deterministic(session, again)
    if changing:
        return [changing]
    dtypes = session.capabilities.dtypes
    rows = list(_collect(observations.answered, fmt, profile, dtypes[0]))
    found = [
        _nibbles(rows, fmt),
        _transposed(observations.answered, fmt, profile),
        _flushed(rows, fmt, profile),
        _offset(observations, profile),
        _misread_scale(rows, fmt, profile),
        _without_tensor_scale(rows, fmt, profile),
        _zero_scale(rows, fmt),
        _cut_below(rows, fmt, profile),
        _narrow_quotient(rows, fmt, profile),
        _unrounded_scale(rows, fmt, profile),
        _narrow_maximum(observations.scales, fmt, profile),
        _reciprocal(rows, fmt, profile),
        _signed_maximum(rows, fmt, profile),
        _lanes_looked_at(rows, fmt, profile),
        _one_dtype(observations.answered, fmt, profile, dtypes),
    ]
    causes = [one for one in found if one is not None]
    # A quotient of 16 bits explains every block; that all wrong ones go one way is then no cause of its own.
    exact = any(one.cause is KnownCause.NARROW_QUOTIENT for one in causes)
    causes = [one for one in causes if not (exact and one.cause is KnownCause.RECIPROCAL)]
    if not causes and are_right_alone(session, fmt, profile, observations.answered):
        return [CALL_ALONE]
    return causes


def _is_deterministic(session: TargetSession, again: Answered | None) -> Found | None:
    """The same call twice, then once more; one block stands beyond a multiple of 64, as tails have paths of their own."""
    if again is None:
        return None
    count = len(again.before)
    place = np.arange(count - (count - 1) % 64)
    answers = [run_once(lambda: again.rows(session.call(again.function, *again.arguments(place), **again.kwargs))) for _ in range(3)]
    given = [a for a in answers if not isinstance(a, NoAnswer)]
    if len(given) < 2:
        return None
    differ = np.zeros(len(place), bool)
    for other in given[1:]:
        differ |= again.differ(given[0], other).any(axis=1)
    if not differ.any():
        return None
    text = f"not deterministic: the same call, made three times, gives {int(differ.sum())} of {len(place)} blocks other bits"
    return Found(KnownCause.NOT_DETERMINISTIC, f"{text} (chance, a race, or state that a call leaves behind)")


def _collect(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile, dtype: str) -> Iterator[_Rows]:
    groups: dict[TensorScales | None, list[Observed]] = {}
    for item in seen:
        special = item.case.tensor is not None and item.case.tensor.is_special
        if (
            item.case.is_row and item.dtype == dtype and item.case.topic in (*ORDINARY, "scale-boundary", "scale-tie")
            and profile.id in item.case.answers and not special and np.isfinite(item.case.x).all()
            and (item.codes < fmt.element.code_count).all()
        ):  # fmt: skip
            groups.setdefault(item.case.tensor, []).append(item)
    for tensor, members in groups.items():
        legal = [m.case.answers[profile.id][0] for m in members]
        yield _Rows(
            x=np.concatenate([m.case.x for m in members]),
            scales=np.concatenate([m.scales.reshape(-1) for m in members]),
            codes=np.concatenate([m.codes.reshape(1, -1) for m in members]),
            want_scales=np.concatenate([a.scale.reshape(-1) for a in legal]),
            want_codes=np.stack([a.codes.reshape(-1) for a in legal]),
            tensor=tensor,
        )


def _explained(rows: Sequence[_Rows], answers: Sequence[tuple[Codes, Codes]], fmt: BlockFormat) -> bool:
    """Whether these answers are the target's in every block, and the profile's are not."""
    wrong = any(not r.agree(r.want_scales, r.want_codes, fmt).all() for r in rows)
    return wrong and all(r.agree(s, c, fmt).all() for r, (s, c) in zip(rows, answers, strict=True))


def _nibbles(rows: Sequence[_Rows], fmt: BlockFormat) -> Found | None:
    if fmt.element.bits != 4 or not rows:
        return None
    swapped = [(r.want_scales, r.want_codes.reshape(len(r.x), -1, 2)[..., ::-1].reshape(r.want_codes.shape)) for r in rows]
    if not _explained(rows, swapped, fmt):
        return None
    return Found(KnownCause.NIBBLE_ORDER, "the two codes of each pair are swapped: the even element lies in the high nibble (nibble-high)")


def _transposed(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile) -> Found | None:
    for item in seen:
        case, answers = item.case, item.case.answers.get(profile.id)
        if answers is None or case.is_row or case.block is not None or case.x.ndim != 2:
            continue
        want, got = np.asarray(answers[0].scale), item.scales
        if want.size == got.size and find_order(want.reshape(got.shape), got) is Order.TRANSPOSED:
            return Found(KnownCause.TRANSPOSED_SCALES, "scales come transposed where there are several rows and blocks")
    return None


def _flushed(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    tiny = np.float32(2.0**-126)
    if not any(((np.abs(r.x) < tiny) & (r.x != 0)).any() for r in rows):
        return None
    answers = []
    for r in rows:
        x = np.where(np.abs(r.x) < tiny, np.copysign(np.float32(0), r.x), r.x)
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native_scale(profile, r.tensor))
        answers.append((t.scales.reshape(-1), t.codes))
    if not _explained(rows, answers, fmt):
        return None
    return Found(KnownCause.SUBNORMALS_FLUSHED, "float32 subnormals of the input count as zeros (flush to zero)")


def _offset(observations: Observations, judged: Profile) -> Found | None:
    fmt = observations.fmt
    if not fmt.is_mx:
        return None
    for profile in sorted(mxspec.list_profiles(fmt), key=lambda p: (p.kind is not Kind.NORMATIVE, p is not judged)):
        if profile.kind is not Kind.NORMATIVE:
            break
        steps = _steps(observations.scales, profile.id)
        if len(steps) != 1 or 0 in steps:
            continue
        (offset,) = steps
        count = "one" if abs(offset) == 1 else str(abs(offset))
        words = f"every scale byte is {count} {'above' if offset > 0 else 'below'} {profile.id}'s, a factor of 2^{offset}"
        rows = list(_collect(observations.answered, fmt, profile, observations.session.capabilities.dtypes[0]))
        if rows and all(_fold_equal(r.codes, r.want_codes, fmt, r.scales, offset) for r in rows):
            return Found(KnownCause.SCALE_BIAS, f"{words}; the codes are those of its own scale: the byte's bias is wrong, not the scale")
        return Found(KnownCause.SCALE_OFFSET, words)
    return None


def _steps(results: Sequence[ObservedScales], profile: str) -> set[int]:
    """By how much bytes of ordinary maxima differ from a profile's."""
    found: set[int] = set()
    for item in results:
        expected = item.case.answers.get(profile)
        if isinstance(item.returned, NoAnswer) or expected is None:
            continue
        ordinary = (item.case.amax > 0x10000000) & (item.case.amax < 0x70000000)
        found.update((item.returned[ordinary].astype(int) - expected[ordinary].astype(int)).tolist())
    return found


def _fold_equal(codes: Codes, want: Codes, fmt: BlockFormat, scales: Codes, offset: int) -> bool:
    fold = fold_zeros(fmt.element)
    inside = (scales > abs(offset) + 1) & (scales < 0xFE - abs(offset))
    return bool((fold[codes[inside]] == fold[want[inside]]).all())


_NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _to_nearest(x: npt.NDArray[np.float32], dtype: Any) -> npt.NDArray[np.float32]:
    """x in a narrower dtype, as float32."""
    return x.astype(dtype).astype(np.float32)


def _cut(x: npt.NDArray[np.float32], dtype: Any) -> npt.NDArray[np.float32]:
    """x in a narrower dtype, toward zero."""
    narrow = x.astype(dtype)
    away = np.isfinite(x) & (np.abs(narrow.astype(np.float32)) > np.abs(x))
    # One step toward zero is one less in the bits of a float, also from infinity.
    bits = narrow.view(np.uint16)
    toward: npt.NDArray[np.float32] = np.where(away, bits - 1, bits).astype(np.uint16).view(dtype).astype(np.float32)
    return toward


def _misread_scale(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    """Whether elements are those of the stored scale read otherwise; all misreadings are named that explain it."""

    def reading(table: npt.NDArray[np.float64]) -> _Change:
        return lambda r, bound: {"sf": table.astype(np.float32)[r.scales][:, None]}

    names = [mistake.value for mistake, table in list_misreadings(fmt.scale) if _explains(rows, fmt, profile, reading(table))]
    return Found(KnownCause.SCALE_MISREAD, f"elements are divided as if {', or '.join(names)}") if names else None


def _without_tensor_scale(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    if all(r.tensor is None for r in rows):
        return None
    if not _explains(rows, fmt, profile, lambda r, bound: dict.fromkeys(bound, np.float32(1))):
        return None
    return Found(KnownCause.TENSOR_SCALE_LEFT_OUT, "elements are divided by the block scale alone: the tensor scale is in the block scales, and left out of the elements")


def _zero_scale(rows: Sequence[_Rows], fmt: BlockFormat) -> Found | None:
    """Whether all that is wrong are the elements of blocks whose scale is zero, and these are one magnitude."""
    element = fmt.element
    if element.twos_complement or decode_table(fmt.scale)[0] != 0:
        return None
    magnitudes: set[int] = set()
    answers = []
    for r in rows:
        empty = r.scales == 0
        magnitudes.update(np.unique(r.codes[empty] & (element.sign_bit - 1)).tolist())
        answers.append((r.want_scales, _put(r.want_codes, empty, r.codes[empty])))
    if len(magnitudes) != 1 or 0 in magnitudes or not _explained(rows, answers, fmt):
        return None
    (code,) = magnitudes
    return Found(KnownCause.ZERO_SCALE, f"in blocks whose scale byte is 00 every element becomes code {code:02x}: division by a scale of zero is not caught")


def _cut_below(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    """Whether of a quotient below the smallest normal number only one bit beyond the last place is looked at."""
    element = fmt.element
    if element.twos_complement or not element.mantissa_bits:
        return None
    half, normal = float(element.magnitude(1)) / 2, float(element.magnitude(1 << element.mantissa_bits))
    answers = []
    for r in rows:
        steps, bindings = bind_profile(profile, r.tensor)
        if steps.element.error is not None:
            return None
        usable = np.minimum(r.scales, fmt.scale.code_count - 1).astype(np.uint8)
        with np.errstate(all="ignore"):
            scaled, known = scale_lanes(r.x, usable, fmt, profile, steps, bindings)
            cut = np.where(np.abs(scaled) < normal, np.trunc(scaled / half) * half, scaled).astype(scaled.dtype)
            codes = encode_elements(cut, known["x"], np.isnan(known["sf"]), steps.element, element)
        answers.append((r.scales, codes))
    if not _explained(rows, answers, fmt):
        return None
    return Found(KnownCause.COARSE_BELOW, "below the smallest normal number one bit beyond the last place is looked at, and what lies under it is lost: more than a tie counts as a tie")


def _explains(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile, change: _Change) -> bool:
    """Whether codes are those of the returned scale bytes with other values in the expressions, and not with the profile's own."""
    answers, own = [], True
    for r in rows:
        steps, bindings = bind_profile(profile, r.tensor)
        if steps.element.error is not None or not (r.scales < fmt.scale.code_count).all():
            return False
        with np.errstate(all="ignore"):
            plain, known = scale_lanes(r.x, r.scales, fmt, profile, steps, bindings)
            codes = encode_elements(plain, known["x"], np.isnan(known["sf"]), steps.element, fmt.element)
            own = own and bool(r.agree(r.scales, codes, fmt).all())
            known |= change(r, bindings)
            scaled = np.ascontiguousarray(np.broadcast_to(evaluate(steps.scaled, known, ARRAYS), r.x.shape))
            codes = encode_elements(scaled, known["x"], np.isnan(known["sf"]), steps.element, fmt.element)
        answers.append((r.scales, codes))
    return not own and _explained(rows, answers, fmt)


def _narrow_quotient(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    """Whether the quotient is rounded or cut to 16 bits before it becomes a code; all are named that explain it."""
    names = []
    for (name, dtype), (how, narrowed) in product(_NARROW.items(), (("", _to_nearest), (" by cutting", _cut))):
        answers = []
        for r in rows:
            steps, bindings = bind_profile(profile, r.tensor)
            usable = np.minimum(r.scales, fmt.scale.code_count - 1).astype(np.uint8)
            if steps.element.error is not None:
                return None
            with np.errstate(all="ignore"):
                scaled, known = scale_lanes(r.x, usable, fmt, profile, steps, bindings)
                narrow = narrowed(np.asarray(scaled, np.float32), dtype)
                codes = encode_elements(narrow, known["x"], np.isnan(known["sf"]), steps.element, fmt.element)
            answers.append((r.scales, codes))
        if _explained(rows, answers, fmt):
            names.append(name + how)
    if not names:
        return None
    return Found(KnownCause.NARROW_QUOTIENT, f"as if the quotient x / scale were held in {' or in '.join(names)}")


def _unrounded_scale(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    """Whether elements are divided by amax / M itself, of which the stored scale is the power of two."""
    if not fmt.is_mx:
        return None
    largest = np.float32(fmt.element.max_value)
    for wide in (np.float32, np.float64):
        same, differs = True, False
        for r in rows:
            steps, _ = bind_profile(profile, r.tensor)
            amax = np.abs(r.x).max(axis=1)
            # Below, amax / M has no bits left, and what becomes of that is another question.
            usable = amax > 2.0**-100
            if not usable.any():
                continue
            with np.errstate(all="ignore"):
                scaled = r.x[usable].astype(wide) / (amax[usable] / largest).astype(wide)[:, None]
                codes = encode_elements(scaled, r.x[usable], np.zeros((len(scaled), 1), np.bool_), steps.element, fmt.element)
            same &= bool(r.agree(r.scales, _put(r.codes, usable, codes), fmt).all())
            differs |= not r.agree(r.want_scales, r.want_codes, fmt)[usable].all()
        if same and differs:
            return Found(KnownCause.UNROUNDED_SCALE, "elements are divided by amax / M, the scale before it was rounded to a power of two")
    return None


def _put(codes: Codes, where: npt.NDArray[np.bool_], other: Codes) -> Codes:
    changed = codes.copy()
    changed[where] = other
    return changed


def _narrow_maximum(results: Sequence[ObservedScales], fmt: BlockFormat, profile: Profile) -> Found | None:
    names = []
    for name, dtype in _NARROW.items():
        same, differs = True, False
        for item in results:
            expected = item.case.answers.get(profile.id)
            if isinstance(item.returned, NoAnswer) or expected is None or not same:
                continue
            ordinary = (item.case.amax > 0x10000000) & (item.case.amax < 0x70000000)
            if name == "float16":
                # Beyond its range nothing is left of the maximum: a target that still follows the rule there holds it elsewhere.
                beyond = ordinary & (item.case.amax > 0x47800000)
                same &= not (beyond & (item.returned == expected)).any()
                ordinary &= (item.case.amax > 0x38800000) & (item.case.amax < 0x47000000)
            if not ordinary.any():
                continue
            x = np.zeros((int(ordinary.sum()), fmt.k), np.float32)
            x[:, 0] = item.case.amax[ordinary].view(np.float32).astype(dtype).astype(np.float32)
            with np.errstate(all="ignore"):
                t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native_scale(profile, item.case.tensor))
            same &= bool((t.scales.reshape(-1) == item.returned[ordinary]).all())
            differs |= bool((expected[ordinary] != item.returned[ordinary]).any())
        if same and differs:
            names.append(name)
    if not names:
        return None
    return Found(KnownCause.NARROW_MAXIMUM, f"as if the block's maximum were held in {' or in '.join(names)}")


def _signed_maximum(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    """Whether scales follow from the largest x of blocks that hold a positive number."""
    same, differs = True, False
    for r in rows:
        positive = (r.x > 0).any(axis=1) & (r.x.max(axis=1) > 2.0**-100)
        if not positive.any():
            continue
        scales = _scales_of(np.where(r.x > 0, r.x, np.float32(0))[positive], r, fmt, profile)
        same &= bool((scales == r.scales[positive]).all())
        differs |= bool((r.want_scales[positive] != r.scales[positive]).any())
    return Found(KnownCause.SIGNED_MAXIMUM, "as if the maximum were taken of x, not of |x|") if same and differs else None


def _lanes_looked_at(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    """Whether scales follow from the maximum of some lanes alone: one half, or every second one."""
    k = fmt.k
    lanes = np.arange(k)
    parts = {
        f"lanes 0 to {k // 2 - 1}": lanes < k // 2, f"lanes {k // 2} to {k - 1}": lanes >= k // 2,
        "even lanes": lanes % 2 == 0, "odd lanes": lanes % 2 == 1, f"lanes 0 to {k - 2}": lanes < k - 1, f"lanes 1 to {k - 1}": lanes > 0,
    }  # fmt: skip
    for name, part in parts.items():
        same, differs = True, False
        for r in rows:
            x = np.where(part, r.x, np.float32(0))
            usable = np.abs(x).max(axis=1) > 2.0**-100
            if not usable.any():
                continue
            same &= bool((_scales_of(x[usable], r, fmt, profile) == r.scales[usable]).all())
            differs |= bool((r.want_scales[usable] != r.scales[usable]).any())
            if not same:
                break
        if same and differs:
            return Found(KnownCause.HALF_OF_THE_LANES, f"as if the maximum were looked for in {name} alone")
    return None


def _scales_of(x: npt.NDArray[np.float32], rows: _Rows, fmt: BlockFormat, profile: Profile) -> Codes:
    with np.errstate(all="ignore"):
        t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native_scale(profile, rows.tensor))
    scales: Codes = t.scales.reshape(-1)
    return scales


def _reciprocal(rows: Sequence[_Rows], fmt: BlockFormat, profile: Profile) -> Found | None:
    """Whether all that is wrong lies next to midpoints, on one side, and is off by one code in one direction.

    What becomes of a division by a scale of zero is another question.
    """
    element, fold = fmt.element, fold_zeros(fmt.element)
    directions: set[int] = set()
    near = False
    wrong_lanes = 0
    for r in rows:
        steps, bindings = bind_profile(profile, r.tensor)
        usable = np.minimum(r.scales, fmt.scale.code_count - 1).astype(np.uint8)
        with np.errstate(all="ignore"):
            expected, scaled = encode_given_scale(r.x, usable, fmt, profile, steps, bindings)
        wrong = (fold[expected] != fold[r.codes]) & (decode_table(fmt.scale)[usable] != 0)[:, None]
        if not wrong.any():
            continue
        classes = classify_lanes(scaled, r.x, element)[wrong]
        if not np.isin(classes, (LaneClass.BELOW_TIE, LaneClass.TIE, LaneClass.ABOVE_TIE)).all() or element.twos_complement:
            return None
        near |= bool((classes != LaneClass.TIE).any())
        magnitude = element.sign_bit - 1
        steps_off = (r.codes[wrong] & magnitude).astype(int) - (expected[wrong] & magnitude).astype(int)
        directions.update(steps_off.tolist())
        wrong_lanes += int(wrong.sum())
    if not near or directions not in ({1}, {-1}):
        return None
    side, fix = ("small", "down") if directions == {-1} else ("large", "up")
    text = f"as if x / scale came out slightly too {side}: all {wrong_lanes} wrong codes lie next to midpoints and go {fix}"
    return Found(KnownCause.RECIPROCAL, f"{text} (a reciprocal that is approximate or rounded)")


def _one_dtype(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile, dtypes: Sequence[str]) -> Found | None:
    if "float32" not in dtypes or len(dtypes) < 2:
        return None
    wrong: dict[str, set[str]] = {d: set() for d in dtypes}
    asked: dict[str, set[str]] = {d: set() for d in dtypes}
    fold = fold_zeros(fmt.element)
    for item in seen:
        answers = item.case.answers.get(profile.id)
        if answers is None or item.case.topic not in ORDINARY:
            continue
        asked[item.dtype].add(item.case.id)
        same = (fold[item.codes.reshape(-1)] == fold[answers[0].codes.reshape(-1)]).all()
        if not same or (item.scales.reshape(-1) != answers[0].scale.reshape(-1)).any():
            wrong[item.dtype].add(item.case.id)
    alone = [d for d in dtypes if d != "float32" and wrong[d] - wrong["float32"] and not wrong["float32"] & asked[d]]
    if not alone or any(wrong[d] for d in dtypes if d not in alone):
        return None
    counts = ", ".join(f"{d}: {len(wrong[d])} of {len(asked[d])} blocks that are right in float32" for d in alone)
    return Found(KnownCause.ONE_DTYPE, f"only inputs in {' and '.join(alone)} go wrong ({counts})")
