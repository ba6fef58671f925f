"""Single numbers in calls as large as kernels are called with, again and again, in threads, and after other calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mxspec.formats import get_scalar
from mxspec_conformance.judge.invariance import beside_ties
from mxspec_conformance.judge.invariance.answered import Answered, call_failure
from mxspec_conformance.judge.invariance.calls import NUMBERS
from mxspec_conformance.judge.invariance.history import Drawn, Verb, Workload, judge_history
from mxspec_conformance.judge.invariance.pace import LARGEST_OF, Speed, measure_speed
from mxspec_conformance.judge.invariance.pools import Flags, Places, draw_places
from mxspec_conformance.judge.invariance.reach import LOCAL, REFUSALS, SEES_SHAPES
from mxspec_conformance.judge.invariance.refusals import fails_on_nothing, is_lost
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS, keeps_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import ARRANGEMENTS
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.sessions import TargetSession

#: Numbers that are asked with other options, as they were answered in one small call.
OPTION_NUMBERS = 704
#: Roundings, with numbers of the calls of more than one that are made in each.
ROUNDED, OTHER_ROUNDINGS = (2, 77, 4099), ("rna", "rnz", "rnu", "rtp", "rtn")
#: Numbers in the calls that follow another one; numbers in views, and views.
FEW, MANY, VIEWS = 200, 10007, ("columns", "offset", "reversed")
#: Numbers in calls that are looked at for what they do to each other; runs of one number, and numbers in each.
HISTORY, RUNS, RUN = (40, 200, 1500, 10007), 40, 24
#: A NaN whose bits are all ones: what adds to its bits carries into those of the number beside it.
ALL_ONES = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Numbers:
    """One function of single numbers, asked for what it answered before."""

    session: TargetSession
    answered: Answered
    scorecard: Scorecard
    #: The first call that failed each requirement.
    first: dict[str, Failure] = field(default_factory=dict)

    def draw(self, count: int, salt: int) -> Places:
        """Places of numbers that were answered."""
        return draw_places(count, len(self.answered.before), salt)

    def ask(self, place: Places, *before: str) -> Any:
        """The target's answer for these numbers; before: the name of a call that holds this one."""
        return self.session.call(*before, self.answered.function, *self.answered.arguments(place), **self.answered.kwargs)

    def keeps(self, label: str, *, quick: bool = False) -> bool:
        """Whether a call is among those that are asked."""
        return keeps_call(CALLS, f"{self.scorecard.operation}/{self.scorecard.format}", label, quick=quick)

    def find_wrong(self, place: Places, answer: Any) -> Flags:
        """Which of the numbers got other bits than before."""
        wrong: Flags = np.asarray(self.answered.differ(self.answered.rows(answer), self.answered.before[place]).any(axis=1))
        return wrong

    def settle(self, topic: str, label: str, *, ok: bool, text: str) -> None:
        """Count one call."""
        self.scorecard.count(topic, label, ok=ok)
        if not ok:
            self.first.setdefault(self.scorecard.tally(topic).id, call_failure(label, text))

    def enter(self, topic: str, label: str, place: Places, call: Callable[[], Any]) -> None:
        """Make one call and count it."""
        answer = run_once(call)
        if isinstance(answer, NoAnswer):
            self.scorecard.count_no_answer(topic, label, answer)
            return
        wrong = self.find_wrong(place, answer)
        text = f"{int(wrong.sum())} of {len(place)} numbers got other bits than in another call; the first is number {int(np.argmax(wrong))}"
        self.scorecard.count(topic, label, ok=not wrong.any())
        if wrong.any():
            at = int(np.argmax(wrong))
            kept = self.answered.keep_call(call_failure(label, text), place, at, self.answered.rows(answer)[at])
            self.first.setdefault(self.scorecard.tally(topic).id, kept)


