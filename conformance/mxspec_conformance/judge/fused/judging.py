"""The requirements of `quantize_fused`: every element under the nearest contract, then the same numbers in other calls."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mxspec.elements import decode_codes, decode_table
from mxspec.fused.evaluating import evaluate
from mxspec.fused.functions import EPS, Kind, read_fused
from mxspec.fused.legality import Legality
from mxspec_conformance.judge.fused.designs import POOLED, Design, list_cases
from mxspec_conformance.judge.fused.standing import SPECIAL, Answer, Standing, Subject, find_standing, name_mistake
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.history import Drawn, Workload, judge_history
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pools import Places
from mxspec_conformance.judge.tally import Scorecard, judge_tally
from mxspec_conformance.judge.wanted import EVERYTHING, OF_CALLS, Wanted
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import Level, topic_level

OPERATION = "quantize_fused"
#: (rows, units in a row) of the calls that are made for memory and history.
_SHAPES = ((8, 1), (32, 4), (64, 8), (72, 16))


def list_topics(name: str) -> list[str]:
    """The topics under which a fused quantizer is judged."""
    designed = ("sum",) if read_fused(name)[0].kind is Kind.RMSNORM else ("interval", "scale-boundary")
    return ["mixture", "overflow", "subnormal", "zero-block", "position", *SPECIAL, *designed, "call-size", "memory", "state"]


def judge_fused(session: TargetSession, name: str, wanted: Wanted = EVERYTHING) -> tuple[list[Requirement], dict[str, Any]]:
    """The requirements of one fused quantizer, and for each dtype which contract and profile it was judged by."""
    scorecard, details = Scorecard(OPERATION, name, wanted), {}
    for turn, dtype in enumerate(session.capabilities.dtypes):
        subject, answers = Subject(name, dtype, session.capabilities), list[Answer]()
        for case in list_cases(subject.function, subject.fmt, dtype):
            arguments, options = subject.lay(case.given)
            back = run_once(partial(session.call, OPERATION, *arguments, **options))
            if isinstance(back, NoAnswer):
                scorecard.count_no_answer(case.topic, f"{dtype}, {case.label}", back)
            else:
                answers.append(Answer(case, *back))
        if answers:
            standing, also = find_standing(subject, [a for a in answers if a.case.topic not in OF_CALLS] or answers)
            details[dtype] = _enter(standing, answers, scorecard) | ({} if also is None else {"same_bits_as": also.profile.id})
            if standing.wrong and also is None:
                details[dtype]["as_if"] = name_mistake(standing, answers)
            pools = [a for a in answers if a.case.label in POOLED]
            if wanted.calls and pools[0].case.topic == "mixture":
                _judge_calls(session, standing, pools, scorecard, turn)
    requirements = [judge_tally(t, None, lambda tally: None if tally.show is None else tally.show()) for t in scorecard.tallies.values()]
    failing = {dtype: entry for dtype, entry in details.items() if entry["failing"]}
    nearest = "; ".join(
        f"{dtype}: as if {entry['as_if']}" if entry.get("as_if") else f"{dtype}: nearest is {entry['text']} ({entry['contract']})"
        for dtype, entry in failing.items()
    )
    others = {entry.get("same_bits_as", "") for entry in failing.values()}
    for requirement in (r for r in requirements if r.verdict is Verdict.FAIL and r.topic not in OF_CALLS):
        requirement.note = nearest
        if len(others) == 1 and (other := max(others)):
            requirement.verdict, requirement.note, requirement.explained_by = Verdict.DEVIATION, f"as {other}", other
    return requirements, details


def _enter(standing: Standing, answers: list[Answer], scorecard: Scorecard) -> dict[str, Any]:
    """Enter each row as a case; what the report keeps, where decided is the share of elements of which one code under one scale is legal."""
    decided, failing = {}, 0
    for answer in answers:
        legal, case = standing.judge(answer.case.given, answer.codes, answer.scales), answer.case
        wrong = legal.wrong.reshape(answer.codes.shape)
        is_open = topic_level(case.topic, OPERATION, standing.subject.name) is Level.OPEN
        for row in range(len(wrong)):
            label, bad = f"{standing.subject.dtype}, {case.label}, row {row}", bool(wrong[row].any())
            show = partial(_show, standing, answer, legal, (row, int(np.argmax(wrong[row]))), label)
            scorecard.count(case.topic, label, ok=not bad, show=show)
            failing += bad and not is_open
        if case.topic not in SPECIAL:
            decided[case.label] = round(float((legal.decided_codes & legal.decided_scales[:, None]).mean()), 6)
    return {
        "contract": standing.contract.name, "text": standing.contract.describe(standing.subject.function),
        "profile": standing.profile.id, "failing": failing, "cases": sum(len(a.codes) for a in answers), "decided": decided,
    }  # fmt: skip


def _show(standing: Standing, answer: Answer, legal: Legality, at: tuple[int, int], label: str) -> Failure:
    """An element that no contract explains."""
    subject, given = standing.subject, standing.subject.trim(answer.case.given)
    fmt, values = subject.fmt, np.resize(decode_table(subject.fmt.element), 256)
    value, of_amax = evaluate(subject.function, standing.contract, given, EPS)
    block, lane = divmod(at[0] * answer.codes.shape[1] + at[1], fmt.k)

    def write(*codes: int) -> str:
        return " to ".join(f"{code:02x} = {values[code]}" for code in dict.fromkeys(codes))

    expected = {
        "f": f"[{float(value.lo[at])!r}, {float(value.hi[at])!r}]",
        "code": write(int(legal.lowest[block, lane]), int(legal.highest[block, lane])),
        "contract": standing.contract.describe(subject.function),
    }
    if not legal.scales[block]:
        largest = (float(np.abs(end.reshape(-1, fmt.k)[block]).max()) for end in (of_amax.lo, of_amax.hi))
        expected["scale"] = f"that of {standing.profile.id} for an amax in [{', '.join(map(repr, sorted(largest)))}]"
    scale = answer.scales.reshape(-1)[block]
    returned = {"code": write(int(answer.codes[at])), "scale": f"{int(scale):02x} = {decode_codes(scale, fmt.scale)}"}
    inputs = {name: repr(float(array[at[1]] if array.ndim == 1 else array[at])) for name, array in given.items()}
    return Failure(label, {"column": at[1], **inputs}, expected, returned)


def _judge_calls(session: TargetSession, standing: Standing, pools: list[Answer], scorecard: Scorecard, turn: int) -> None:
    """Calls of units that were answered: they come back as they did, or otherwise as legal; an order of additions may follow the shape."""
    subject = standing.subject
    design = Design(subject.function, subject.fmt, subject.dtype)
    width = design.unit

    # Of the weight, which is one for all rows, the first pool's.
    units = {n: a if a.ndim == 1 else _join([p.case.given[n] for p in pools], width) for n, a in pools[0].case.given.items()}
    answers = _join([p.codes for p in pools], width), _join([p.scales for p in pools], width // subject.fmt.k)

    def choose(array: Any, places: Places) -> Any:
        return array if array.ndim == 1 else np.ascontiguousarray(array[places].reshape(len(places), -1))

    def fill(places: Places) -> Drawn:
        given = {name: choose(array, places) for name, array in units.items()}
        wanted = [choose(array, places) for array in answers]

        def find_mistake(answer: Any) -> str:
            wrong = (answer[0] != wanted[0]).any(axis=1) | (answer[1] != wanted[1]).any(axis=1)
            if wrong.any() and not standing.wrong:
                rows = {name: array if array.ndim == 1 else array[wrong] for name, array in given.items()}
                legal = standing.judge(rows, answer[0][wrong], answer[1][wrong])
                wrong[wrong] = legal.wrong.reshape(int(wrong.sum()), -1).any(axis=1)
            return f"{int(wrong.sum())} of {wrong.size} rows differ; the first is row {int(np.argmax(wrong))}" if wrong.any() else ""

        return Drawn(*subject.lay(given), find_mistake)

    zeros = np.flatnonzero(~np.any([a.any(axis=1) for a in units.values() if a.ndim > 1], axis=0))
    ordinary = np.arange(pools[0].codes.size // width)
    items = Items(
        width=width, fill=fill, ordinary=ordinary, special={"zeros": zeros}, own_path=bool(turn),
        takes=lambda shape: shape[1] == 1 or not design.is_norm,
    )  # fmt: skip
    work = Workload(
        session=session, function=OPERATION, scorecard=scorecard, draw=items.draw,
        sizes={f"{rows} x {wide * width}": (rows, wide) for rows, wide in ((r, 1 if design.is_norm else w) for r, w in _SHAPES)},
        show=lambda label, text: replace(call_failure(label, text), given={"function": subject.name, "call": label}),
        turn=session.capabilities.fused.index(subject.name) * len(session.capabilities.dtypes) + turn, prefix=f"{subject.dtype}, ",
    )  # fmt: skip
    judge_items(work, items)
    judge_history(work)


def _join(arrays: list[Any], width: int) -> Any:
    """Units of several calls."""
    return np.concatenate([array.reshape(-1, width) for array in arrays])
