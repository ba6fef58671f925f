"""What a target is: the profile that it follows or is nearest to, its traits, and what tells it from its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mxspec
from mxspec.elements import decode_codes, decode_table
from mxspec.elements_given_scale import LaneClass, classify_lanes, encode_given_scale
from mxspec.expressions import Apply, Domain, walk
from mxspec.formats import BLOCKS, BlockFormat, get_rows
from mxspec.profiles.schema import Profile
from mxspec_conformance.identification.distinguish import DistinguishingInput, distinguish
from mxspec_conformance.identification.returned import find_layouts
from mxspec_conformance.judge.behaviour import TraitName, describe
from mxspec_conformance.judge.choosing import require_formats
from mxspec_conformance.judge.nearest import find_identical, rank_profiles
from mxspec_conformance.judge.shapes import fit_session
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.quantize import WHOLE_BLOCK, Observed, tensor_argument
from mxspec_conformance.targets.dtypes import DTYPES, preferred_dtype
from mxspec_conformance.targets.errors import CallError, own_errors
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.tensor_scales import TensorScales, bind_profile

#: Neighbouring profiles that are separated by an input of their own.
_NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A profile near the target, and the input that tells them apart."""

    profile: str
    #: Failing cases under it.
    distance: int
    #: The input, if the two profiles differ, and the scale byte and codes that came back.
    separation: DistinguishingInput | None
    returned: tuple[int, bytes] | None
    #: `nearest`, `neighbour`, `neither`, or empty where nothing came back.
    agrees_with: str


@dataclass(slots=True)
class Identity:
    """What a target does in one format."""

    #: The block format.
    format: str
    #: Id of the nearest profile (`judge.nearest`), and whether that profile is provisional.
    nearest: str = ""
    provisional: bool = False
    #: Cases that differ from the nearest profile, and the number of all cases.
    distance: int = 0
    cases: int = 0
    #: Profiles that agree in every bit.
    identical: list[str] = field(default_factory=list)
    #: Name of a trait (scale rule, rounding, NaN ...) -> what the target does, as text.
    traits: dict[str, str] = field(default_factory=dict)
    #: The nearest profile's arithmetic, stage by stage.
    arithmetic: dict[str, str] = field(default_factory=dict)
    #: "codes" and "scales" -> the layout of the returned bytes.
    layouts: dict[str, str] = field(default_factory=dict)
    #: The closest other profiles, each with an input that distinguishes it.
    neighbours: list[Neighbour] = field(default_factory=list)


def has_quantize(target: Any, *, in_process: bool = False, timeout: float = 60.0) -> bool:
    """Whether a target quantizes. Raises TargetError where it does not load."""
    session = open_target(target, in_process=in_process, timeout=timeout)
    try:
        return session.capabilities.has("quantize")
    finally:
        session.close()


def identify(
    target: Any,
    *,
    formats: Sequence[str] | None = None,
    in_process: bool = False,
    timeout: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Identity]:
    """Find out which profile a target follows. This is `mxspec identify`.

    Args:
        target: As for `check`.
        formats: Block formats; default: those that the target lists.
        in_process: Run a path or name in this process.
        timeout: Seconds that one call may take; not for targets in this process.
        progress: Called with the name of each format.

    Returns:
        For each format the profiles that agree in every bit, or the nearest one; the traits of the target; the layout of
        what it returns; and inputs that distinguish it from the nearest other profiles.

    Raises:
        TargetError: The target does not load, or does not offer one of the formats.
        ValueError: It quantizes none of the formats.
    """
    session = fit_session(open_target(target, in_process=in_process, timeout=timeout))
    try:
        capabilities = session.capabilities
        require_formats(capabilities, formats)
        chosen = [f for f in BLOCKS if f in capabilities.formats and (not formats or f in formats)]
        if capabilities.stochastic:
            raise ValueError(f"{capabilities.name} quantizes stochastically, and identify needs answers that repeat; see check")
        if not chosen or not capabilities.has("quantize"):
            what = f"none of {', '.join(formats)}" if formats else "nothing"
            raise ValueError(f"{capabilities.name} quantizes {what}; identify needs quantize")
        found = []
        for name in chosen:
            progress(name)
            found.append(identify_format(session, get_rows(name)))
        return found
    finally:
        session.close()


@own_errors()
def identify_format(session: TargetSession, fmt: BlockFormat) -> Identity:
    """The identity of one format that the target quantizes."""
    observations = Observations(session, fmt)
    identity = Identity(fmt.name, layouts=find_layouts(session, fmt))
    if not observations.answered:
        unanswered = observations.unanswered
        identity.traits = {"quantize": unanswered[0].reason.message if unanswered else "nothing came back"}
        return identity
    profiles = mxspec.list_profiles(fmt)
    identity.identical = find_identical(observations, profiles)
    standings = rank_profiles(observations, _list_speaking(observations, profiles))
    nearest = standings[0].profile
    identity.nearest, identity.provisional, identity.distance = nearest.id, nearest.provisional, standings[0].failing
    identity.cases = sum(nearest.id in s.case.answers for s in observations.answered) + sum(
        len(o.case.amax) for o in observations.scales if nearest.id in o.case.answers
    )
    identity.traits = _describe(observations, nearest)
    identity.arithmetic = describe_arithmetic(nearest)
    identity.neighbours = [
        _separate(session, fmt, nearest.id, standing.profile.id, standing.failing) for standing in standings[1:] if not standing.identical
    ][:_NEIGHBOURS]
    return identity


