"""Judging `attention`: every output lies between proven ends, which most designed calls bring together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from mxspec.attention import CacheSpec, Call, bound_outputs, decode_rows, find_visible, parse_attention, read_rows
from mxspec_conformance.judge.attention.calls import judge_attention_calls
from mxspec_conformance.judge.attention.cases import OPERATION, AttentionCase, list_cases
from mxspec_conformance.judge.attention.mistakes import MISTAKES, find_mistakes
from mxspec_conformance.judge.explanation import Explanation
from mxspec_conformance.judge.tally import Scorecard, common_explanation, judge_tally
from mxspec_conformance.judge.wanted import Wanted
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.sessions import TargetSession

#: A target that is wrong in one call, and one more of so many, gets the calls of other sizes and memory as well.
FEW = 16


def judge_attention(session: TargetSession, text: str, wanted: Wanted) -> list[Requirement]:
    """The requirements of one form of attention."""
    spec = parse_attention(text)
    scorecard = Scorecard(OPERATION, spec.name, wanted)
    called = [
        (case, ask(session, OPERATION, case)) for case in list_cases(spec, session.capabilities) if keeps(OPERATION, spec.name, case.label)
    ]
    # A kernel may have pages of some sizes: of those that it takes, every call is answered.
    taken = {_page(case.call) for case, answer in called if not isinstance(answer, NoAnswer)}
    named: dict[str, frozenset[Explanation]] = {}
    wrong = 0
    for case, answer in called:
        if isinstance(answer, NoAnswer):
            limited = answer.is_refusal and bool(taken) and _page(case.call) not in taken
            scorecard.count_no_answer(case.topic, case.label, unsupported(answer.message) if limited else answer)
            continue
        allowed = bound_outputs(case.call).accept(answer, case.out_dtype)
        ok = bool(allowed.all())
        wrong += not ok
        if not ok:
            named[case.topic] = find_mistakes(case, answer, named.get(case.topic))
        show = partial(show_outputs, case, answer, allowed)
        scorecard.count(case.topic, case.label, ok=ok, equals=named.get(case.topic, ()), show=show)
    if taken and wrong <= 1 + len(called) // FEW:  # what is wrong alone is shown there
        judge_attention_calls(session, spec, scorecard, 16 if 16 in taken or spec.ragged else min(taken))
    return list(judge_tallies(scorecard, MISTAKES))


def ask(session: TargetSession, function: str, case: Any) -> Any:
    """The output, or all of them, which no later call changes; or why there is none."""
    answer = run_once(partial(session.call, function, *case.arguments, **case.options))
    return answer if isinstance(answer, NoAnswer) else tuple(map(np.array, answer)) if isinstance(answer, tuple) else np.array(answer)


def judge_tallies(scorecard: Scorecard, mistakes: Iterable[str]) -> Iterator[Requirement]:
    """The verdicts, each with the mistake that explains its requirement; of several the first."""
    order = {text: n for n, text in enumerate(mistakes)}
    for tally in scorecard.tallies.values():
        explanation = common_explanation([tally], lambda e: (order.get(e.name, len(order)),))
        requirement = judge_tally(tally, explanation, lambda t: None if t.show is None else t.show())
        if explanation is not None and requirement.verdict is Verdict.FAIL:
            requirement.note = f"as if {explanation.name}"
        yield requirement


def _page(call: Call) -> int:
    return 0 if call.page_table is None else int(call.k.shape[2 if call.spec.heads_first else 1])


def show_outputs(case: AttentionCase, output: Any, allowed: Any) -> Failure:
    """The first wrong query: which row of V it read, and which one it had to read, as far as the numbers tell."""
    call, spec = case.call, case.call.spec
    token, head, lane = (int(n) for n in np.argwhere(~allowed)[0])
    sequence = int(np.searchsorted(call.starts, token, side="right")) - 1
    query = token - int(call.starts[sequence])
    bounds = bound_outputs(call)
    low, high = float(bounds.low[token, head, lane]), float(bounds.high[token, head, lane])
    where = f"query {query} of head {head} of sequence {sequence}"
    rows = _name_rows(call)
    read = rows.get(_key(output[token, head]), "")
    due = rows.get(_key((bounds.low[token, head] + bounds.high[token, head]) / 2), "")
    if bounds.empty[token, head]:
        due = "no key"
    steps = [f"{where} read {read or 'no single row of V'}" + (f", not {due}" if due else "")]
    page = f"pages of {_page(call)}, " if _page(call) else ""
    seen = find_visible(
        int(call.starts[sequence + 1]) - int(call.starts[sequence]), int(call.lengths[sequence]), causal=call.causal,
        top_left=spec.top_left, window=call.window,
    )[query]  # fmt: skip
    keys = np.flatnonzero(seen)
    given = {
        "attention": spec.text,
        "call": case.label,
        "lengths": f"{page}keys {call.lengths.tolist()}, queries {np.diff(call.starts).tolist()}",
        "seen": f"keys {keys[0]} to {keys[-1]}" if len(keys) else "no key",
    } | {
        name: str(value.tolist() if isinstance(value, np.ndarray) else value)
        for name, value in case.options.items()
        if name != "page_table"
    }
    ends = f"{(low + high) / 2!r}" if bounds.certain[token, head] else f"{low!r} to {high!r}"
    expected = "0 or NaN" if bounds.empty[token, head] else ends
    name = f"output [{token}, {head}, {lane}]"
    return Failure(
        case=case.label, given=given, expected={name: expected}, returned={name: repr(float(output[token, head, lane]))}, steps=steps
    )


def _key(row: Any) -> bytes:
    """What two outputs that are one row have in common: rows of V have six bits a number, or seven."""
    with np.errstate(all="ignore"):
        return (np.asarray(row, np.float32) + np.float32(0)).astype(np.float16).tobytes()


def _name_rows(call: Call) -> dict[bytes, str]:
    """Each row of V by its numbers."""
    spec: CacheSpec = call.spec
    named: dict[bytes, str] = {}
    places: list[tuple[tuple[int, ...], str, str]]
    values = decode_rows(call.v if call.page_table is None else read_rows(call.v, spec), spec.v, call.v_scale)
    if call.page_table is None:
        ends = np.cumsum(call.lengths)
        owners = [
            (n, token - int(ends[n] - call.lengths[n]))
            for token in range(len(values))
            for n in [int(np.searchsorted(ends, token, "right"))]
        ]
        places = [((token,), f"key {key} of", f"of sequence {n}") for token, (n, key) in enumerate(owners)]
    else:
        page, places = _page(call), []
        used = {int(p): (n, i) for n, pages in enumerate(call.page_table) for i, p in enumerate(pages[: -(-int(call.lengths[n]) // page)])}
        for number in range(len(values)):
            for place in range(page):
                n, i = used.get(number, (-1, 0))
                key = i * page + place
                behind = bool(n >= 0 and key >= call.lengths[n])
                text = f"of sequence {n}" + f", which has {call.lengths[n]}" * behind if n >= 0 else "of no sequence"
                places.append(((number, place), f"key {key} of" if n >= 0 else f"place {place} of page {number} of", text))
    for where, key_text, of in places:
        for head in range(values.shape[-2]):
            named.setdefault(_key(values[(*where, head)]), f"{key_text} head {head} {of}")
    return named
