"""Single numbers in calls as large as kernels are called with, again and again, in threads, and after other calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mxspec.elements import encode
from mxspec.formats import get_scalar
from mxspec.rounding import RoundingName
from mxspec_conformance.judge.invariance import near_ties
from mxspec_conformance.judge.invariance.answered import Answered, call_failure
from mxspec_conformance.judge.invariance.history import Drawn, Verb, Workload, judge_history, judge_nothing, judge_refusable
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pace import Budget, Speed, find_budget
from mxspec_conformance.judge.invariance.pools import Places, draw_places
from mxspec_conformance.judge.invariance.reach import LOCAL, SEES_SHAPES
from mxspec_conformance.judge.invariance.refusals import judge_wide_integers
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.sessions import TargetSession

#: Numbers that are asked with other options, as they were answered in one small call.
OPTION_NUMBERS = 704
#: Roundings that few offer.
OTHER_ROUNDINGS = ("rna", "rnz", "rnu", "rtp", "rtn")
#: Numbers in the calls that follow another one, and between NaN.
FEW, MANY = 200, 2500
#: Numbers in calls that are made for memory and history.
HISTORY = (40, 200, 1500, 10007)
#: A NaN whose bits are all ones: what adds to its bits carries into those of the adjacent number.
ALL_ONES = np.uint32(0xFFFFFFFF)


def judge_number_calls(session: TargetSession, answered: Answered, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter calls with numbers that were answered before; returns the first one that differs, by requirement."""
    stored, elements = session.transport == "results-file", session.capabilities.elements
    turn = elements.index(answered.name) if answered.name in elements else 0
    work = _make_workload(session, answered, scorecard, {}, turn=turn)

    def call(count: int) -> Any:
        drawn = _draw(answered, count, 0)
        return run_once(partial(session.call, "timed", answered.function, *drawn.arguments, **drawn.options))

    budget = find_budget(session.transport, call)
    judge_items(work, replace(_make_items(answered, own_path=not turn), budget=budget))
    if not stored:
        often = {Verb.HOLD, Verb.REPEAT, Verb.THREADS, Verb.SIZES} if budget.speed is Speed.CRAWLING else set()
        judge_history(work, set(Verb) - often)
        _judge_special(work, answered)
        _judge_adjacent_nan(work, answered)
        _judge_options(work, answered, budget)
        after, nothing = _draw(answered, FEW, 74), _draw(answered, 0, 72)
        judge_nothing(work, "no numbers", f"no {'values' if answered.function == 'decode' else 'codes'}", nothing, after)
    if session.transport in SEES_SHAPES:
        _judge_refusals(work, answered)
        _judge_other_dtypes(work, answered, budget)
    return work.first


def _draw(answered: Answered, count: int, salt: int, roundings: Sequence[RoundingName] = ()) -> Drawn:
    return _fill(answered, draw_places(count, len(answered.before), salt), roundings)


def _fill(answered: Answered, places: Places, roundings: Sequence[RoundingName] = ()) -> Drawn:
    """The call of numbers at these places, one after the other; what one of the roundings gives exactly is right, too."""
    flat = places.reshape(-1)
    exact = [encode(answered.inputs[0][flat], answered.name, rounding=rounding, sign="ignore")[:, None] for rounding in roundings]

    def find_wrong(answer: Any) -> Any:
        rows = answered.rows(answer)
        wrong = answered.differ(rows, answered.before[flat]) & np.all([rows != codes for codes in exact], axis=0)
        return np.asarray(wrong.any(axis=1))

    def find_mistake(answer: Any) -> str:
        wrong = find_wrong(answer)
        count = f"{int(wrong.sum())} of {len(flat)} numbers got other bits than in another call"
        return f"{count}; the first is number {int(np.argmax(wrong))}" if wrong.any() else ""

    def show(label: str, answer: Any, view: str) -> Failure:
        at = int(np.argmax(find_wrong(answer)))
        return answered.keep_call(call_failure(label, find_mistake(answer)), flat, at, answered.rows(answer)[at])

    return Drawn(answered.arguments(flat), answered.kwargs, find_mistake, show)


