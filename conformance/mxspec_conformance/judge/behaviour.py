"""What an implementation does, leaf by leaf, in words; found from what it returned, without a profile that it follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_table
from mxspec.formats import BlockFormat
from mxspec.given import LaneClass, classify_lanes, encode_given_scale
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import Kind, Profile, ScaleRule, ScaleStep
from mxspec_conformance.judge.quantize import Observed, bindings_for
from mxspec_conformance.judge.scalars import ROUNDING_WORDS
from mxspec_conformance.judge.scale import ScaleCase
from mxspec_conformance.observations.bisection import NoAnswer

SCALE_WORDS = {
    ScaleStep.FLOOR: "floor(log2 amax) - emax, exact",
    ScaleStep.CEIL: "ceil(log2 amax) - emax, exact",
    ScaleStep.HALF_UP: "amax rounded half up, then floor (EVEN)",
    ScaleStep.LOG2F_FLOOR: "floor of a float32 log2: one too high just below some powers of two",
    ScaleStep.LOG2F_CEIL: "ceil of a float32 log2: one too low just above some powers of two",
    ScaleStep.LOG2F_ROUND: "float32 log2 rounded to nearest",
}


def name_scale_rule(
    results: Sequence[tuple[ScaleCase, npt.NDArray[np.uint8] | NoAnswer]], fmt: BlockFormat, judged: Profile
) -> tuple[str, dict[str, int]]:
    """The scale rule in words, and the number of wrong bytes under each profile, over maxima of ordinary size.

    Among rules that are equally right it is the judged profile's.
    """
    # A profile that does not answer a case, as one without a tensor scale, does not explain it either.
    wrong = dict.fromkeys((n for case, _ in results for n in case.answers), 0)
    total = 0
    for case, returned in results:
        if isinstance(returned, NoAnswer):
            continue
        ordinary = (case.amax > 0x08000000) & (case.amax < 0x78000000)
        total += int(ordinary.sum())
        for name in wrong:
            answer = case.answers.get(name)
            wrong[name] += int((ordinary if answer is None else (answer != returned)[ordinary]).sum())
    if not total:
        return "not observed", {}
    best = min(wrong, key=lambda n: (wrong[n], n != judged.id))
    words = _rule_words(next(p for p in list_profiles(fmt) if p.id == best), fmt)
    if wrong[best] and (log2 := _name_inexact_log2(results, fmt, judged)):
        words = log2
    elif wrong[best]:
        words += f"; but for {wrong[best]} of {total} maxima"
    return words, wrong


#: A log2 computed in float32, within one unit in its last place, takes at most this many float32 numbers next to a power of
#: two for it: 2**-17 at exponents of 64 and more, times ln 2, in steps of 2**-24.
LOG2_REACH = 89


def _name_inexact_log2(
    results: Sequence[tuple[ScaleCase, npt.NDArray[np.uint8] | NoAnswer]], fmt: BlockFormat, judged: Profile
) -> str | None:
    """In words, that all wrong bytes are one step off next to powers of two, where an inexact log2 puts them; else None."""
    rule = _scale_rule(judged)
    if fmt.has_tensor_scale or rule.offset or rule.step not in (ScaleStep.FLOOR, ScaleStep.CEIL):
        return None
    down = rule.step is ScaleStep.FLOOR
    found = False
    for case, returned in results:
        if isinstance(returned, NoAnswer) or judged.id not in case.answers:
            continue
        expected = case.answers[judged.id]
        wrong = (returned != expected) & (case.amax > 0x08000000) & (case.amax < 0x78000000)
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
    level = profile.one_level or profile.two_level
    assert level is not None
    return level.scale


def _rule_words(profile: Profile, fmt: BlockFormat) -> str:
    rule = _scale_rule(profile)
    if fmt.has_tensor_scale:
        return f"as {profile.id}"
    if rule.step in SCALE_WORDS:
        words = SCALE_WORDS[rule.step]
        if rule.step is ScaleStep.FLOOR and rule.offset:
            words = "twice the floor rule's scale"
        return words
    if rule.step is ScaleStep.ENCODE:
        return f"{rule.value} encoded in e8m0, rounding {rule.rounding.value}"
    return f"as {profile.id}"


def describe_elements(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile) -> dict[str, str]:
    """Rounding and sign of zero, given the scales that were returned."""
    rows: dict[str | None, list[Observed]] = {}
    for s in seen:
        if s.case.is_row and s.case.topic not in ("nan", "inf", "zero-block"):
            rows.setdefault(None if s.case.tensor is None else s.case.tensor["amax"], []).append(s)
    wrong = dict.fromkeys(ROUNDING_WORDS, 0)
    wrong_ties = dict.fromkeys(ROUNDING_WORDS, 0)
    lanes = 0
    signs = {"kept": 0, "lost": 0, "made": 0}
    for members in rows.values():
        try:
            level, bindings = bindings_for(members[0].case, profile)
        except ValueError:
            continue
        x = np.concatenate([m.case.x for m in members])
        scales = np.concatenate([m.scales.reshape(-1) for m in members])
        codes = np.concatenate([m.codes.reshape(-1, fmt.k) for m in members])
        largest = np.abs(x).max(axis=1)
        # The ends of the range have topics of their own.
        usable = (scales <= fmt.scale.max_code) & (largest > 2.0**-100) & (largest < 2.0**100)
        x, scales, codes = x[usable], scales[usable], codes[usable]
        if not len(x):
            continue
        fold = np.arange(256, dtype=np.uint8)
        if not fmt.element.twos_complement:
            fold[fmt.element.sign_bit] = 0
        for number, rounding in enumerate(ROUNDING_WORDS):
            rule = level.element.with_rounding(rounding)
            expected, scaled = encode_given_scale(x, scales, fmt, profile, level, bindings, rule)
            classes = classify_lanes(scaled, x, fmt.element)
            finite = (classes != LaneClass.SPECIAL) & (classes != LaneClass.OVERFLOW)
            different = (fold[expected] != fold[codes]) & finite
            wrong[rounding] += int(different.sum())
            wrong_ties[rounding] += int((different & (classes == LaneClass.TIE)).sum())
            if number == 0:
                lanes += int(finite.sum())
                zero = (classes == LaneClass.ZERO) & (fold[codes] == 0) & np.signbit(x)
                signs["kept"] += int((zero & (codes == fmt.element.sign_bit)).sum())
                signs["lost"] += int((zero & (codes == 0)).sum())
                positive = (classes == LaneClass.ZERO) & (fold[codes] == 0) & ~np.signbit(x)
                signs["made"] += int((positive & (codes == fmt.element.sign_bit)).sum())
    if not lanes:
        return {}
    best = min(ROUNDING_WORDS, key=lambda r: (wrong[r], list(ROUNDING_WORDS).index(r)))
    words = ROUNDING_WORDS[best]
    if wrong[best]:
        words += f"; but for {wrong[best]} of {lanes} elements"
    described = {"elements": words}
    if not fmt.element.twos_complement:
        described["sign of zero"] = _sign_words(signs)
    return described


def _sign_words(signs: dict[str, int]) -> str:
    if signs["made"]:
        return "positive zeros become negative"
    if signs["kept"] and signs["lost"]:
        return "sometimes lost"
    if signs["lost"]:
        return "lost"
    return "kept" if signs["kept"] else "not observed"


def describe_special(
    seen: Sequence[Observed], no_answers: Sequence[tuple[Any, str, NoAnswer]], fmt: BlockFormat
) -> dict[str, str]:
    """NaN, Inf and zero blocks."""
    described = {}
    for topic, label in (("nan", "NaN in a block"), ("inf", "Inf in a block"), ("zero-block", "block of zeros")):
        rows = [s for s in seen if s.case.topic == topic and s.case.tensor is None and s.dtype == "float32"]
        if not rows:
            rows = [s for s in seen if s.case.topic == topic and s.dtype == "float32"]
        failed = [t for c, _, t in no_answers if c.topic == topic and t.kind != "unsupported"]
        if failed:
            described[label] = f"{failed[0].kind}: {failed[0].message.split(':')[0]}"
        elif rows:
            described[label] = _special_words(topic, rows, fmt)
    return described


def _special_words(topic: str, rows: Sequence[Observed], fmt: BlockFormat) -> str:
    scales = sorted({int(s.scales.reshape(-1)[0]) for s in rows})
    listed = "/".join(f"{b:02x}" for b in scales[:3]) + (" ..." if len(scales) > 3 else "")
    magnitude = 0xFF if fmt.element.twos_complement else fmt.element.sign_bit - 1
    empty = all(not (s.codes & magnitude).any() for s in rows)
    if topic != "zero-block" and empty and all(b != fmt.scale.nan_code for b in scales):
        return f"scale {listed}, every code zero: silently lost"
    if all(b == fmt.scale.nan_code for b in scales):
        return f"scale {listed}: the block is NaN"
    if topic == "nan":
        values = decode_table(fmt.element)
        nan_kept = all(np.isnan(values[s.codes.reshape(-1)]).any() for s in rows if np.isnan(s.case.x).any())
        return f"scale {listed}, " + ("the lane is NaN" if nan_kept else "the NaN is lost")
    return f"scale {listed}" + ("" if topic == "inf" or empty else ", codes not zero")


def list_deviations(behaviour: dict[str, str], fmt: BlockFormat, judged: Profile) -> list[str]:
    """The leaves that part from a normative profile, in a few words each."""
    if judged.kind is not Kind.NORMATIVE:
        return []
    found = []
    elements = behaviour.get("elements", "")
    if elements and elements != ROUNDING_WORDS[next(iter(ROUNDING_WORDS))]:
        found.append(elements)
    scale = behaviour.get("scale", "")
    expected_scale = _rule_words(judged, fmt)
    if scale not in ("", "not observed", expected_scale):
        found.append(f"scale: {scale}")
    if behaviour.get("sign of zero") not in (None, "kept", "not observed"):
        found.append(f"sign of zero {behaviour['sign of zero']}")
    nan = behaviour.get("NaN in a block", "")
    if nan and "block is NaN" not in nan and "lane is NaN" not in nan:
        found.append(f"NaN: {nan}")
    return found
