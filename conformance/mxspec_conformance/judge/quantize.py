"""Judging `quantize`: is a block legal, are its elements right given its scale, is its scale right given the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.exact import choose_level
from mxspec.formats import BlockFormat, ElementFormat, get_block
from mxspec.given import LaneClass, classify_lanes, encode_given_scale
from mxspec.profiles import name_main_profile
from mxspec.profiles.schema import Kind, Profile
from mxspec.tensorscale import bind_arrays
from mxspec_conformance.judge.scalars import ROUNDING_WORDS
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.entries import code_digits, native_tensor_scale
from mxspec_vectors.files import read_document

Codes = npt.NDArray[np.uint8]

#: Topics in which the whole block is compared with the legal answers.
WHOLE_BLOCK = ("nan", "inf", "zero-block")
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

#: What the names of input dtypes mean.
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a quantize or scale file, read."""

    id: str
    topic: str
    x: npt.NDArray[np.float32]
    axis: int
    pad: bool
    block: tuple[int, int] | None
    tensor: dict[str, str] | None
    #: Profile id -> legal answers as (scale low, scale high, codes, mask, nan lanes), canonical first.
    answers: dict[str, tuple[Answer, ...]]

    @property
    def is_row(self) -> bool:
        """Whether the case is one block along the last axis."""
        return self.x.shape[0] == 1 and self.axis == -1 and not self.pad and self.block is None


@dataclass(frozen=True, slots=True)
class Answer:
    """One legal answer to a case; arrays in the order of the returned ones."""

    scale: Codes
    scale_max: Codes
    codes: Codes
    mask: Codes
    nan_lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """What a target returned for a case in one dtype."""

    case: Case
    dtype: str
    scales: Codes
    codes: Codes

    @property
    def label(self) -> str:
        """The case's id, with the dtype where it is not float32."""
        return dtype_label(self.case, self.dtype)


def dtype_label(case: Case, dtype: str) -> str:
    """The label of a case in an input dtype."""
    return case.id if dtype == "float32" else f"{case.id}@{dtype}"


def _bytes_of(text: str, digits: int) -> Codes:
    if digits == 2:
        return np.frombuffer(bytes.fromhex(text), np.uint8)
    return np.array([int(c, 16) for c in text], np.uint8)


@lru_cache(maxsize=16)
def load_cases(fmt: str) -> tuple[Case, ...]:
    """The quantize cases of a format, read once."""
    document = read_document("quantize", fmt)
    block = get_block(fmt)
    digits, profiles = code_digits(block), document["profiles"]
    cases = []
    for entry in document["cases"]:
        answers: dict[str, tuple[Answer, ...]] = {}
        for expected in entry["expect"]:
            rows = tuple(_read_answer(row, digits) for row in expected["any"])
            for index in expected["profiles"]:
                answers[profiles[index]] = rows
        bits = np.frombuffer(bytes.fromhex(entry["x"]), ">u4").astype(np.uint32)
        cases.append(
            Case(
                id=entry["id"],
                topic=entry["topic"],
                x=bits.view(np.float32).reshape(entry["shape"]),
                axis=entry.get("axis", -1),
                pad=entry.get("pad", False),
                block=tuple(entry["block"]) if "block" in entry else None,
                tensor=entry.get("tensor_scale"),
                answers=answers,
            )
        )
    return tuple(cases)


def _read_answer(row: dict[str, Any], digits: int) -> Answer:
    codes = _bytes_of(row["codes"], digits)
    scale = _bytes_of(row["scale"], 2)
    return Answer(
        scale=scale,
        scale_max=_bytes_of(row["scale_max"], 2) if "scale_max" in row else scale,
        codes=codes,
        mask=_bytes_of(row["mask"], digits) if "mask" in row else np.full(codes.shape, 0xFF, np.uint8),
        nan_lanes=tuple(row.get("nan_lanes", ())),
    )


@lru_cache(maxsize=16)
def _nan_codes(element: ElementFormat) -> npt.NDArray[np.bool_]:
    return np.array([c < element.code_count and element.is_nan(c) for c in range(256)])


