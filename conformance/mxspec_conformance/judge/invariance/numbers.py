"""Single numbers in calls as large as kernels are called with: sizes at which a grid, a counter or a buffer ends."""

from __future__ import annotations

from functools import partial

import numpy as np

from mxspec_conformance.judge.invariance.answered import Answered, call_failure
from mxspec_conformance.judge.invariance.calls import NUMBERS
from mxspec_conformance.judge.invariance.pace import LARGEST_OF, Speed, measure_speed
from mxspec_conformance.judge.invariance.pools import draw_places
from mxspec_conformance.judge.invariance.states import LOCAL, REPEATS, ROUNDS, THREADS
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS, keeps_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession

#: Seconds that the same call again and again may take, of one function and format.
REPEAT_SECONDS = 0.3


def judge_number_counts(session: TargetSession, answered: Answered, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter calls with many numbers that were answered before; returns the first one that differs, by requirement."""
    first: dict[str, Failure] = {}

    def call(count: int, salt: int = 0) -> object:
        place = draw_places(count, len(answered.before), salt)
        return session.call(answered.function, *answered.arguments(place), **answered.kwargs)

    speed = Speed.FAST if session.transport in LARGEST_OF else measure_speed(lambda count: run_once(partial(call, count)))
    largest = min(speed.largest, LARGEST_OF.get(session.transport, speed.largest))
    for number, count in enumerate(NUMBERS, 1):
        label = f"{count} numbers"
        quick = count == 65536
        if count > largest or not keeps_call(CALLS, f"{scorecard.operation}/{scorecard.format}", label, quick=quick):
            continue
        answer = run_once(partial(call, count, number))
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer("call-size", label, answer)
            continue
        place = draw_places(count, len(answered.before), number)
        wrong = answered.differ(answered.rows(answer), answered.before[place]).any(axis=1)
        scorecard.count("call-size", label, ok=not wrong.any())
        if wrong.any():
            text = f"{int(wrong.sum())} of {count} numbers got other bits than in another call; the first is number {int(np.argmax(wrong))}"
            first.setdefault(scorecard.tally("call-size").id, call_failure(label, text))
    if session.transport in LOCAL and speed is not Speed.CRAWLING:
        place = draw_places(40, len(answered.before), 77)
        again = partial(session.call, "repeated", REPEATS, REPEAT_SECONDS, answered.function, *answered.arguments(place))
        pairs = [answered.arguments(draw_places(3000, len(answered.before), 80 + i)) for i in range(THREADS)]
        at_once = partial(session.call, "threads", ROUNDS, answered.function, pairs)
        for label, ask, text in (
            (f"the same call {REPEATS} times", again, "call {} of {} equal ones returned other bits than the first"),
            (f"{THREADS} threads", at_once, "{} of {} calls returned other bits when threads called at once"),
        ):
            if not keeps_call(CALLS, f"{scorecard.operation}/{scorecard.format}", label, quick=False):
                continue
            answer = run_once(partial(ask, **answered.kwargs))
            if isinstance(answer, NoAnswer):
                scorecard.count_no_answer("state", label, answer)
                continue
            found, made = answer
            bad = found >= 0 if ask is again else found > 0
            scorecard.count("state", label, ok=not bad)
            if bad:
                first.setdefault(scorecard.tally("state").id, call_failure(label, text.format(found + (ask is again), made)))
    return first