def _make_items(answered: Answered, *, own_path: bool = False) -> Items:
    zeros = np.flatnonzero(answered.inputs[0] == 0)
    some = np.flatnonzero(answered.before[:, 0])

    def pick(count: int, number: int, rows: int) -> Places:
        """The first one is not answered with zero, so that nothing else is left behind for the next call."""
        place = draw_places(count, len(answered.before), number)
        place[:1] = some[place[:1] % len(some)] if len(some) else place[:1]
        return place

    return Items(
        width=1,
        flat=True,
        fill=partial(_fill, answered),
        ordinary=np.arange(len(answered.before)),
        pinned=some,
        pick=pick,
        special={"zeros": zeros[:1]},
        own_path=own_path,
    )


def _make_workload(
    session: TargetSession, answered: Answered, scorecard: Scorecard, first: dict[str, Failure], label: str = "", *, turn: int = 0,
    counts: Sequence[int] = HISTORY,
) -> Workload:  # fmt: skip
    """Calls of numbers that were answered; label: what labels say of the numbers."""
    return Workload(
        session=session, function=answered.function, scorecard=scorecard, draw=lambda count, number: _draw(answered, count, 60 + number),
        memory="call-size", sizes={f"{count} numbers{label}": count for count in counts}, first=first, turn=turn,
        prefix=label[2:] and f"{label[2:]}: ",
    )  # fmt: skip


def _judge_special(work: Workload, answered: Answered, label: str = "") -> None:
    """Whether a call with NaN, infinities and zeros writes into its input."""
    label = f"{FEW} numbers{label} with NaN: input afterwards"
    if answered.function != "decode" and work.keeps("call-size", quick=True):
        x, element, *words = _draw(answered, FEW, 71).arguments
        x = x.copy()
        x[::5] = np.resize(np.array([np.nan, np.inf, -np.inf, 0, -0.0, -np.nan], x.dtype), len(x[::5]))
        wrote = run_once(partial(work.session.call, "wrote", answered.function, x, element, *words, **answered.kwargs))
        if not isinstance(wrote, NoAnswer):  # judged elsewhere
            work.settle("call-size", label, ok=not wrote, text="the call wrote into its input")


def _judge_adjacent_nan(work: Workload, answered: Answered) -> None:
    """Every number between NaN whose bits are all ones; what becomes of those is judged elsewhere, and they may be refused."""
    label = "numbers between NaN of all ones"
    if answered.function == "decode" or answered.inputs[0].dtype != np.float32 or not work.keeps("call-size", quick=True):
        return
    drawn = _draw(answered, MANY, 79)
    x, element, *words = drawn.arguments
    between = [np.full(2 * MANY + 1, ALL_ONES, np.uint32) for _ in (x, *words)]
    for all_items, items in zip(between, (x, *words), strict=True):
        all_items[1::2] = items.view(np.uint32)
    x, *words = (a.view(items.dtype) for a, items in zip(between, (x, *words), strict=True))
    answer = run_once(partial(work.session.call, answered.function, x, element, *words, **answered.kwargs))
    if not isinstance(answer, NoAnswer):
        work.judge(label, drawn, answer[1::2], topic="call-size")


def _judge_options(work: Workload, answered: Answered, budget: Budget) -> None:
    """Other roundings and overflow in larger calls, in views and in threads, as in a small call."""
    if answered.function != "encode":
        return
    every: tuple[dict[str, Any], ...] = (
        {"rounding": "rtz"}, {"overflow": "own"}, {"rounding": "rtz", "overflow": "own"}, *({"rounding": r} for r in OTHER_ROUNDINGS),
    )  # fmt: skip
    for turn, options in enumerate(every, 1):
        label = ", ".join(options.values())
        if not all(work.session.capabilities.has("encode", o) for o in options) or not work.keeps("call-size", quick=turn <= 3):
            continue
        inputs = tuple(a[draw_places(OPTION_NUMBERS, len(a), 95)] for a in answered.inputs)
        asked = replace(answered, inputs=inputs, kwargs=options)
        small = run_once(partial(work.session.call, "encode", inputs[0], answered.name, **options))
        if not isinstance(small, NoAnswer):  # not offered, or judged elsewhere
            verbs = () if options.get("rounding") in OTHER_ROUNDINGS else (Verb.VIEWS, Verb.THREADS)
            _judge_more(work, replace(asked, before=asked.rows(small)), f", {label}", budget, verbs, turn=turn)


