"""Judging `quantize_affine`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import AffineFormat, Offset
from mxspec_conformance.judge.affine.asking import ABREAST, ask_rows, lay_rows
from mxspec_conformance.judge.affine.calls import judge_calls
from mxspec_conformance.judge.affine.groups import Groups, make_groups
from mxspec_conformance.judge.affine.mistakes import Stored, list_mistakes
from mxspec_conformance.judge.affine.off_midpoints import OFF_MIDPOINTS, list_off_midpoints
from mxspec_conformance.judge.affine.showing import format_bits, make_snippet
from mxspec_conformance.judge.affine.soundness import Fault, find_faults
from mxspec_conformance.judge.explanation import Cause, Explanation, by_profiles
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.affine_cases import AffineAnswer, AffineGroupCase, load_affine_groups

Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a target is from a profile."""

    profile: str
    failing: int
    cases: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """A case with what came back, and what is wrong with it under its own scale."""

    case: AffineGroupCase
    answer: AffineAnswer
    faults: dict[Fault, Values]
    #: Profiles that give the same bits.
    equals: frozenset[str]
    #: Mistakes that give the same bits.
    mistakes: frozenset[str]

    @property
    def fault(self) -> Fault | None:
        """The gravest fault."""
        return next((f for f in Fault if self.faults[f].any()), None)


def same_bits(a: AffineAnswer, b: AffineAnswer) -> bool:
    """Whether two answers have the same codes, scale and offset; every NaN is alike, and so are the zeros of both signs.

    Of zeros of both signs either is the smallest: vector instructions choose by their place.
    """
    return bool(np.array_equal(a.codes, b.codes)) and _alike(a.scale, b.scale) and _alike(a.offset, b.offset)


def _alike(a: Values, b: Values) -> bool:
    one, other = np.float32(a), np.float32(b)
    both = (np.isnan(one) and np.isnan(other)) or (one == 0 and other == 0)
    return bool(both) or np.asarray(a).tobytes() == np.asarray(b).tobytes()


def ask(session: TargetSession, name: str, cases: Sequence[AffineGroupCase], abreast: int) -> list[Any]:
    """The answers of a target."""

    def call(rows: Sequence[Sequence[AffineGroupCase]]) -> list[list[AffineAnswer]]:
        x = np.stack([np.concatenate([c.x for c in row]) for row in rows])
        codes, scales, offsets = session.call("quantize_affine", x, name)
        group = cases[0].x.size
        return [
            [AffineAnswer(codes[i, j * group :][:group], scales[i, j], offsets[i, j]) for j in range(len(row))]
            for i, row in enumerate(rows)
        ]

    return ask_rows(cases, call, abreast)


def judge_quantize(
    session: TargetSession, name: str, claimed: str | None, scorecard: Scorecard, given: Sequence[AffineGroupCase] | None = None, *,
    calls: bool = True,
) -> Standing | None:  # fmt: skip
    """Enter every case; the standing to the profile that the target was judged by, None where nothing was answered.

    given: the cases; None: those of the vectors. calls: whether calls of other sizes and in other memory are made as well.
    """
    fmt = read_operand(name).format
    cases = list(given) if given is not None else [c for c in load_affine_groups(fmt.name) if keeps("quantize_affine", fmt.name, c.id)]
    if not cases:
        return None
    answers = ask(session, name, cases, ABREAST)
    seen = _observe(cases, answers, fmt)
    added = list_off_midpoints(fmt, tuple(cases[0].answers)) if given is None else ()
    if added:  # in a call of their own: those of the vectors keep their sizes
        near = ask(session, name, added, ABREAST)
        cases, answers = [*cases, *added], [*answers, *near]
    every = [*seen, *_observe(added, near, fmt)] if added else seen
    profiles = list(cases[0].answers)
    wrong = {p: sum(p not in s.equals for s in every if _is_finite(s.case)) for p in profiles}
    judged = claimed or min(profiles, key=lambda p: (wrong[p], profiles.index(p)))
    for case, answer in zip(cases, answers, strict=True):
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer(case.topic, case.id, answer, given=partial(_describe, case, fmt))
    for one in every:
        _count(one, judged, claimed is not None, fmt, scorecard)
    if calls:
        _count_alone(session, name, seen, fmt, scorecard)
    if calls and any(_is_finite(s.case) for s in seen):
        answers = [[s.answer.codes for s in seen], [s.answer.scale for s in seen], [s.answer.offset for s in seen]]
        groups = make_groups([[s.case.x for s in seen]], answers, [_is_finite(s.case) for s in seen])
        judge_calls(session, "quantize_affine", name, groups, scorecard)
    return Standing(judged, wrong[judged], sum(_is_finite(s.case) for s in every)) if every else None


def _stored(groups: Groups) -> tuple[Values, ...]:
    """What a target made of a few groups, to be dequantized."""
    return tuple(a[groups.ordinary[:2]].reshape(2, -1) for a in groups.answers)


def _is_finite(case: AffineGroupCase) -> bool:
    return case.topic not in ("nan", "inf")


def _observe(cases: Sequence[AffineGroupCase], answers: Sequence[Any], fmt: AffineFormat) -> list[_Seen]:
    answered = [(c, a) for c, a in zip(cases, answers, strict=True) if not isinstance(a, NoAnswer)]
    if not answered:
        return []
    x = np.stack([c.x.astype(np.float32) for c, _ in answered])
    codes = np.stack([a.codes for _, a in answered])
    scales, offsets = np.array([a.scale for _, a in answered]), np.array([a.offset for _, a in answered])
    faults = find_faults(x, codes, scales, offsets, fmt)
    mistakes = _find_mistakes(cases, {id(c): a for c, a in answered}, fmt)
    seen = []
    for i, (case, answer) in enumerate(answered):
        equals = frozenset(p for p, right in case.answers.items() if same_bits(answer, right))
        own = {f: v[i] for f, v in faults.items()}
        if any(_same_scale(answer, right) for right in case.answers.values()):
            own[Fault.COVER] = np.zeros_like(own[Fault.COVER])  # it is the rule of a known library that clips
        seen.append(_Seen(case, answer, own, equals, mistakes.get(id(case), frozenset())))
    return seen


