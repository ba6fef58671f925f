"""Judging `dequantize_affine`: the values of which contract?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.arrays import dequantize_groups
from mxspec.affine.contracts import list_contracts
from mxspec.affine.formats import AffineFormat, Offset
from mxspec.elements import round_to
from mxspec_conformance.judge.affine.asking import ABREAST, ask_rows, lay_rows
from mxspec_conformance.judge.affine.calls import judge_calls
from mxspec_conformance.judge.affine.groups import Groups, make_groups
from mxspec_conformance.judge.affine.mistakes import Stored, list_mistakes
from mxspec_conformance.judge.affine.quantize import Standing
from mxspec_conformance.judge.affine.showing import format_bits, make_snippet
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.invariance.pace import LARGEST_OF
from mxspec_conformance.judge.invariance.pools import list_neighbours
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import keeps, makes_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.affine_cases import AffineStoredCase, load_affine_stored

Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Seen:
    case: AffineStoredCase
    values: Values
    #: Contract -> its values in the target's dtype.
    right: Mapping[str, Values]
    #: Contracts with these values.
    equals: frozenset[str]
    mistakes: frozenset[str]


def same_values(a: Values, b: Values) -> bool:
    """Whether float32 values are the same, bit for bit; every NaN is alike, and so are the zeros of both signs."""
    return bool(_alike(a, b).all())


def _alike(a: Values, b: Values) -> Values:
    alike: Values = (np.isnan(a) & np.isnan(b)) | (a == b)
    return alike


def ask(session: TargetSession, name: str, cases: Sequence[AffineStoredCase], abreast: int) -> list[Any]:
    """The values of a target, float32 [group] each."""

    def call(rows: Sequence[Sequence[AffineStoredCase]]) -> list[list[Values]]:
        codes = np.stack([np.concatenate([c.codes for c in row]) for row in rows])
        scales, offsets = (np.array([[getattr(c, what) for c in row] for row in rows]) for what in ("scale", "offset"))
        values = session.call("dequantize_affine", codes, scales, offsets, name)
        group = cases[0].codes.size
        return [[values[i, j * group :][:group] for j in range(len(row))] for i, row in enumerate(rows)]

    return ask_rows(cases, call, abreast)


def _output_dtype(session: TargetSession, name: str, case: AffineStoredCase) -> str:
    """The dtype of the values that the target returns."""
    args = (case.codes[None], np.asarray(case.scale)[None, None], np.asarray(case.offset)[None, None], name)
    try:
        return str(session.call("output_dtype", "dequantize_affine", *args))
    except CallError:
        return "float32"


def judge_dequantize(
    session: TargetSession, name: str, claimed: str | None, scorecard: Scorecard, given: Sequence[AffineStoredCase] | None = None, *,
    calls: bool = True,
) -> Standing | None:  # fmt: skip
    """Enter every case; the standing to the contract that the target was judged by, None where nothing was answered.

    given, calls: as for `judge_quantize`.
    """
    fmt = read_operand(name).format
    cases = list(given) if given is not None else [c for c in load_affine_stored(fmt.name) if keeps("dequantize_affine", fmt.name, c.id)]
    if not cases:
        return None
    answers = ask(session, name, cases, ABREAST)
    answered = [(c, a) for c, a in zip(cases, answers, strict=True) if not isinstance(a, NoAnswer)]
    for case, answer in zip(cases, answers, strict=True):
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer(case.topic, case.id, answer, given=partial(_describe, case, fmt))
    if not answered:
        return None
    dtype = _output_dtype(session, name, answered[0][0])
    mistakes = _find_mistakes(cases, {id(c): a for c, a in answered}, fmt, dtype)
    seen = []
    for case, answer in answered:
        right = {c: _round(v, dtype) for c, v in case.values.items()}
        equals = frozenset(c for c, v in right.items() if same_values(answer, v))
        seen.append(_Seen(case, answer, right, equals, mistakes.get(id(case), frozenset())))
    contracts = list(cases[0].values)
    wrong = {c: sum(c not in s.equals for s in seen if _is_finite(s.case)) for c in contracts}
    judged = claimed or min(contracts, key=lambda c: (wrong[c], contracts.index(c)))
    for one in seen:
        names = {Explanation(Cause.AFFINE_MISTAKE, words) for words in one.mistakes}
        if claimed is not None:
            names |= {Explanation(Cause.CONTRACT, c) for c in one.equals}
        scorecard.count(one.case.topic, one.case.id, ok=judged in one.equals, equals=names, show=partial(_show, one, judged, fmt))
    if calls:
        _count_alone(session, name, seen, fmt, scorecard)
    if calls and not wrong[judged]:  # what is wrong alone is known
        _count_neighbours(session, name, cases[0], scorecard)
    if calls and any(_is_finite(s.case) for s in seen):
        stored = [[s.case.codes for s in seen], [s.case.scale for s in seen], [s.case.offset for s in seen]]
        groups = make_groups(stored, [[s.values for s in seen]], [_is_finite(s.case) for s in seen])
        judge_calls(session, "dequantize_affine", name, groups, scorecard)
    return Standing(judged, wrong[judged], sum(_is_finite(s.case) for s in seen))


def _values(fmt: AffineFormat, groups: Groups) -> tuple[Values, ...]:
    """Values of a few groups, to be quantized."""
    with np.errstate(over="ignore"):
        return (groups.answers[0][groups.ordinary[:2]].astype(fmt.numpy_dtype),)


def _round(values: Values, dtype: str) -> Values:
    """Exact values in the target's dtype, as float32."""
    return round_to(values.astype(np.float64), dtype).astype(np.float32)


