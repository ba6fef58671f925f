"""What an implementation does, trait by trait; found from what it returned, without a profile that it follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan, fold_zeros
from mxspec.elements_given_scale import LaneClass, classify_lanes, encode_given_scale
from mxspec.enums import StrEnum
from mxspec.formats import BlockFormat
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import Kind, Profile, ScaleRule, ScaleStep
from mxspec.rounding import Rounding
from mxspec_conformance.judge.explanation import ROUNDING_TEXT
from mxspec_conformance.judge.scale_bounds import Bounds, find_bounds
from mxspec_conformance.judge.scale_forms import name_scale_form
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.quantize import WHOLE_BLOCK, Observed, Unanswered
from mxspec_conformance.observations.scale import ObservedScales
from mxspec_vectors.tensor_scales import TensorScales, bind_profile


class TraitName(StrEnum):
    """What is described."""

    SCALE = "scale"
    ELEMENTS = "elements"
    ZERO_SIGN = "sign of zero"
    NAN = "NaN in a block"
    INF = "Inf in a block"
    ZERO_BLOCK = "block of zeros"


@dataclass(frozen=True, slots=True)
class Trait:
    """One thing that an implementation does."""

    name: TraitName
    text: str
    #: What to say of it where it departs from every normative profile's way; empty where it does not.
    deviation: str = ""


def describe(
    answered: Sequence[Observed], unanswered: Sequence[Unanswered], scales: Sequence[ObservedScales], fmt: BlockFormat,
    profile: Profile,
) -> list[Trait]:  # fmt: skip
    """All traits of a quantizer; `profile` is the nearest one, whose arithmetic is asked where one is needed."""
    return [
        describe_scale_rule(scales, fmt, profile),
        *describe_elements(answered, fmt, profile),
        *describe_special(answered, unanswered, fmt),
    ]


def list_deviations(traits: Sequence[Trait], judged: Profile) -> list[str]:
    """Where the traits depart from a profile, elements first; nothing for a descriptive one where there are normative ones."""
    if judged.kind is not Kind.NORMATIVE and list_profiles(judged.formats[0], kind=Kind.NORMATIVE):
        return []
    order = (TraitName.ELEMENTS, TraitName.SCALE)
    return [t.deviation for name in order for t in traits if t.name is name and t.deviation]


def list_open_choices(traits: Sequence[Trait], judged: Profile) -> list[str]:
    """Where the traits depart from a normative profile and OCP leaves it open."""
    if judged.kind is not Kind.NORMATIVE:
        return []
    order = (TraitName.ZERO_SIGN, TraitName.NAN)
    return [t.deviation for name in order for t in traits if t.name is name and t.deviation]


SCALE_TEXT = {
    ScaleStep.FLOOR: "floor(log2 amax) - emax, exact",
    ScaleStep.CEIL: "ceil(log2 amax) - emax, exact",
    ScaleStep.HALF_UP: "amax rounded half up, then floor (EVEN)",
    ScaleStep.LOG2F_FLOOR: "floor of a float32 log2: one too high just below some powers of two",
    ScaleStep.LOG2F_CEIL: "ceil of a float32 log2: one too low just above some powers of two",
    ScaleStep.LOG2F_ROUND: "float32 log2 rounded to nearest",
}


def describe_scale_rule(results: Sequence[ObservedScales], fmt: BlockFormat, judged: Profile) -> Trait:
    """The scale rule over maxima of ordinary size; among rules that are equally right it is the judged profile's."""
    # A profile that does not answer a case, as one without a tensor scale, does not explain it either.
    wrong = dict.fromkeys((n for item in results for n in item.case.answers), 0)
    bounds = find_bounds(results, fmt, judged)
    total = 0
    for item in results:
        if isinstance(item.returned, NoAnswer):
            continue
        ordinary = _is_ordinary(item.case.amax) & bounds.within(item.case.amax, item.case.tensor)
        total += int(ordinary.sum())
        for name in wrong:
            answer = item.case.answers.get(name)
            wrong[name] += int((ordinary if answer is None else (answer != item.returned)[ordinary]).sum())
    if not total:
        return Trait(TraitName.SCALE, "not observed")
    best = min(wrong, key=lambda n: (wrong[n], n != judged.id))
    text = _rule_text(next(p for p in list_profiles(fmt) if p.id == best), fmt)
    form = name_scale_form(results, fmt) if fmt.scale.bits > 8 and wrong[best] else None
    if form or (wrong[best] and (form := _name_inexact_log2(results, fmt, judged, bounds))):
        text = form
    elif wrong[best]:
        text += f", except for {wrong[best]} of {total} maxima"
    ends = f"; {bounds.text}" if bounds.text else ""
    # The judged profile would have been chosen if it were equally right.
    departs = best != judged.id or bool(wrong[best])
    if 2 * wrong[best] > total and not form:  # a rule that holds for the minority says nothing
        return Trait(TraitName.SCALE, f"by no rule that is known here; the nearest is {text}{ends}")
    return Trait(TraitName.SCALE, f"{text}{ends}", f"scale: {text}" if departs else "")