def _list_speaking(observations: Observations, profiles: Sequence[Profile]) -> list[Profile]:
    """Profiles that speak of at least half as many of the answered cases as the one that speaks of most."""
    spoken = {p.id: sum(p.id in s.case.answers for s in observations.answered) for p in profiles}
    most = max(spoken.values())
    return [p for p in profiles if 2 * spoken[p.id] >= most]


def _describe(observations: Observations, nearest: Profile) -> dict[str, str]:
    session, fmt, answered = observations.session, observations.fmt, observations.answered
    found = {t.name.value: t.text for t in describe(answered, observations.unanswered, observations.scales, fmt, nearest)}
    overflow = describe_overflow(answered, fmt, nearest)
    traits = {}
    for name, text in found.items():  # overflow stands before the special blocks
        if name == TraitName.NAN.value:
            traits["overflow"] = overflow
        traits[name] = text
    traits.setdefault("overflow", overflow)
    traits["subnormal inputs"] = _describe_subnormals(session, fmt)
    if uses_reciprocal_table(nearest):
        traits["reciprocal"] = "approximate, as the nearest profile's table"
    return {k: v for k, v in traits.items() if v}


def uses_reciprocal_table(profile: Profile) -> bool:
    """Whether a profile's arithmetic contains an approximate reciprocal."""
    steps = profile.two_level or profile.one_level
    assert steps is not None
    expressions = [steps.scale.value, steps.scaled, steps.dequantize]
    if profile.tensor is not None:
        expressions.append(profile.tensor.from_amax)
    return any(isinstance(node, Apply) and node.domain is Domain.RCP_APPROX for expression in expressions for node in walk(expression))


def describe_arithmetic(profile: Profile) -> dict[str, str]:
    """The profile's expressions, of the two-level form where it has one."""
    level = profile.two_level or profile.one_level
    assert level is not None
    found = {"block scale": str(level.scale.value), "scaled element": str(level.scaled), "dequantized": str(level.dequantize)}
    if profile.tensor is not None:
        found = {f"tensor scale ({profile.tensor.native.value})": str(profile.tensor.from_amax), **found}
    return found


def describe_overflow(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile) -> str:
    """What becomes of finite elements beyond the largest value, given the returned scale."""
    element, kinds = fmt.element, dict[str, int]()
    for s in seen:
        if not s.case.is_row or s.case.topic in WHOLE_BLOCK or profile.id not in s.case.answers:
            continue
        level, bindings = bind_profile(profile, s.case.tensor)
        scale = np.minimum(s.scales.reshape(-1), fmt.scale.code_count - 1).astype(s.scales.reshape(-1).dtype)
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
    """Whether float32 subnormals are numbers or zeros; open where they are zeros under the scale that comes back, as one with a floor."""
    if fmt.has_tensor_scale or "float32" not in session.capabilities.dtypes:
        return ""
    x = np.zeros((1, fmt.k), np.uint32)
    x[0, :2] = 0x00400000, 0x80300000
    try:
        codes, scales = session.call("quantize", x.view(np.float32), fmt.name)
    except CallError as failure:
        return f"{failure.kind}"
    magnitude = 0xFF if fmt.element.twos_complement else fmt.element.sign_bit - 1
    if (codes[0, :2] & magnitude).any():
        return "kept"
    values, scale = decode_table(fmt.element).astype(np.float64), float(decode_codes(scales[0, 0], fmt.scale))
    return "flushed to zero" if values[values > 0].min() * scale <= 2.0**-127 else "not observed"


def _separate(session: TargetSession, fmt: BlockFormat, nearest: str, other: str, distance: int) -> Neighbour:
    dtype = "float32" if "float32" in session.capabilities.dtypes else "bfloat16"
    found = distinguish(nearest, other, fmt.name, dtype=dtype)
    if found is None:
        return Neighbour(other, distance, None, None, "")
    returned = ask_target(session, fmt, found)
    agrees = ""
    if returned is not None:
        agrees = "nearest" if returned == found.answers[0] else "neighbour" if returned == found.answers[1] else "neither"
    return Neighbour(other, distance, found, returned, agrees)


def ask_target(session: TargetSession, fmt: BlockFormat, separation: DistinguishingInput) -> tuple[int, bytes] | None:
    """What the target returns for a separating block; None where it does not take it or fails."""
    amax = separation.tensor_amax
    if amax is not None and not session.capabilities.has("quantize", "tensor_scale"):
        return None
    extra = tensor_argument(None if amax is None else TensorScales.from_amax(amax), session.capabilities)
    dtype = DTYPES[preferred_dtype(session.capabilities.dtypes)]
    try:
        with np.errstate(all="ignore"):
            codes, scales = session.call("quantize", separation.block.view(np.float32).astype(dtype), fmt.name, **extra)
    except CallError:
        return None
    return int(scales.reshape(-1)[0]), codes.reshape(-1).tobytes()
