"""What a target is: the profile that it follows or is nearest to, its leaves, and what tells it from its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import BlockFormat
from mxspec.given import LaneClass, classify_lanes, encode_given_scale
from mxspec.profiles.schema import Profile
from mxspec_conformance.identification.returned import find_layouts
from mxspec_conformance.identification.separate import Separation, separate
from mxspec_conformance.judge import behaviour, quantize as judge_quantize, scale as judge_scale
from mxspec_conformance.judge.quantize import Observed, bindings_for
from mxspec_conformance.targets.sessions import CallError, TargetSession

#: Neighbouring profiles that are told apart by an input of their own.
_NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A profile near the target, and the input that tells them apart."""

    profile: str
    #: Failing cases under it.
    distance: int
    #: The input, if the two profiles differ, and the scale byte and codes that came back.
    separation: Separation | None
    returned: tuple[int, bytes] | None
    #: `nearest`, `neighbour`, `neither`, or empty where nothing came back.
    agrees_with: str


@dataclass(slots=True)
class Identity:
    """What a target does in one format."""

    format: str
    nearest: str = ""
    provisional: bool = False
    #: Cases that are not the nearest profile's, of all.
    distance: int = 0
    cases: int = 0
    #: Profiles that agree in every bit.
    identical: list[str] = field(default_factory=list)
    leaves: dict[str, str] = field(default_factory=dict)
    #: The nearest profile's arithmetic, stage by stage.
    arithmetic: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)
    neighbours: list[Neighbour] = field(default_factory=list)


def identify_format(session: TargetSession, fmt: BlockFormat) -> Identity:
    """The identity of one format that the target quantizes."""
    profiles = mxspec.list_profiles(fmt)
    identity = Identity(fmt.name, layouts=find_layouts(session, fmt))
    seen: list[Observed] = []
    no_answers = []
    for item in judge_quantize.observe(session, fmt.name, judge_quantize.load_cases(fmt.name)):
        seen.append(item) if isinstance(item, Observed) else no_answers.append(item)
    lost = [c for c, _, t in no_answers if t.kind != "unsupported"]
    scales = judge_scale.observe_scales(session, fmt.name, judge_scale.load_scale_cases(fmt.name))
    if not seen:
        identity.leaves = {"quantize": no_answers[0][2].message if no_answers else "nothing came back"}
        return identity
    identical = judge_quantize.identical_profiles(seen, fmt, profiles)
    refusing = {p.id for p in profiles if not any(p.id in c.answers for c in lost)}
    identity.identical = [
        p.id for p in profiles if p.id in identical & refusing and judge_scale.scales_identical(scales, fmt, p)
    ]
    counted = _count(seen, lost, scales, fmt, profiles)
    order = sorted(counted, key=lambda n: (n not in identity.identical, counted[n], -_answered(seen, n)))
    nearest = mxspec.get_profile(order[0], fmt)
    identity.nearest, identity.provisional, identity.distance = nearest.id, nearest.provisional, counted[nearest.id]
    identity.cases = sum(nearest.id in s.case.answers for s in seen) + sum(
        len(c.amax) for c, _ in scales if nearest.id in c.answers
    )
    identity.leaves = _describe(session, fmt, nearest, seen, no_answers, scales)
    identity.arithmetic = describe_arithmetic(nearest)
    identity.neighbours = [
        _separate(session, fmt, nearest.id, name, counted[name])
        for name in order[1:]
        if name not in identity.identical
    ][:_NEIGHBOURS]
    return identity


def _count(
    seen: Sequence[Observed], lost: Sequence[Any], scales: Sequence[Any], fmt: BlockFormat, profiles: Sequence[Profile]
) -> dict[str, int]:
    """Failing cases under each profile that speaks of at least half of what was answered."""
    counted = judge_quantize.distances(seen, lost, fmt, profiles)
    for p in profiles:
        counted[p.id] += judge_scale.count_wrong_scales(scales, p.id)
    most = max(_answered(seen, p.id) for p in profiles)
    return {n: c for n, c in counted.items() if 2 * _answered(seen, n) >= most}


def _answered(seen: Sequence[Observed], profile: str) -> int:
    return sum(profile in s.case.answers for s in seen)