def _is_ordinary(amax: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Whether maxima (float32 bits) are far from both ends of the range, which have topics of their own."""
    ordinary: npt.NDArray[np.bool_] = (amax > 0x08000000) & (amax < 0x78000000)
    return ordinary


#: A log2 computed in float32, within one unit in its last place, takes at most this many float32 numbers next to a power of
#: two for it: 2**-17 at exponents of 64 and more, times ln 2, in steps of 2**-24.
LOG2_REACH = 89


def _name_inexact_log2(results: Sequence[ObservedScales], fmt: BlockFormat, judged: Profile, bounds: Bounds) -> str | None:
    """In words, that all wrong bytes are one step off next to powers of two, where an inexact log2 puts them; else None."""
    rule = _scale_rule(judged)
    if fmt.has_tensor_scale or rule.offset or rule.step not in (ScaleStep.FLOOR, ScaleStep.CEIL):
        return None
    down = rule.step is ScaleStep.FLOOR
    found = False
    for item in results:
        case, returned = item.case, item.returned
        if isinstance(returned, NoAnswer) or judged.id not in case.answers:
            continue
        expected = case.answers[judged.id]
        wrong = (returned != expected) & _is_ordinary(case.amax) & bounds.within(case.amax, case.tensor)
        if not wrong.any():
            continue
        steps = returned[wrong].astype(int) - expected[wrong]
        fraction = (case.amax[wrong] & 0x7FFFFF).astype(int)
        distance = 0x800000 - fraction if down else fraction
        if (steps != (1 if down else -1)).any() or distance.max() > LOG2_REACH:
            return None
        found = True
    if not found:
        return None
    if down:
        return "floor of a float log2: one too high just below some powers of two"
    return "ceil of a float log2: one too low just above some powers of two"


def _scale_rule(profile: Profile) -> ScaleRule:
    steps = profile.one_level or profile.two_level
    assert steps is not None
    return steps.scale


def _rule_text(profile: Profile, fmt: BlockFormat) -> str:
    rule = _scale_rule(profile)
    if fmt.has_tensor_scale:
        return f"as {profile.id}"
    if rule.step in SCALE_TEXT:
        text = SCALE_TEXT[rule.step]
        if rule.step in (ScaleStep.FLOOR, ScaleStep.CEIL) and not rule.subtract_emax and not rule.offset:
            # The logarithm is of something else than amax, of which emax would be subtracted.
            text = f"{rule.step.value}(log2 v), v = {rule.value}"
        if rule.step is ScaleStep.FLOOR and rule.offset:
            text = "twice the floor rule's scale"
        return text
    if rule.step is ScaleStep.ENCODE:
        return f"{rule.value} encoded in {fmt.scale.name}, rounding {rule.rounding.value}"
    return f"as {profile.id}"


@dataclass(slots=True)
class _Elements:
    """Ordinary elements, given the scales that were returned: how many each rounding gets wrong, and their zeros."""

    wrong: dict[Rounding, int]
    signs: _ZeroSigns
    lanes: int = 0

    @property
    def best(self) -> Rounding:
        """The rounding that gets the fewest wrong."""
        return min(self.wrong, key=lambda r: (self.wrong[r], list(ROUNDING_TEXT).index(r)))


def find_rounding(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile) -> Rounding | None:
    """The rounding that explains every ordinary element, given the scales that were returned; None where none does."""
    elements = _count_elements(seen, fmt, profile)
    return elements.best if elements.lanes and not elements.wrong[elements.best] else None


def _count_elements(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile) -> _Elements:
    rows: dict[TensorScales | None, list[Observed]] = {}
    for item in seen:
        if item.case.is_row and item.case.topic not in WHOLE_BLOCK:
            rows.setdefault(item.case.tensor, []).append(item)
    counted = _Elements(dict.fromkeys(ROUNDING_TEXT, 0), _ZeroSigns())
    for members in rows.values():
        try:
            steps, bindings = bind_profile(profile, members[0].case.tensor)
        except ValueError:
            continue
        x = np.concatenate([m.case.x for m in members])
        scales = np.concatenate([m.scales.reshape(-1) for m in members])
        codes = np.concatenate([m.codes.reshape(-1, fmt.k) for m in members])
        largest = np.abs(x).max(axis=1)
        # The ends of the range have topics of their own.
        open_codes = (scales == 0) & profile.unspecified_codes_under_zero
        usable = ~open_codes & (scales <= fmt.scale.max_code) & (largest > 2.0**-100) & (largest < 2.0**100)
        x, scales, codes = x[usable], scales[usable], codes[usable]
        if not len(x):
            continue
        fold = fold_zeros(fmt.element)
        for rounding in ROUNDING_TEXT:
            rule = steps.element.with_rounding(rounding)
            expected, scaled = encode_given_scale(x, scales, fmt, profile, steps, bindings, rule)
            classes = classify_lanes(scaled, x, fmt.element)
            finite = (classes != LaneClass.SPECIAL) & (classes != LaneClass.OVERFLOW)
            counted.wrong[rounding] += int(((fold[expected] != fold[codes]) & finite).sum())
        counted.lanes += int(finite.sum())
        counted.signs.count((classes == LaneClass.ZERO) & (fold[codes] == 0), np.signbit(x), codes == fmt.element.sign_bit)
    return counted


def describe_elements(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile) -> list[Trait]:
    """Rounding and sign of zero, given the scales that were returned."""
    counted = _count_elements(seen, fmt, profile)
    wrong, lanes, best = counted.wrong, counted.lanes, counted.best
    if not lanes:
        return []
    text = ROUNDING_TEXT[best]
    if wrong[best]:
        text += f", except for {wrong[best]} of {lanes} elements"
    departs = best is not Rounding.RNE or bool(wrong[best])
    if 2 * wrong[best] > lanes:
        text, departs = f"by no rounding that is known here; the nearest is {text}", False
    traits = [Trait(TraitName.ELEMENTS, text, text if departs else "")]
    if fmt.element.has_minus_zero:
        traits.append(counted.signs.describe())
    return traits


@dataclass(slots=True)
class _ZeroSigns:
    """What became of the sign of elements that are rounded to zero."""

    kept: int = 0
    lost: int = 0
    #: Negative zeros from positive numbers.
    made: int = 0

    def count(self, zeros: npt.NDArray[np.bool_], negative: npt.NDArray[np.bool_], marked: npt.NDArray[np.bool_]) -> None:
        """Enter lanes [n, k]: which became zero, whose input is negative, whose code has the sign."""
        self.kept += int((zeros & negative & marked).sum())
        self.lost += int((zeros & negative & ~marked).sum())
        self.made += int((zeros & ~negative & marked).sum())

    def describe(self) -> Trait:
        """The trait."""
        if self.made:
            text = "positive zeros become negative"
        elif self.lost:
            text = "sometimes lost" if self.kept else "lost"
        else:
            return Trait(TraitName.ZERO_SIGN, "kept" if self.kept else "not observed")
        return Trait(TraitName.ZERO_SIGN, text, f"sign of zero {text}")


def describe_special(seen: Sequence[Observed], unanswered: Sequence[Unanswered], fmt: BlockFormat) -> list[Trait]:
    """NaN, Inf and zero blocks."""
    traits = []
    for topic, name in (("nan", TraitName.NAN), ("inf", TraitName.INF), ("zero-block", TraitName.ZERO_BLOCK)):
        rows = [s for s in seen if s.case.topic == topic and s.case.tensor is None and s.dtype == "float32"]
        if not rows:
            rows = [s for s in seen if s.case.topic == topic and s.dtype == "float32"]
        failed = [u.reason for u in unanswered if u.case.topic == topic and not u.reason.is_unsupported]
        if failed:
            fate, text = _Fate.NO_ANSWER, f"{failed[0].kind}: {failed[0].message}"
        elif rows:
            fate, text = _describe_fate(topic, rows, fmt)
        else:
            continue
        lost = topic == "nan" and fate not in (_Fate.BLOCK_IS_NAN, _Fate.LANE_IS_NAN)
        traits.append(Trait(name, text, f"NaN: {text}" if lost else ""))
    return traits


class _Fate(Enum):
    """What becomes of blocks with special values."""

    NO_ANSWER = "no answer"
    SILENTLY_LOST = "silently lost"
    BLOCK_IS_NAN = "the block is NaN"
    LANE_IS_NAN = "the lane is NaN"
    NAN_LOST = "the NaN is lost"
    OTHER = "a number"


def _describe_fate(topic: str, rows: Sequence[Observed], fmt: BlockFormat) -> tuple[_Fate, str]:
    scales = sorted({int(s.scales.reshape(-1)[0]) for s in rows})
    listed = "/".join(f"{b:02x}" for b in scales[:3]) + (" ..." if len(scales) > 3 else "")
    empty = all((fold_zeros(fmt.element)[s.codes] == 0).all() for s in rows)
    if topic != "zero-block" and empty and all(b != fmt.scale.nan_code for b in scales):
        return _Fate.SILENTLY_LOST, f"scale {listed}, every code zero: silently lost"
    if all(b == fmt.scale.nan_code for b in scales):
        return _Fate.BLOCK_IS_NAN, f"scale {listed}: the block is NaN"
    if topic == "nan":
        is_nan = flag_nan(fmt.element)  # of codes beyond the format's width too
        blocks = [s for s in rows if np.isnan(s.case.x).any()]
        lost = sum(not (is_nan[s.codes].any() or (s.scales == fmt.scale.nan_code).any()) for s in blocks)
        fate = _Fate.NAN_LOST if lost else _Fate.LANE_IS_NAN
        return fate, f"scale {listed}, {fate.value}" + (f" in {lost} of {len(blocks)} blocks" if 0 < lost < len(blocks) else "")
    return _Fate.OTHER, f"scale {listed}" + ("" if topic == "inf" or empty else ", codes not zero")