def _is_finite(case: AffineStoredCase) -> bool:
    return case.topic not in ("nan", "inf")


def _find_mistakes(
    cases: Sequence[AffineStoredCase], answers: dict[int, Values], fmt: AffineFormat, dtype: str
) -> dict[int, frozenset[str]]:
    finite = [c for c in cases if _is_finite(c)]
    rows = lay_rows(finite)
    right = Stored(
        np.array([[c.codes for c in row] for row in rows]),
        np.array([[c.scale for c in row] for row in rows]),
        np.array([[c.offset for c in row] for row in rows]),
    )
    found: dict[int, set[str]] = {id(c): set() for c in finite}
    for words, made in list_mistakes(right, fmt):
        for contract in list_contracts(fmt):
            values = dequantize_groups(made.codes, made.scales, made.offsets, fmt, contract, dtype).astype(np.float32)
            places = [(i, j, case) for i, row in enumerate(rows) for j, case in enumerate(row) if id(case) in answers]
            explained = {id(case) for i, j, case in places if same_values(answers[id(case)], values[i, j])}
            # What would make a right answer wrong explains nothing.
            others = [(case, answers[id(case)]) for *_, case in places if id(case) not in explained]
            if explained and not any(same_values(answer, _round(case.values[contract.name], dtype)) for case, answer in others):
                for key in explained:
                    found[key].add(words)
    return {key: frozenset(names) for key, names in found.items()}


def _count_alone(session: TargetSession, name: str, seen: Sequence[_Seen], fmt: AffineFormat, scorecard: Scorecard) -> None:
    finite = [s for s in seen if _is_finite(s.case)]
    for one, answer in zip(finite, ask(session, name, [s.case for s in finite], 1), strict=True):
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer("call-size", one.case.id, answer)
        else:
            ok = same_values(one.values, answer)
            scorecard.count("call-size", one.case.id, ok=ok, show=partial(_show_two, one, answer, fmt))


def _count_neighbours(session: TargetSession, name: str, case: AffineStoredCase, scorecard: Scorecard) -> None:
    """Every code next to every other, times one and with nothing added, which no contract rounds: a target may look up several at once.

    case: whose dtypes the call has.
    """
    label, fmt = "every pair of adjacent codes", read_operand(name).format
    codes = list_neighbours(1 << fmt.bits, fmt.group)
    if codes.size > LARGEST_OF.get(session.transport, codes.size) or not makes_call(quick=fmt.bits < 8):
        return
    shape = (len(codes), codes.shape[1] // fmt.group)
    scales, offsets = np.ones(shape, np.asarray(case.scale).dtype), np.zeros(shape, np.asarray(case.offset).dtype)
    answer = run_once(partial(session.call, "dequantize_affine", codes, scales, offsets, name))
    if isinstance(answer, NoAnswer):
        if not answer.is_refusal:  # rows may be too long
            scorecard.count_no_answer("affine-code", label, answer)
        return
    wrong = answer != codes

    def show() -> Failure:
        row, column = np.argwhere(wrong)[0].tolist()
        text = f"{int(wrong.sum())} of {wrong.size} codes are read otherwise than alone; a target may look up several at once"
        near = " ".join(map(str, codes[row, max(column - 1, 0) : column + 2].tolist()))
        return Failure(
            case=label, given={"format": fmt.name, "scale": "1", "offset": "0", "code": f"{int(codes[row, column])} at {column}, in {near}"},
            expected={"value": format_bits(codes[row, column].astype(np.float32))}, returned={"value": format_bits(answer[row, column])},
            steps=[text],
        )  # fmt: skip

    scorecard.count("affine-code", label, ok=not wrong.any(), show=show)


def _describe(case: AffineStoredCase, fmt: AffineFormat) -> dict[str, Any]:
    is_bias = fmt.offset is Offset.BIAS
    return {
        "format": fmt.name, "scale": format_bits(case.scale),
        "bias" if is_bias else "zero": format_bits(case.offset) if is_bias else str(int(case.offset)),
    }  # fmt: skip


def _show(one: _Seen, judged: str, fmt: AffineFormat) -> Failure:
    right = one.right[judged]
    wrong = np.flatnonzero(~_alike(right, one.values))
    place = int(wrong[0]) if wrong.size else 0
    return Failure(
        case=one.case.id, given=_describe(one.case, fmt) | {"code": f"{int(one.case.codes[place])} at {place}"},
        expected={"value": format_bits(right[place])}, returned={"value": format_bits(one.values[place])},
        steps=[f"{wrong.size} of {right.size} values are not those of contract {judged}"],
        also=[f"contract {c}" for c in sorted(one.equals)],
        snippet=make_snippet("load_affine_stored", one.case.id, fmt, f'case.values["{judged}"]'),
    )  # fmt: skip


def _show_two(one: _Seen, alone: Values, fmt: AffineFormat) -> Failure:
    wrong = np.flatnonzero(~_alike(one.values, alone))
    place = int(wrong[0]) if wrong.size else 0
    return Failure(
        case=one.case.id, given=_describe(one.case, fmt), expected={"value": format_bits(alone[place])},
        returned={"value": format_bits(one.values[place])},
        steps=[f"alone in its row the group has other values than as one of {ABREAST}; `expected` is that of the group alone"],
    )  # fmt: skip