@lru_cache(maxsize=16)
def _zero_folded(element: ElementFormat) -> Codes:
    """Each code, with negative zero made positive."""
    fold = np.arange(256, dtype=np.uint8)
    if not element.twos_complement:
        fold[element.sign_bit] = 0
    return fold


def answer_matches(answer: Answer, scales: Codes, codes: Codes, element: ElementFormat, *, signs: bool) -> bool:
    """Whether a returned tensor is this answer; signs: whether the sign of zero counts."""
    flat, returned = scales.reshape(-1), codes.reshape(-1)
    if (flat < answer.scale).any() or (flat > answer.scale_max).any():
        return False
    if signs:
        different = returned ^ answer.codes
    else:
        fold = _zero_folded(element)
        different = fold[returned] ^ fold[answer.codes]
    if (different & answer.mask).any():
        return False
    return bool(_nan_codes(element)[returned[list(answer.nan_lanes)]].all())


def equal_profiles(seen: Observed, fmt: BlockFormat, *, signs: bool) -> frozenset[str]:
    """Profiles of which what was returned is a legal answer."""
    known: dict[int, bool] = {}
    equal = set()
    for profile, answers in seen.case.answers.items():
        key = id(answers)
        if key not in known:
            known[key] = any(answer_matches(a, seen.scales, seen.codes, fmt.element, signs=signs) for a in answers)
        if known[key]:
            equal.add(name_main_profile(profile, seen.dtype))
    return frozenset(equal)


def tensor_argument(case: Case, kind: str) -> dict[str, Any]:
    """The keyword that hands a case's tensor scale over, in the kind that the target takes."""
    if case.tensor is None:
        return {}
    return {"tensor_scale": float(np.uint32(int(case.tensor[kind], 16)).view(np.float32))}


def representable(x: npt.NDArray[np.float32], dtype: str) -> bool:
    """Whether every value survives a 16-bit dtype."""
    if dtype == "float32":
        return True
    with np.errstate(all="ignore"):
        back = x.astype(DTYPES[dtype]).astype(np.float32)
    return bool((np.isnan(x) | (back.view(np.uint32) == x.view(np.uint32))).all())