def _judge_more(work: Workload, answered: Answered, label: str, budget: Budget, verbs: Sequence[Verb], *, turn: int) -> None:
    """Numbers that were answered in one small call: some of the sizes, and what calls do to each other."""
    made = _make_workload(work.session, answered, work.scorecard, work.first, label, turn=turn, counts=HISTORY[-2:])
    judge_items(made, replace(_make_items(answered), budget=budget))
    if Verb.PROBE in verbs:
        _judge_special(made, answered, label)
    judge_history(made, set(verbs) - ({Verb.THREADS} if work.session.transport not in LOCAL else set()))


def _judge_other_dtypes(work: Workload, answered: Answered, budget: Budget) -> None:
    """The same numbers in the further dtypes that the target lists for its x: the same codes, however many there are, wherever
    they lie. A target may refuse them: the dtypes of `encode` are float32 alone.
    """
    for turn, dtype in enumerate(work.session.capabilities.dtypes if answered.function != "decode" else ()):
        narrow = cast_exactly(answered, dtype)
        if dtype == "float32" or narrow is None or not work.keeps("call-size", quick=True):
            continue
        whole = _fill(narrow, np.arange(len(narrow.before)))
        answer = run_once(partial(work.session.call, narrow.function, *whole.arguments, **whole.options))
        if isinstance(answer, NoAnswer) and answer.kind is not FailureKind.BAD_RETURN and answer.is_refusal:
            continue
        label = f"{len(narrow.before)} numbers in {dtype}"
        if isinstance(answer, NoAnswer):
            work.scorecard.count_no_answer("refusal", label, answer)
            continue
        work.judge(label, whole, answer, topic="refusal")
        _judge_more(work, narrow, f", {dtype}", budget, (Verb.PROBE, Verb.VIEWS), turn=turn + 1)


def cast_exactly(answered: Answered, dtype: str) -> Answered | None:
    """The items whose numbers another dtype holds exactly, in that dtype; None where there are none."""
    given = answered.inputs[0].astype(np.float32)
    with np.errstate(all="ignore"):
        narrow = cast_input(given, dtype)
        kept = narrow.astype(np.float32).view(np.uint32) == given.view(np.uint32)
    if not kept.any():
        return None
    inputs = (narrow[kept], *(a[kept] for a in answered.inputs[1:]))
    return replace(answered, inputs=inputs, before=answered.before[kept])


def _judge_refusals(work: Workload, answered: Answered) -> None:
    """float64, which is refused or converted; fewer random words than numbers, which are refused.

    More words than numbers are not asked: words are drawn in bulk, and each number has its own. Nor is one word, which by the rules of
    arrays is for all.
    """
    drawn, after = _draw(answered, FEW, 73), _draw(answered, FEW, 74)
    if answered.function == "decode":
        judge_wide_integers(work, drawn, ("codes",), after=after)
        return
    x, element, *words = drawn.arguments
    judge = partial(judge_refusable, work, after=after, lost=False)
    if "float64" not in work.session.capabilities.dtypes:
        call = answered.function, x.astype(np.float64), element, *words
        scalar = get_scalar(element)
        # Arithmetic in float64 may be right where that in float32 is not; how powers of two are rounded is open.
        roundings: Sequence[RoundingName] = () if words else ("rne",) if scalar.signed else ("rne", "rtz", "rtp")
        find_mistake = _draw(answered, FEW, 73, roundings).find_mistake
        answer = judge("float64, which is not offered", *call, find_mistake=find_mistake, **answered.kwargs)
        if answer is not None and not isinstance(answer, NoAnswer) and answered.function == "encode" and scalar.max_code >= 4:
            ask = partial(work.session.call, "encode")
            calls = [partial(ask, x, element) for x in near_ties.list_near_ties(scalar)]
            if work.keeps("refusal", quick=True):
                near_ties.judge_near_ties(work, calls, np.asarray)
    if words:
        text = f"codes came back for {FEW} numbers and 16 random words; refuse such a call"
        call = answered.function, x, element, words[0][:16]
        judge("fewer random words than numbers", *call, find_mistake=lambda _: text, malformed=text, **answered.kwargs)