def _same_scale(a: AffineAnswer, b: AffineAnswer) -> bool:
    return _alike(a.scale, b.scale) and _alike(a.offset, b.offset)


def _find_mistakes(cases: Sequence[AffineGroupCase], answers: dict[int, AffineAnswer], fmt: AffineFormat) -> dict[int, frozenset[str]]:
    """Case -> the mistakes under which some profile's answer has the bits that came back, and which no right answer refutes."""
    finite = [c for c in cases if _is_finite(c)]
    rows = lay_rows(finite)
    found: dict[int, set[str]] = {id(c): set() for c in finite}
    for profile in finite[0].answers if finite else ():
        given = [[c.answers[profile] for c in row] for row in rows]
        right = Stored(
            np.array([[a.codes for a in row] for row in given]),
            np.array([[a.scale for a in row] for row in given]),
            np.array([[a.offset for a in row] for row in given]),
        )
        for words, made in list_mistakes(right, fmt):
            places = [(i, j, case) for i, row in enumerate(rows) for j, case in enumerate(row) if id(case) in answers]
            explained = {
                id(case) for i, j, case in places
                if same_bits(answers[id(case)], AffineAnswer(made.codes[i, j], made.scales[i, j], made.offsets[i, j]))
            }  # fmt: skip
            if not any(id(case) not in explained and same_bits(answers[id(case)], case.answers[profile]) for *_, case in places):
                for key in explained:
                    found[key].add(words)
    return {key: frozenset(names) for key, names in found.items()}


def _count(one: _Seen, judged: str, claimed: bool, fmt: AffineFormat, scorecard: Scorecard) -> None:
    case, equal = one.case, judged in one.equals
    names = by_profiles(one.equals) | {Explanation(Cause.AFFINE_MISTAKE, words) for words in one.mistakes}
    show = partial(_show, one, judged, fmt)
    if not _is_finite(case):
        scorecard.count(case.topic, case.id, ok=equal, equals=names, show=show)
        return
    scorecard.count(case.topic, case.id, ok=equal or (not claimed and one.fault is None), equals=names, show=show)
    scorecard.count("affine-profile", case.id, ok=equal, equals=names, show=show)


def _count_alone(session: TargetSession, name: str, seen: Sequence[_Seen], fmt: AffineFormat, scorecard: Scorecard) -> None:
    """The same groups, one to a row: the same answers."""
    finite = [s for s in seen if _is_finite(s.case)]
    if not finite:
        return
    alone = ask(session, name, [s.case for s in finite], 1)
    for one, answer in zip(finite, alone, strict=True):
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer("call-size", one.case.id, answer)
            continue
        same = same_bits(one.answer, answer)
        show = partial(_show_two, one, answer, fmt)
        scorecard.count("call-size", one.case.id, ok=same, show=show)


def _describe(case: AffineGroupCase, fmt: AffineFormat) -> dict[str, Any]:
    x = case.x.astype(np.float32)
    return {
        "format": fmt.name,
        "smallest": f"{x.min()!s}",
        "largest": f"{x.max()!s}",
        "values": " ".join(map(str, x[:8].tolist())) + " ...",
    }


def _tell(answer: AffineAnswer, fmt: AffineFormat, place: int) -> dict[str, Any]:
    offset = "bias" if fmt.offset is Offset.BIAS else "zero"
    return {
        "scale": format_bits(answer.scale), offset: format_bits(answer.offset) if fmt.offset is Offset.BIAS else str(int(answer.offset)),
        "code": f"{int(answer.codes[place])} at {place}",
    }  # fmt: skip


def _show(one: _Seen, judged: str, fmt: AffineFormat) -> Failure:
    right, fault = one.case.answers[judged], one.fault
    differing = np.flatnonzero(one.answer.codes != right.codes)
    place = int(np.flatnonzero(one.faults[fault])[0]) if fault is not None else int(differing[0]) if differing.size else 0
    steps = [f"{fault.value}: number {place}, {float(np.float32(one.case.x[place]))!r}"] if fault is not None else []
    if not _alike(one.answer.scale, right.scale):
        steps.append(f"the scale is not that of {judged}")
    if not _alike(one.answer.offset, right.offset):
        steps.append(f"the {'bias' if fmt.offset is Offset.BIAS else 'zero point'} is not that of {judged}")
    if differing.size:
        steps.append(f"{differing.size} of {right.codes.size} codes are not those of {judged}")
    return Failure(
        case=one.case.id, given=_describe(one.case, fmt), expected=_tell(right, fmt, place),
        returned=_tell(one.answer, fmt, place), steps=steps, also=sorted(one.equals),
        snippet="" if one.case.id.startswith(OFF_MIDPOINTS) else make_snippet("load_affine_groups", one.case.id, fmt, f'case.answers["{judged}"]'),
    )  # fmt: skip


def _show_two(one: _Seen, alone: AffineAnswer, fmt: AffineFormat) -> Failure:
    differing = np.flatnonzero(one.answer.codes != alone.codes)
    place = int(differing[0]) if differing.size else 0
    return Failure(
        case=one.case.id, given=_describe(one.case, fmt), expected=_tell(alone, fmt, place),
        returned=_tell(one.answer, fmt, place),
        steps=[f"alone in its row the group has another answer than as one of {ABREAST}; `expected` is that of the group alone"],
    )  # fmt: skip