def cast_input(x: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[Any]:
    """x in an input dtype; a NaN keeps the upper bits of its payload, which a cast would make quiet."""
    with np.errstate(all="ignore"):
        narrow = x.astype(DTYPES[dtype])
    if dtype == "float32" or not np.isnan(x).any():
        return narrow
    bits, words = x.view(np.uint32), narrow.view(np.uint16)
    if dtype == "bfloat16":
        kept, fraction = bits >> 16, np.uint32(0x7F)
    else:
        kept, fraction = bits >> 16 & 0x8000 | 0x7C00 | bits >> 13 & 0x3FF, np.uint32(0x3FF)
    words[...] = np.where(np.isnan(x) & (kept & fraction != 0), kept, words)
    return narrow


def observe(session: TargetSession, fmt: str, cases: Sequence[Case]) -> list[Observed | tuple[Case, str, NoAnswer]]:
    """Every case in every dtype that the target takes: what came back, or why nothing did."""
    capabilities = session.capabilities
    results: list[Observed | tuple[Case, str, NoAnswer]] = []
    for dtype in capabilities.dtypes:
        chosen = [c for c in cases if representable(c.x, dtype) and keeps("quantize", fmt, c.id)]
        for batch in _batches(chosen):
            refusal = _refusal(batch[0], capabilities)
            if refusal is not None:
                results += [(c, dtype, NoAnswer("unsupported", refusal)) for c in batch]
                continue
            answers = _observe_batch(session, fmt, batch, dtype)
            for case, answer in zip(batch, answers, strict=True):
                if isinstance(answer, NoAnswer):
                    results.append((case, dtype, answer))
                else:
                    results.append(Observed(case, dtype, *answer))
    return results


def _batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Rows with one tensor scale together, special values apart; other shapes alone."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        if case.is_row:
            special = case.topic if case.topic in WHOLE_BLOCK else ""
            groups.setdefault((special, None if case.tensor is None else case.tensor["amax"]), []).append(case)
        else:
            groups.setdefault((case.id,), []).append(case)
    yield from groups.values()


def _refusal(case: Case, capabilities: Any) -> str | None:
    if case.tensor is not None and not capabilities.has("quantize", "tensor_scale"):
        return "quantize takes no tensor_scale"
    if case.tensor is None and not capabilities.one_level:
        return "quantize asks for a tensor_scale"
    for keyword, needed in (("axis", case.axis != -1), ("pad", case.pad), ("block", case.block is not None)):
        if needed and not capabilities.has("quantize", keyword):
            return f"quantize takes no {keyword}"
    return None


def _observe_batch(session: TargetSession, fmt: str, batch: list[Case], dtype: str) -> list[Any]:
    extra = tensor_argument(batch[0], session.capabilities.tensor_scale)
    if not batch[0].is_row:
        case = batch[0]
        extra |= {k: v for k, v in (("axis", case.axis), ("block", case.block)) if v not in (-1, None)}
        if case.pad:
            extra["pad"] = True
        return run_bisected(
            batch, lambda items: [_flip(session.call("quantize", cast_input(items[0].x, dtype), fmt, **extra))]
        )

    def call(items: Sequence[Case]) -> list[tuple[Codes, Codes]]:
        rows = cast_input(np.concatenate([c.x for c in items]), dtype)
        codes, scales = session.call("quantize", rows, fmt, **extra)
        return [(scales[i : i + 1], codes[i : i + 1]) for i in range(len(items))]

    return run_bisected(batch, call)


def _flip(pair: tuple[Codes, Codes]) -> tuple[Codes, Codes]:
    return pair[1], pair[0]


def default_scale_topic(fmt: BlockFormat) -> str:
    """Where a wrong scale is reported when the case is about something else."""
    return "scale-tie" if fmt.has_tensor_scale else "scale-boundary"


def as_blocks(case: Case, fmt: BlockFormat, array: npt.NDArray[Any], *, divided: bool) -> npt.NDArray[Any]:
    """A tensor in the case's axis order as blocks [n, k], or (divided) its scales as [n]."""
    axis = case.axis % array.ndim
    moved = np.moveaxis(array, axis, -1)
    return np.ascontiguousarray(moved).reshape(-1) if divided else np.ascontiguousarray(moved).reshape(-1, fmt.k)


def padded_input(case: Case, fmt: BlockFormat, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The input with the zeros that padding adds."""
    widths = [(0, n - m) for n, m in zip(shape, case.x.shape, strict=True)]
    return np.pad(case.x, widths)


def bindings_for(case: Case, profile: Profile) -> tuple[Any, dict[str, Any]]:
    """The profile's arithmetic for a case, and the leaves that its tensor scale binds.

    Raises ValueError where the profile has no such form.
    """
    level = choose_level(profile, with_tensor_scale=case.tensor is not None)
    bindings = {} if case.tensor is None else dict(bind_arrays(profile, native_tensor_scale(profile, case.tensor)))
    return level, bindings


def judge_all(
    seen: Sequence[Observed], fmt: BlockFormat, profile: Profile, scorecard: Scorecard, *, naming: bool = True
) -> None:
    """Enter all returned tensors into the scorecard of a profile; naming: look for what else would return the wrong bits."""
    groups: dict[Any, list[Observed]] = {}
    for number, item in enumerate(seen):
        if item.case.answers.get(profile.id) is not None and not _is_whole(item.case):
            tensor = None if item.case.tensor is None else item.case.tensor["amax"]
            groups.setdefault(tensor if item.case.is_row else number, []).append(item)
    lanes: dict[int, _Lanes] = {}
    for members in groups.values():
        lanes |= {id(m): part for m, part in zip(members, _judge_together(members, fmt, profile, naming), strict=True)}
    for item in seen:
        judge_observed(item, fmt, profile, scorecard, lanes.get(id(item)), naming=naming)


def _is_special_tensor(case: Case) -> bool:
    return case.tensor is not None and int(case.tensor["amax"], 16) >= 0x7F800000


def _is_whole(case: Case) -> bool:
    """Whether the case is compared with the legal answers as a whole."""
    return case.topic in WHOLE_BLOCK or _is_special_tensor(case)


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
    strict = case.topic in ("zero-sign", "zero-block")
    matched = any(answer_matches(a, seen.scales, seen.codes, fmt.element, signs=strict) for a in legal)
    if _is_whole(case):
        topic = case.topic if case.topic in WHOLE_BLOCK else "tensor-scale"
        unsigned = any(answer_matches(a, seen.scales, seen.codes, fmt.element, signs=False) for a in legal)
        if unsigned and not matched:
            scorecard.count("zero-sign", seen.label, ok=False, equals=equal_profiles(seen, fmt, signs=True))
        scorecard.count(topic, seen.label, ok=unsigned, equals=() if unsigned else equal_profiles(seen, fmt, signs=False))
        return
    canonical = legal[0]
    scales = seen.scales.reshape(-1)
    scale_ok = scales == canonical.scale
    equals = frozenset() if (matched and not strict) or not naming else equal_profiles(seen, fmt, signs=strict)
    scale_topic = case.topic if case.topic in OWN_SCALE else default_scale_topic(fmt)
    scorecard.count(scale_topic, seen.label, ok=bool(scale_ok.all()), equals=equals)
    _enter_lanes(seen, fmt, scorecard, equals, lanes or _judge_together([seen], fmt, profile, naming)[0])


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The blocks [n, k] of one tensor, compared with the profile under the scales that were returned."""

    codes: Codes
    expected: Codes
    classes: npt.NDArray[Any]
    #: Blocks whose scale is a number.
    finite: npt.NDArray[np.bool_]
    wrong: npt.NDArray[np.bool_]
    #: What the profile would return if it rounded its elements otherwise: name -> codes; empty where nothing is wrong.
    variants: dict[str, Codes]


def _judge_together(members: Sequence[Observed], fmt: BlockFormat, profile: Profile, naming: bool) -> list[_Lanes]:
    """The lanes of each of several tensors that have one tensor scale."""
    element = fmt.element
    blocks = [as_blocks(m.case, fmt, padded_input(m.case, fmt, m.codes.shape), divided=False) for m in members]
    x = np.concatenate(blocks)
    codes = np.concatenate([as_blocks(m.case, fmt, m.codes, divided=False) for m in members])
    scales = np.concatenate([as_blocks(m.case, fmt, m.scales, divided=True) for m in members])
    finite = (
        scales < fmt.scale.code_count - 1
        if fmt.scale.nan_code == fmt.scale.code_count - 1
        else scales <= fmt.scale.max_code
    )
    level, bindings = bindings_for(members[0].case, profile)
    usable = np.minimum(scales, fmt.scale.code_count - 1).astype(np.uint8)
    expected, scaled = encode_given_scale(x, usable, fmt, profile, level, bindings)
    classes = classify_lanes(scaled, x, element)
    fold = _zero_folded(element)
    wrong = (fold[codes] != fold[expected]) & finite[:, None]
    if element.twos_complement and profile.kind is Kind.NORMATIVE:
        wrong &= ~((codes == 0x80) & (scaled <= INT8_ROUNDS_TO_LOWEST))
    variants = {}
    if naming and wrong.any():
        for rounding, words in ROUNDING_WORDS.items():
            if rounding is not level.element.rounding:
                rule = replace(level.element, rounding=rounding)
                other = encode_given_scale(x, usable, fmt, profile, level, bindings, rule)[0]
                variants[f"{profile.id}{WITH}{words}"] = other
    edges = np.cumsum([0, *map(len, blocks)])
    parts = [slice(int(i), int(j)) for i, j in pairwise(edges)]
    return [
        _Lanes(
            codes=codes[part],
            expected=expected[part],
            classes=classes[part],
            finite=finite[part],
            wrong=wrong[part],
            variants={n: v[part] for n, v in variants.items()} if wrong[part].any() else {},
        )
        for part in parts
    ]


def _enter_lanes(seen: Observed, fmt: BlockFormat, scorecard: Scorecard, equals: frozenset[str], lanes: _Lanes) -> None:
    case, element = seen.case, fmt.element
    codes, expected, classes, wrong = lanes.codes, lanes.expected, lanes.classes, lanes.wrong
    finite = lanes.finite[:, None]
    if (codes >= element.code_count).any():
        scorecard.count("mixture", seen.label, ok=False, equals=())
        return
    fold = _zero_folded(element)
    own = case.topic if case.topic in OWN_LANES else "mixture"

    def enter(topic: str, members: npt.NDArray[np.bool_]) -> None:
        bad = wrong & members
        if not bad.any():
            scorecard.count(topic, seen.label, ok=True)
            return
        named = {n for n, v in lanes.variants.items() if (fold[v[bad]] == fold[codes[bad]]).all()}
        scorecard.count(topic, seen.label, ok=False, equals=equals | named)

    zeros = (fold[expected] == 0) & finite
    if element.sign_bit and not element.twos_complement and zeros.any():
        signs = (codes != expected) & ~wrong & zeros
        scorecard.count("zero-sign", seen.label, ok=not signs.any(), equals=_sign_equals(seen, fmt, bool(signs.any())))
    for kind in np.unique(classes[lanes.finite]) if lanes.finite.any() else ():
        members = classes == kind
        if kind == LaneClass.ZERO:
            enter(own if case.topic in ("axis", "tail") else "subnormal", members)
        elif kind == LaneClass.SPECIAL:
            enter("overflow", members)
        else:
            enter(_LANE_TOPICS.get(LaneClass(int(kind)), own), members)


#: From here down int8 quotients are nearest to the code 80, which a symmetric quantizer leaves out.
INT8_ROUNDS_TO_LOWEST = -127.5 / 64

#: The words between a profile's id and the leaf in which a variant of it differs.
WITH = " with elements rounded "


def _sign_equals(seen: Observed, fmt: BlockFormat, failing: bool) -> frozenset[str]:
    return equal_profiles(seen, fmt, signs=True) if failing else frozenset()


def distances(
    seen: Sequence[Observed], lost: Sequence[Case], fmt: BlockFormat, profiles: Sequence[Profile]
) -> dict[str, int]:
    """Failing cases under each profile; cases that got no answer fail under those that have one."""
    counts = {p.id: sum(p.id in c.answers for c in lost) for p in profiles}
    for observed in seen:
        signs = observed.case.topic == "zero-sign"
        for profile in profiles:
            answers = observed.case.answers.get(profile.id)
            if answers is not None and not any(
                answer_matches(a, observed.scales, observed.codes, fmt.element, signs=signs) for a in answers
            ):
                counts[profile.id] += 1
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
            if not profile.pins_nan_inputs and np.isnan(observed.case.x).any():
                continue
            if not _identical(answers[0], observed, fmt, profile):
                del alive[name]
    return {name for name in alive if answered[name]}


def _identical(answer: Answer, seen: Observed, fmt: BlockFormat, profile: Profile) -> bool:
    if not profile.pins_scale_sign and (seen.scales & fmt.scale.code_count).any():
        seen = replace(seen, scales=seen.scales & np.uint8(fmt.scale.code_count - 1))
    if (
        not profile.pins_nan_blocks
        and answer.scale.size == 1
        and fmt.scale.is_nan(int(answer.scale[0]) & (fmt.scale.code_count - 1))
    ):
        return bool(int(seen.scales.reshape(-1)[0]) & (fmt.scale.code_count - 1) == fmt.scale.nan_code)
    return answer_matches(replace_mask(answer), seen.scales, seen.codes, fmt.element, signs=True)


def replace_mask(answer: Answer) -> Answer:
    """The answer with every bit compared."""
    return replace(answer, mask=np.full(answer.codes.shape, 0xFF, np.uint8), nan_lanes=())