def _describe(
    session: TargetSession, fmt: BlockFormat, nearest: Profile, seen: Sequence[Observed], no_answers: Sequence[Any],
    scales: Sequence[Any],
) -> dict[str, str]:  # fmt: skip
    leaves = {"scale": behaviour.name_scale_rule(scales, fmt, nearest)[0]}
    leaves |= behaviour.describe_elements(seen, fmt, nearest)
    leaves["overflow"] = describe_overflow(seen, fmt, nearest)
    leaves |= behaviour.describe_special(seen, no_answers, fmt)
    leaves["subnormal inputs"] = _describe_subnormals(session, fmt)
    words = " ".join(describe_arithmetic(nearest).values())
    if "rcp_" in words:
        leaves["reciprocal"] = "approximate, as the nearest profile's table"
    return {k: v for k, v in leaves.items() if v}


def describe_arithmetic(profile: Profile) -> dict[str, str]:
    """The profile's expressions, of the two-level form where it has one."""
    level = profile.two_level or profile.one_level
    assert level is not None
    found = {
        "block scale": str(level.scale.value),
        "scaled element": str(level.scaled),
        "dequantized": str(level.dequantize),
    }
    if profile.tensor is not None:
        found = {f"tensor scale ({profile.tensor.native.value})": str(profile.tensor.from_amax), **found}
    return found


def describe_overflow(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile) -> str:
    """What becomes of finite elements beyond the largest value, given the returned scale."""
    element, kinds = fmt.element, dict[str, int]()
    for s in seen:
        if not s.case.is_row or s.case.topic in judge_quantize.WHOLE_BLOCK or profile.id not in s.case.answers:
            continue
        level, bindings = bindings_for(s.case, profile)
        scale = np.minimum(s.scales.reshape(-1), fmt.scale.code_count - 1).astype(np.uint8)
        _, scaled = encode_given_scale(s.case.x, scale, fmt, profile, level, bindings)
        over = (classify_lanes(scaled, s.case.x, element) == LaneClass.OVERFLOW) & (np.abs(s.case.x) < 2.0**120)
        for code in s.codes.reshape(1, -1)[over].tolist():
            _, magnitude = element.split(code & (element.code_count - 1))
            word = "saturates" if magnitude in (element.max_code, element.max_code + 1) and not element.is_nan(code) else (
                "the format's Inf" if magnitude == element.inf_code else "NaN" if element.is_nan(code) else "wraps"
            )  # fmt: skip
            kinds[word] = kinds.get(word, 0) + 1
    return ", ".join(sorted(kinds, key=lambda k: -kinds[k])) or "not observed"


def _describe_subnormals(session: TargetSession, fmt: BlockFormat) -> str:
    """Whether float32 subnormals are numbers or zeros; a block's scale reaches that far down only with E8M0."""
    if fmt.has_tensor_scale or "float32" not in session.capabilities.dtypes:
        return ""
    x = np.zeros((1, fmt.k), np.uint32)
    x[0, :2] = 0x00400000, 0x80300000
    try:
        codes, _ = session.call("quantize", x.view(np.float32), fmt.name)
    except CallError as failure:
        return f"{failure.kind}"
    magnitude = 0xFF if fmt.element.twos_complement else fmt.element.sign_bit - 1
    return "kept" if (codes[0, :2] & magnitude).any() else "flushed to zero"


def _separate(session: TargetSession, fmt: BlockFormat, nearest: str, other: str, distance: int) -> Neighbour:
    dtype = "float32" if "float32" in session.capabilities.dtypes else "bfloat16"
    found = separate(nearest, other, fmt.name, dtype=dtype)
    if found is None:
        return Neighbour(other, distance, None, None, "")
    returned = ask_target(session, fmt, found)
    agrees = ""
    if returned is not None:
        agrees = (
            "nearest" if returned == found.answers[0] else "neighbour" if returned == found.answers[1] else "neither"
        )
    return Neighbour(other, distance, found, returned, agrees)


def ask_target(session: TargetSession, fmt: BlockFormat, separation: Separation) -> tuple[int, bytes] | None:
    """What the target returns for a separating block; None where it does not take it or fails."""
    from mxspec_vectors.entries import tensor_scale_entry

    extra: dict[str, Any] = {}
    if separation.tensor_amax is not None:
        if not session.capabilities.has("quantize", "tensor_scale"):
            return None
        bits = int(tensor_scale_entry(separation.tensor_amax)[session.capabilities.tensor_scale], 16)
        extra["tensor_scale"] = float(np.uint32(bits).view(np.float32))
    dtypes = session.capabilities.dtypes
    dtype = judge_quantize.DTYPES["float32" if "float32" in dtypes else dtypes[0]]
    try:
        with np.errstate(all="ignore"):
            codes, scales = session.call(
                "quantize", separation.block.view(np.float32).astype(dtype), fmt.name, **extra
            )
    except CallError:
        return None
    return int(scales.reshape(-1)[0]), codes.reshape(-1).tobytes()