def judge_number_calls(session: TargetSession, answered: Answered, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter calls with numbers that were answered before; returns the first one that differs, by requirement."""
    numbers = Numbers(session, answered, scorecard)
    speed = Speed.FAST
    if session.transport not in LARGEST_OF:
        speed = measure_speed(lambda count: run_once(partial(numbers.ask, numbers.draw(count, 0), "timed")))
    wants = scorecard.wants
    if wants("call-size"):
        # Plain calls first: what is wrong in them is shown as such.
        _judge_counts(numbers, min(speed.largest, LARGEST_OF.get(session.transport, speed.largest)))
        _judge_memory(numbers)
        _judge_runs(numbers)
        _judge_beside_nan(numbers)
        _judge_options(numbers, min(speed.largest, LARGEST_OF.get(session.transport, speed.largest)))
    if session.transport != "results-file" and wants("refusal", "state"):
        _judge_nothing(numbers)
    if session.transport in SEES_SHAPES and wants("refusal", "state"):
        _judge_refusals(numbers)
    if session.transport in SEES_SHAPES and wants("refusal", "call-size"):
        _judge_other_dtypes(numbers)
    if session.transport in LOCAL and wants("state"):
        often = () if speed is Speed.CRAWLING else (Verb.HOLD, Verb.REPEAT, Verb.THREADS, Verb.SIZES)
        judge_history(_make_workload(numbers), (Verb.REUSE, Verb.TWINS, Verb.OTHERS, *often))
    return numbers.first


def _make_workload(numbers: Numbers, told: str = "", counts: Sequence[int] = HISTORY) -> Workload:
    """Calls of numbers that were answered, to be looked at for what they do to each other; told: what labels say of the numbers."""
    answered, scorecard = numbers.answered, numbers.scorecard

    def draw(count: int, number: int) -> Drawn:
        place = numbers.draw(count, 60 + number)

        def find_mistake(answer: Any) -> str:
            wrong = numbers.find_wrong(place, answer)
            return f"{int(wrong.sum())} of {count} numbers got other bits than in another call" if wrong.any() else ""

        return Drawn(answered.arguments(place), answered.kwargs, find_mistake)

    return Workload(
        session=numbers.session, function=answered.function, scorecard=scorecard, draw=draw, memory="call-size", first=numbers.first,
        sizes={f"{count} numbers{told}": count for count in counts}, chosen_by=(CALLS, f"{scorecard.operation}/{scorecard.format}"),
    )  # fmt: skip


def _judge_counts(numbers: Numbers, largest: int) -> None:
    for salt, count in enumerate(NUMBERS, 1):
        label = f"{count} numbers"
        if count <= largest and numbers.keeps(label, quick=count == 65536):
            place = numbers.draw(count, salt)
            numbers.enter("call-size", label, place, partial(numbers.ask, place))


def _judge_runs(numbers: Numbers) -> None:
    """Runs of one number, of zeros first: a vector whose items are all alike, or zero, may be skipped."""
    label, first = f"{RUNS} runs of {RUN} equal numbers, zeros first", numbers.answered.inputs[0]
    if numbers.keeps(label):
        zeros = np.flatnonzero(first == 0)
        place = np.repeat(numbers.draw(RUNS, 78), RUN)
        for run in (0, RUNS // 2) if len(zeros) else ():
            place[run * RUN : (run + 1) * RUN] = zeros[0]
        numbers.enter("call-size", label, place, partial(numbers.ask, place))


def _judge_beside_nan(numbers: Numbers) -> None:
    """Every number between NaN whose bits are all ones; what becomes of those is judged elsewhere, and they may be refused."""
    answered, label = numbers.answered, "numbers between NaN of all ones"
    if answered.function == "decode" or answered.inputs[0].dtype != np.float32 or not numbers.keeps(label):
        return
    place = numbers.draw(LARGEST_OF.get(numbers.session.transport, MANY) // 4, 79)
    between = [np.full(2 * len(place) + 1, ALL_ONES, np.uint32) for _ in answered.inputs]
    for all_items, items in zip(between, answered.inputs, strict=True):
        all_items[1::2] = items[place].view(np.uint32)
    x, *words = (a.view(items.dtype) for a, items in zip(between, answered.inputs, strict=True))
    answer = run_once(partial(numbers.session.call, answered.function, x, answered.name, *words, **answered.kwargs))
    if not isinstance(answer, NoAnswer):
        numbers.enter("call-size", label, place, partial(_given, answer[1::2]))


def _judge_options(numbers: Numbers, largest: int) -> None:
    """Other roundings and overflow in larger calls, in views and in threads, as in a small call."""
    session, answered = numbers.session, numbers.answered
    if answered.function != "encode" or session.transport == "results-file":
        return
    every: tuple[dict[str, Any], ...] = (
        {"rounding": "rtz"}, {"overflow": "own"}, {"rounding": "rtz", "overflow": "own"}, *({"rounding": r} for r in OTHER_ROUNDINGS),
    )  # fmt: skip
    for options in every:
        told = ", ".join(options.values())
        if not all(session.capabilities.has("encode", o) for o in options) or not numbers.keeps(f"numbers, {told}"):
            continue
        inputs = tuple(a[numbers.draw(OPTION_NUMBERS, 95)] for a in answered.inputs)
        asked = replace(numbers, answered=replace(answered, inputs=inputs, kwargs=options))
        small = run_once(partial(asked.ask, np.arange(OPTION_NUMBERS)))
        if isinstance(small, NoAnswer):  # not offered, or judged elsewhere
            continue
        asked = replace(asked, answered=replace(asked.answered, before=answered.rows(small)))
        for salt, count in enumerate(ROUNDED if options.get("rounding") in OTHER_ROUNDINGS else (1, *ROUNDED, 65537), 96):
            if count <= largest:
                place = asked.draw(count, salt)
                asked.enter("call-size", f"{count} numbers, {told}", place, partial(asked.ask, place))
        if options.get("rounding") in OTHER_ROUNDINGS:
            continue
        place = asked.draw(333, 101)
        for arrangement in VIEWS:
            call = partial(session.call, "arranged", arrangement, "encode", *asked.answered.arguments(place), **options)
            if not isinstance(run_once(call), NoAnswer):  # a target may refuse it
                asked.enter("call-size", f"333 numbers, {told}, {arrangement}", place, call)
        if session.transport in LOCAL:
            judge_history(_make_workload(asked, f", {told}", HISTORY[-2:-1]), (Verb.THREADS,))


def _judge_memory(numbers: Numbers, told: str = "") -> None:
    """Whether a larger call writes into its input, or changes what an earlier one returned; one number in all places.

    told: what the labels say of the numbers.
    """
    answered, session = numbers.answered, numbers.session
    if session.transport == "results-file":  # every call of which is stored
        return
    judge_history(_make_workload(numbers, told, HISTORY[-2:]), (Verb.PROBE, Verb.VIEWS))
    _judge_special(numbers, told)
    label = f"{FEW} times one number{told}, which lies in memory once"
    if numbers.keeps(label):
        place = np.repeat(numbers.draw(1, 70), FEW)
        arguments = answered.arguments(place)
        call = partial(session.call, "arranged", "broadcast", answered.function, *arguments, **answered.kwargs)
        if not isinstance(run_once(call), NoAnswer):  # a target may refuse it
            numbers.enter("call-size", label, place, call)


def _judge_nothing(numbers: Numbers) -> None:
    """A call without numbers: none come back, or it is refused; and the call after it is as any other."""
    label, answered = "no numbers", numbers.answered
    if not numbers.keeps(label):
        return
    answer: Any = run_once(partial(numbers.ask, numbers.draw(0, 72)))
    if is_lost(answer):
        numbers.scorecard.count_no_answer("refusal", label, answer)
    else:
        failed = fails_on_nothing(answer)
        text = f"{answer.message}; return no {'values' if answered.function == 'decode' else 'codes'}, or refuse such a call" if failed else ""
        numbers.settle("refusal", label, ok=not failed, text=text)
    place = numbers.draw(FEW, 74)
    numbers.enter("state", "after a call without numbers", place, partial(numbers.ask, place))


def _judge_other_dtypes(numbers: Numbers) -> None:
    """The same numbers in the further dtypes that the target lists for its x: the same codes, however many there are, wherever
    they lie. A target may refuse them: the dtypes of `encode` are float32 alone.
    """
    answered, session = numbers.answered, numbers.session
    for dtype in session.capabilities.dtypes if answered.function != "decode" else ():
        narrow = cast_exactly(answered, dtype)
        if dtype == "float32" or narrow is None or not numbers.keeps(f"numbers in {dtype}"):
            continue
        asked = replace(numbers, answered=narrow)
        everything = np.arange(len(narrow.before))
        whole = run_once(partial(asked.ask, everything))
        if isinstance(whole, NoAnswer) and not is_lost(whole):
            continue
        asked.enter("refusal", f"{len(everything)} numbers in {dtype}", everything, partial(_given, whole))
        for salt, count in enumerate((1, 65, 333, 1024, 65537), 100):
            place = asked.draw(count, salt)
            asked.enter("call-size", f"{count} numbers in {dtype}", place, partial(asked.ask, place))
        place = asked.draw(333, 110)
        for arrangement in ARRANGEMENTS[1:-2]:
            call = partial(session.call, "arranged", arrangement, narrow.function, *narrow.arguments(place), **narrow.kwargs)
            if not isinstance(run_once(call), NoAnswer):  # a target may refuse it
                asked.enter("call-size", f"333 numbers in {dtype}, {arrangement}", place, call)
        _judge_memory(asked, f" in {dtype}")


def _given(answer: Any) -> Any:
    """An answer that has come already, as a call."""
    return answer


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


def _judge_refusals(numbers: Numbers) -> None:
    """float64, which is refused or converted; fewer random words than numbers, which are refused.

    More words than numbers are not asked: words are drawn in bulk, and each number has its own. Nor is one word, which by the rules of
    arrays is for all.
    """
    answered, session = numbers.answered, numbers.session
    if answered.function == "decode":
        _judge_wide_codes(numbers)
        return
    place = numbers.draw(FEW, 73)
    x, element, *words = answered.arguments(place)
    label = "float64, which is not offered"
    if "float64" not in session.capabilities.dtypes and numbers.keeps(label):
        call = partial(session.call, answered.function, x.astype(np.float64), element, *words, **answered.kwargs)
        answer = run_once(call)
        if not isinstance(answer, NoAnswer):
            numbers.enter("refusal", label, place, lambda: answer)
            if answered.function == "encode":
                _judge_beside_ties(numbers)
        elif answer.kind in REFUSALS:
            _settle_refused(numbers, label)
    label = "fewer random words than numbers"
    if words and numbers.keeps(label):
        answer = run_once(partial(session.call, answered.function, x, element, words[0][:16], **answered.kwargs))
        if isinstance(answer, NoAnswer) and answer.kind in REFUSALS:
            _settle_refused(numbers, label)
        else:
            text = f"codes came back for {FEW} numbers and 16 random words; refuse such a call"
            numbers.settle("refusal", label, ok=False, text=text)


def _settle_refused(numbers: Numbers, label: str) -> None:
    """Count a call that was refused, rightly; the call after it is as any other."""
    numbers.settle("refusal", label, ok=True, text="")
    place = numbers.draw(FEW, 74)
    numbers.enter("state", f"after a refusal, {label}", place, partial(numbers.ask, place))


def _judge_beside_ties(numbers: Numbers) -> None:
    """Numbers in float64 beside ties."""
    element = get_scalar(numbers.answered.name)
    if not numbers.keeps(beside_ties.LABEL) or element.max_code < 4:
        return
    ties = beside_ties.list_beside_ties(element)
    ask = partial(numbers.session.call, "encode")
    answers = [run_once(partial(ask, x, element.name)) for x in (ties.exact, ties.nearest, ties.beside)]
    if not any(isinstance(a, NoAnswer) for a in answers):
        ok = any(np.array_equal(answers[0], a) for a in answers[1:])
        numbers.settle("refusal", beside_ties.LABEL, ok=ok, text=beside_ties.TEXT)


def _judge_wide_codes(numbers: Numbers) -> None:
    """Codes in wider integers: refused, or read by their value."""
    answered, session = numbers.answered, numbers.session
    for dtype in ("int32", "int64"):
        label = f"codes in {dtype}"
        if not numbers.keeps(label):
            continue
        place = numbers.draw(FEW, 75)
        codes, element = answered.arguments(place)
        answer = run_once(partial(session.call, "decode", codes.astype(dtype), element, **answered.kwargs))
        if not isinstance(answer, NoAnswer):
            numbers.enter("refusal", label, place, partial(_given, answer))
        elif answer.kind in REFUSALS:
            _settle_refused(numbers, label)


def _judge_special(numbers: Numbers, told: str) -> None:
    """Whether a call with NaN, infinities and zeros writes into its input."""
    answered, session, label = numbers.answered, numbers.session, f"{FEW} numbers{told} with NaN: input afterwards"
    if answered.function == "decode" or not numbers.keeps(label):
        return
    x, element, *words = answered.arguments(numbers.draw(FEW, 71))
    x = x.copy()
    x[::5] = np.resize(np.array([np.nan, np.inf, -np.inf, 0, -0.0, -np.nan], x.dtype), len(x[::5]))
    wrote = run_once(partial(session.call, "wrote", answered.function, x, element, *words, **answered.kwargs))
    if not isinstance(wrote, NoAnswer):  # judged elsewhere
        numbers.settle("call-size", label, ok=not wrote, text="the call wrote into its input")
